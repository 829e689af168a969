"""W and key bias of every head: log-odds of weights are linear in tokens, for one last token after the other.

A head gives a token n, t places before the last one q, `log(weight / weight of the last) = n.k_t(q) + beta_t(q)`, with
`k_t = W(t) q + key_bias(t)`. Without positions no t appears, and what is left for the last token is `beta = -q.k(q)`.
Several tokens at once are read from one answer, as many as half of what a head has outputs. Last tokens that stand all
around the sphere then give W and the key bias, by least squares; each has a misfit of its own, so that one at which a
neuron of the network behind turns on in between is noticed, and another one taken.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from ...._errors import NotConverged
from ...._linalg import random_rotation, unit
from ...._oracles import LongToken
from .heads import SHARED, Readings, sharers
from .key_spaces import SPARE_LAST, Fitted, few_dimensions, turn
from .rows import MOST_DROPPED

TOKENS_EACH = 0.6  # of a head's rank: tokens at once
TOKENS_EACH_UNKNOWN = 1.2, 2.0  # over unknowns, where keys are in no known space and where they are
LOST_ERRORS = 1e4  # errors: a weight below that is lost in them, and says nothing
MISFITTING, LEAST_WORTH = 30.0, 0.1  # times the typical misfit, and how well keys are typically known
REDRAWS, NEARBY = 4, 0.3  # of last tokens, by others in nearly the same direction
ANGLES = np.pi / 2, 1.0, 0.5, 0.25, 0.1  # between keys and last tokens
NARROWEST_ANGLE = 0.3  # times that angle, where positions matter
LEAST_DETERMINED = 1e-3  # of the best determined direction of a key: less, and weights there are 0 or 1
LEAVES_SPACE = 2e5  # errors: keys leave a space by so many at most
LARGE = 2**18  # numbers in a matrix of least squares: larger ones take a tenth of a second each
REFINED, POWERS = 3, 30  # solutions, each of what the last one left, and powers of a matrix that show its largest value
MOST_LOST = 1e-3  # where errors are so large that this is less than they say


@dataclass(frozen=True)
class KeysRead:
    """What heads make of last tokens `q (j, p)`: `keys (h, t, j, p)`, `rest (h, t, j)`, how well they are known, and in
    how many dimensions the keys of each head lie, where that showed."""

    q: np.ndarray
    keys: np.ndarray
    rest: np.ndarray
    worth: np.ndarray
    ranks: tuple[int, ...] | None = None

    def affine(self, h: int, t: int) -> tuple[np.ndarray, np.ndarray]:
        """`W (p, p)` and the key bias of a head."""
        A, worth = np.hstack([self.q, np.ones((len(self.q), 1))]), self.worth[h, t][:, None]
        solved = np.linalg.lstsq(worth * A, worth * self.keys[h, t], rcond=None)[0]
        return solved[:-1].T, solved[-1]


def read_log_odds(view: LongToken, heads: Readings, keys: np.ndarray, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The log-odds of each token `(b, h, n)` against the last one, and the inverse of their errors, for answers off by
    one."""
    weights, inverses = heads.read_weights(view, keys, q)
    last = 1 - weights.sum(axis=-1, keepdims=True)
    least = view.errors(LOST_ERRORS, MOST_LOST)
    low, high = np.maximum(weights, least), np.maximum(last, least)
    noise = np.stack([np.linalg.norm(inverse, axis=1) for inverse in inverses], axis=1)
    noise_last = np.stack([np.linalg.norm(inverse.sum(axis=2), axis=1) for inverse in inverses], axis=1)[..., None]
    seen = (weights > least) & (last > least)
    return np.log(low / high), seen / (noise / low + noise_last / high)


def tokens_around(view: LongToken, rng: np.random.Generator) -> np.ndarray:
    """All around the sphere, and a few opposite ones, which tell the key bias."""
    frame = view.sphere.radius * random_rotation(view.sphere.size, rng)
    return np.concatenate([frame, -frame[:SPARE_LAST]])


@dataclass
class Fits:
    """Reads the keys of one last token after another, `offsets` of them for as many places before it, or one for all
    where positions do not matter. Once those of every head lie in a space of few dimensions, only that part of them is
    asked for: `spaces`."""

    view: LongToken
    heads: Readings
    rng: np.random.Generator
    offsets: int
    each: int
    groups: list[list[int]]  # heads that share their values, and may share their keys
    angle: float = ANGLES[0]
    spaces: list[np.ndarray] | None = None
    turns: list[np.ndarray] = field(default_factory=list[np.ndarray])

    def read_near(self, q: np.ndarray) -> tuple[np.ndarray, Fitted]:
        """Reads scores at q, or at another last token not too far away where a head sees nothing but q, at an angle at
        which weights are neither 0 nor 1."""
        for draw in range(REDRAWS):
            for angle in [angle for angle in ANGLES if angle <= self.angle]:
                found = self.read_at_angle(q, angle)
                if np.isfinite(found.misfit):
                    self.angle = angle
                    return q, found
            q = self.nearby(q, NEARBY * 2.0**draw)
        raise NotConverged("the weights of tokens are too uneven to be read, even close to each other")

    def nearby(self, q: np.ndarray, far: float = NEARBY) -> np.ndarray:
        return self.view.sphere.onto(q + far * self.view.sphere.random((), self.rng))

    def read_at_angle(self, q: np.ndarray, angle: float) -> Fitted:
        p, H, places = self.view.sphere.size, len(self.heads.N), max(1, self.offsets)
        each = self.offsets or self.each
        if self.spaces is None:
            unknowns = (p + 1) * places if self.offsets else p
        else:
            unknowns = max(space.shape[1] for space in self.spaces) + self.offsets
        blocks = max(2, -(-int(TOKENS_EACH_UNKNOWN[self.spaces is not None] * unknowns) // each))
        # At one angle the part of a key along q could not be told from what is left for the last token.
        angles = angle * self.rng.uniform(NARROWEST_ANGLE if self.offsets else 1.0, 1.0, blocks * each)
        keys = self.view.sphere.around(q, blocks * each, angles, self.rng).reshape(each, blocks, p).swapaxes(0, 1)
        s, worth = (x[..., ::-1] for x in read_log_odds(self.view, self.heads, keys, q))  # the closest token first
        D, k, (rest, sure), worst = (keys - q)[:, ::-1], np.zeros((H, places, p)), np.zeros((2, H, places)), 0.0
        for h in range(H):
            for A, basis, t in self.equations(D, h):
                x, misfit, sure[h, t] = weighted_fit(A, s[:, h, t].reshape(-1), worth[:, h, t].reshape(-1))
                r = basis.shape[-1]
                k[h, t], worst = basis @ x[:r], max(worst, misfit)
                rest[h, t] = -k[h, t] @ q + (x[r:] if self.offsets else 0.0)
        return Fitted(k, rest, sure, worst)

    def equations(self, D: np.ndarray, h: int) -> Iterator[tuple[np.ndarray, np.ndarray, slice]]:
        """Matrices of least squares for the keys of one head, the bases `(t, p, r)` in which they give keys, and the
        places these are for: each place by itself until it is known how keys turn, and then all together."""
        (count, _, p), n = D.shape, self.offsets
        if not n:
            space = np.eye(p) if self.spaces is None else self.spaces[h]
            yield D.reshape(-1, p) @ space, space[None], slice(None)
        elif self.spaces is None:
            for t in range(n):
                yield np.hstack([D[:, t], np.ones((count, 1))]), np.eye(p)[None], slice(t, t + 1)
        else:
            bases = np.stack([self.spaces[h] @ np.linalg.matrix_power(self.turns[h], t) for t in range(n)])
            own = np.broadcast_to(np.eye(n), (count, n, n))
            A = np.concatenate([np.einsum("btp,tpr->btr", D, bases), own], axis=2)
            yield A.reshape(count * n, -1), bases, slice(None)

    def set_spaces(self, found: list[Fitted]) -> None:
        """Whether keys so far lie in spaces of few dimensions; how they turn there from one place to the next."""
        spaces = few_dimensions(found, self.groups, self.view.errors(LEAVES_SPACE, MOST_LOST))
        if spaces is None:
            return
        self.spaces = [space for space, _ in spaces]
        if self.offsets:
            self.turns = [turn(np.concatenate([one.k[of] for one in found]).swapaxes(0, 1), U) for U, of in spaces]


def weighted_fit(A: np.ndarray, b: np.ndarray, worth: np.ndarray) -> tuple[np.ndarray, float, float]:
    """Least squares, the misfit in units of answers, infinite where the rows that count do not do, and how far off an
    answer has to be for what is found to be off by one, typically."""
    weighted, wanted = worth[:, None] * A, worth * b
    if A.size > LARGE and len(b) >= A.shape[1]:
        x, determined, sure = from_normal_equations(weighted, wanted)
    else:
        x, _, _, s = np.linalg.lstsq(weighted, wanted, rcond=None)
        determined = s[-1] > LEAST_DETERMINED * s[0]
        sure = float(1 / np.linalg.norm(1 / s)) if determined else 0.0
    if not determined:
        return x, np.inf, 0.0
    misfit = np.linalg.norm(weighted @ x - wanted) / np.sqrt(max(1, len(b) - A.shape[1]))
    return x, float(misfit), sure


def from_normal_equations(A: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, bool, float]:
    """Least squares by the normal equations, several times faster for large matrices: digits that are lost to squaring
    a condition of at most `1 / LEAST_DETERMINED` come back by solving for what is left."""
    gram, zero = A.T @ A, np.zeros(A.shape[1])
    try:
        factor = cho_factor(gram)
    except np.linalg.LinAlgError:
        return zero, False, 0.0
    inverse = cho_solve(factor, np.eye(len(gram)))
    x, least, most = zero, np.ones(len(gram)), np.ones(len(gram))
    for _ in range(REFINED):
        x = x + cho_solve(factor, A.T @ (b - A @ x))
    for _ in range(POWERS):
        most, least = unit(gram @ most), unit(inverse @ least)
    ratio = np.linalg.norm(gram @ most) * np.linalg.norm(inverse @ least)
    return x, bool(ratio * LEAST_DETERMINED**2 < 1), float(1 / np.sqrt(np.trace(inverse)))


def read_all_keys(view: LongToken, heads: Readings, offsets: int, rng: np.random.Generator) -> KeysRead:
    """For tokens up to so many places before the last, or for all of them alike where positions do not matter."""
    hidden = int(np.any(view.unseen(view.sphere.random((1,), rng))))
    groups = sharers(heads, hidden, view.errors(SHARED, MOST_DROPPED))
    fits = Fits(view, heads, rng, offsets, max(1, int(TOKENS_EACH * (heads.capacity - hidden))), groups)
    tokens = tokens_around(view, rng)
    found: list[Fitted] = []
    for j, q in enumerate(tokens):
        tokens[j], one = fits.read_near(q)
        found.append(one)
        if fits.spaces is None:
            fits.set_spaces([one for one, fine in zip(found, usual(found), strict=True) if fine])
    for _ in range(REDRAWS):  # last tokens at which scores do not fit
        for j in np.flatnonzero(~usual(found)):
            tokens[j], found[j] = fits.read_near(fits.nearby(tokens[j]))
    k, rest, worth = (
        np.moveaxis(np.stack([getattr(one, name) for one in found]), 0, 2) for name in ("k", "rest", "worth")
    )
    ranks = None if fits.spaces is None else tuple(space.shape[1] for space in fits.spaces)
    return KeysRead(tokens, k, rest, worth, ranks)


def usual(found: list[Fitted]) -> np.ndarray:
    """Which last tokens say as much as others, and nothing else."""
    misfit, worth = np.array([one.misfit for one in found]), np.stack([one.worth for one in found])
    least = np.min(worth / np.median(worth, axis=0), axis=(1, 2))
    return (misfit <= MISFITTING * np.median(misfit)) & (least >= LEAST_WORTH)
