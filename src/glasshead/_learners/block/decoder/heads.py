"""Each head's own outputs and what it reads of tokens, and the attention weights that follow from an answer.

Rows (`rows`) show both up to the scale of weights, and mixtures of heads that share their values. The law of odds
settles that: (weight of a token) over (weight of the last one) does not change when further tokens come in front.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linear_sum_assignment

from ...._errors import NotConverged
from ...._linalg import LEAST_DIVISOR, NullSpace, norms, svd
from ...._oracles import LongToken
from .rows import FAR_OFF, MOST_DROPPED, SPARE_ROWS, KeyAnswers, best_null_spaces, read_key_answers
from .spaces import read_looks

ROW_ANGLES = 0.5, 0.2, 1.2  # between keys and last tokens, on the sphere: the only length that there is
DRAWS = 6  # of a last token
NO_HEADS = (
    "value maps have to add up in the outputs, without a norm between heads and residual connection (a sandwich norm); "
    "heads that are wider than the model together show only where positions tell them apart, and those of width 4 or "
    "less are of so small a rank that nothing may be left to tell them apart by"
)
SHARED = 2e6  # errors, between spaces that two heads read, at most, where they are the same
MAPPED_AT, MAPPED_TOKENS = 8, 3  # last tokens, and tokens at once, where outputs are no head's alone
ODDS_SAMPLES, ODDS_ROUNDS = 16, 6  # of the law of odds: pairs of sequences, and Newton's steps


@dataclass(frozen=True)
class Readings:
    """For each head, outputs `N (s, r)` that only it reaches, and what it reads of tokens there, `C (p, r)`."""

    N: list[np.ndarray]
    C: list[np.ndarray]

    @property
    def ranks(self) -> tuple[int, ...]:
        return tuple(C.shape[1] for C in self.C)

    @property
    def capacity(self) -> int:
        """How many numbers of an answer there are for the weights of each head."""
        return min(self.ranks)

    def read_weights(self, view: LongToken, keys: np.ndarray, q: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
        """The weights `(b, h, n)` of all tokens but the last, for `keys (b, n, p)`, and for each head
        the map `(b, r, n)` from its outputs, through which errors come."""
        last = np.broadcast_to(q, (len(keys), keys.shape[2]))
        return self.weights_in(view, view(keys, q), keys, last)

    def weights_in(
        self, view: LongToken, y: np.ndarray, keys: np.ndarray, last: np.ndarray
    ) -> tuple[np.ndarray, list[np.ndarray]]:
        """The weights and maps that `read_weights` gives, from answers y in hand."""
        D, lost = keys - last[:, None], view.unseen(last)
        each = [weights_of(N, C, y, D, lost) for N, C in zip(self.N, self.C, strict=True)]
        return np.stack([weights for weights, _ in each], axis=1), [inverse for _, inverse in each]

    def value_maps(self) -> np.ndarray:
        """`P_h (h, p, s)`: of all maps that agree with what heads read, those with no output beyond."""
        ends, inverse = np.cumsum(self.ranks)[:-1], np.linalg.pinv(np.hstack(self.N))
        return np.stack([C @ R for C, R in zip(self.C, np.split(inverse, ends), strict=True)])


def weights_of(
    N: np.ndarray, C: np.ndarray, y: np.ndarray, D: np.ndarray, lost: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    Y, read = y @ N, D @ C
    if np.any(lost):  # the direction that is not seen at this last token drops out
        away = lost @ N
        away = away / np.maximum(norms(away), LEAST_DIVISOR)[:, None]
        Y = Y - np.sum(Y * away, axis=1, keepdims=True) * away
        read = read - (read @ away[:, :, None]) * away[:, None, :]
    if not np.isfinite(read).all():
        raise NotConverged("what heads read of tokens does not come out as numbers")
    inverse = np.linalg.pinv(read)
    return np.einsum("br,brn->bn", Y, inverse), inverse


def read_heads(view: LongToken, rng: np.random.Generator, draws: range = range(DRAWS)) -> tuple[Readings, float]:
    """All heads, and the angle between keys and last tokens that suits them: from one last token, or from two where
    each hides a direction."""
    hidden = int(np.any(view.unseen(view.sphere.random((1,), rng))))
    found = [read_somewhere(view, rng, draws) for _ in range(1 + hidden)]
    angle = min(angle for _, angle in found)
    return (joined_readings(found[0][0], found[1][0]) if hidden else found[0][0]), angle


def read_somewhere(view: LongToken, rng: np.random.Generator, draws: range) -> tuple[Readings, float]:
    """Heads at the first last token and angle at which they show, by fine differences at every other one."""
    reason = ""
    for draw in draws:
        q = view.sphere.random((), rng)
        if view.read_kink(q, rng):
            continue
        try:
            rows = read_key_answers(view, q, ROW_ANGLES[0], rng)
            ways = read_looks(view, rows.outputs, q, rng, fine=draw % 2 == 1)
        except NotConverged as error:
            reason = str(error)
            continue
        for angle in ROW_ANGLES:
            try:
                rows = rows if angle == ROW_ANGLES[0] else read_key_answers(view, q, angle, rng, rows.outputs)
                return read_unmixed(view, rows, best_null_spaces(view, rows, ways), angle, rng), angle
            except NotConverged as error:
                reason = str(error)
    raise NotConverged(f"{reason}: {NO_HEADS}")


def read_unmixed(
    view: LongToken, rows: KeyAnswers, found: list[NullSpace], angle: float, rng: np.random.Generator
) -> Readings:
    """The heads with weights that are weights, unmixed where several share their values."""
    o = rows.y.shape[1]
    mixed = Readings([rows.outputs @ space.basis[:o] for space in found], [space.basis[o:] for space in found])
    few = max(1, min(mixed.ranks) // 4)
    keys = np.stack([view.sphere.around(rows.q, 2 * few, angle, rng) for _ in range(ODDS_SAMPLES)])
    less, more = (mixed.read_weights(view, x, rows.q)[0] for x in (keys[:, few:], keys))
    N, C, (Y, Z) = [], [], rows.padded
    for group in sharers(mixed, int(np.any(view.unseen(rows.q[None]))), view.errors(SHARED, MOST_DROPPED)):
        for rho in unmixed(less[:, group], more[:, group], few):
            weights = rho @ np.stack([rows.weights(found[h]) for h in group])
            A = Y - weights[:, None] * Z
            left = norms(A @ svd(A, full=True)[2][-mixed.ranks[group[0]] :].T)
            basis = svd(A[left <= FAR_OFF * np.median(left)], full=True)[2][-mixed.ranks[group[0]] :].T
            N.append(rows.outputs @ basis[:o])
            C.append(basis[o:])
    return Readings(N, C)


def sharers(heads: Readings, hidden: int, apart: float) -> list[list[int]]:
    """Heads that read the same of tokens, but for as many dimensions as are hidden at a last token."""
    bases = [np.linalg.qr(C)[0] for C in heads.C]
    groups: list[list[int]] = []
    for h, basis in enumerate(bases):
        for group in groups:
            other = bases[group[0]]
            cosines = np.linalg.svd(other.T @ basis, compute_uv=False) if other.shape == basis.shape else np.zeros(1)
            if np.all(1 - cosines[: len(cosines) - hidden] <= apart**2):
                group.append(h)
                break
        else:
            groups.append([h])
    return groups


def law_of_odds(less: np.ndarray, more: np.ndarray, few: int) -> tuple[np.ndarray, np.ndarray]:
    """F and the linear part of the law, `(n, h, h)` and `(n, h)`."""
    a, b = less, more[..., few:]
    all_a, all_b = less.sum(axis=-1), more.sum(axis=-1)
    F = np.einsum("jht,jg->jthg", a, all_b) - np.einsum("jht,jg->jthg", b, all_a)
    return F.reshape(-1, *F.shape[2:]), (a - b).swapaxes(1, 2).reshape(-1, a.shape[1])


def unmixed(less: np.ndarray, more: np.ndarray, few: int) -> list[np.ndarray]:
    """The combinations rho of sharers' weights that obey the law of odds, one near each of them.

    `(rho.a_i) (1 - rho.b) = (rho.b_i) (1 - rho.a)`, where a and b are mixed weights in the shorter and the longer
    sequence, of a token i and of all: `rho.(a_i - b_i) = rho F rho`.
    """
    F, linear = law_of_odds(less, more, few)
    found = []
    for h in range(linear.shape[1]):
        square = F[:, h, h]
        rho = np.eye(linear.shape[1])[h] * float(linear[:, h] @ square) / float(square @ square)
        for _ in range(ODDS_ROUNDS):
            slope = linear - F @ rho - np.einsum("g,ngh->nh", rho, F)
            left = linear @ rho - np.einsum("g,ngh,h->n", rho, F, rho)
            kept = np.abs(left) <= FAR_OFF * np.median(np.abs(left))
            rho = rho - np.linalg.lstsq(slope[kept], left[kept], rcond=None)[0]
        found.append(rho)
    return found


def joined_readings(one: Readings, other: Readings) -> Readings:
    """Heads seen at two last tokens, each of which hides a direction of the outputs."""
    bases = [[np.linalg.qr(N)[0] for N in heads.N] for heads in (one, other)]
    alike = np.array([[np.sum((x.T @ y) ** 2) for y in bases[1]] for x in bases[0]])
    N, C = [], []
    for i, j in zip(*linear_sum_assignment(-alike), strict=True):
        both, reads = np.hstack([one.N[i], other.N[j]]), np.hstack([one.C[i], other.C[j]])
        U, s, Vt = svd(both)
        rank = one.ranks[i] + 1
        N.append(U[:, :rank])
        C.append(reads @ Vt[:rank].T / s[:rank])
    return Readings(N, C)


def read_maps(view: LongToken, heads: Readings, angle: float, rng: np.random.Generator) -> np.ndarray:
    """`P_h (h, p, s)`. Where a direction of the residual connection never shows, some outputs are no head's alone:
    what all heads together do there is taken apart by their weights, which are known, in sequences of a few tokens."""
    maps, sphere = heads.value_maps(), view.sphere
    count, p, s = maps.shape
    if not view.normed or sum(heads.ranks) >= s:
        return maps
    known = np.linalg.qr(np.hstack(heads.N))[0]
    shared = np.eye(s) - known @ known.T
    q = sphere.random((MAPPED_AT,), rng)
    each = -(-int(SPARE_ROWS * count * p) // MAPPED_AT)
    last = np.repeat(q, each, axis=0)
    keys = np.concatenate([sphere.around(one, each * MAPPED_TOKENS, angle, rng) for one in q])
    keys = keys.reshape(len(last), MAPPED_TOKENS, p)
    y = view(keys, last)
    weights = heads.weights_in(view, y, keys, last)[0]
    moved = np.einsum("bhn,bnp->bhp", weights, keys - last[:, None])
    lost = view.unseen(last)
    there = np.einsum("bhp,hps->bs", moved, maps) @ known  # what is seen, and what is lost along the last token
    along = lost @ known
    part = np.sum((there - y @ known) * along, axis=1) / np.sum(along**2, axis=1)
    beyond = np.linalg.lstsq(moved.reshape(len(last), -1), (y + part[:, None] * lost) @ shared, rcond=None)[0]
    return maps + beyond.reshape(maps.shape)
