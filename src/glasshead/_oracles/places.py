"""Position vectors that are added to tokens in front of a block with a norm, and the box without them.

The box answers `g(X + P[:n])`, and g does not care for places. To copies of one token it answers as to that token
alone, so `f([z, z - c_1, z - c_2, ..]) = f([z])` with `c_t = p_t - p_0`. Where z is long, what g puts behind the last
token tells hardly any places apart, while the residual connection adds the last one as it is: each c is then off by the
difference of these answers, but for a share that falls with the length, and a few rounds make that exact. p_0 itself is
where rays begin along which a key, behind a norm, is answered alike.
"""

from __future__ import annotations

import numpy as np
from numpy.linalg import norm

from .._errors import NotConverged
from .._linalg import norms
from .._types import Float
from .base import DOUBLE, Oracle, Wrapper
from .long_token import LongToken, find_long_token
from .plain_places import find_plain_positions
from .sphere import Sphere, find_sphere, key_length

PLACES = 64  # as many as the judge asks about
CORRECTIONS = 6  # of corrections, each of which leaves a share of less than a hundredth
ROUNDED = 16.0  # roundings of the longest token: less is no correction
COPIES, COPIES_OFF = (2, 5), 1e-6  # of an ordinary token, and at all places; how far off answers to them may be
# Roundings of the largest vector, of one head alone: 2 to 50 of 60 heads, up to 900 where scores of vectors are large;
# 1e7 and more where scores are capped at 2,000.
TOKENS_ROUNDED = 1024.0
STILL_OFF = 1e-8  # of the largest vector: what is farther off in the end is no such table
RAY_LENGTHS = 2.0 ** np.arange(4, 8)  # of keys, over ordinary ones: their eps shows in the square of 1 / length only
MOST_RAYS, RAY_ANGLE, RAY_STEP = 16, 0.5, 1e-6  # keys, their angle from the last token, and steps of differences
KNOWN_ORIGIN = 1e-6  # of the best determined direction of p_0: less than that shows in no answer


class Unplaced(Wrapper):
    """The box on tokens from which position vectors `(N, d)` have been taken away, as many as there are tokens: heads
    behind a norm, or `one_head` alone. `outputs` is how many numbers an answer holds."""

    positions: Float[np.ndarray, "N d"]

    def __init__(self, inner: Oracle, positions: Float[np.ndarray, "N d"], outputs: int, one_head: bool = False):
        super().__init__(inner)
        self.outputs, self.one_head = outputs, one_head
        self.set_positions(positions)

    def set_positions(self, positions: Float[np.ndarray, "N d"]) -> None:
        """Tokens that are asked for are as much shorter than the longest that the box takes."""
        self.positions = positions
        if self.inner.max_norm is not None:
            self.max_norm = self.inner.max_norm - float(norms(positions).max())
            if self.max_norm <= 0:
                raise NotConverged(f"they are longer than max_norm = {self.inner.max_norm:g}")

    def __call__(self, X: np.ndarray) -> np.ndarray:
        if X.shape[1] > len(self.positions):
            raise NotConverged(f"it takes {X.shape[1]} tokens to go on, and {len(self.positions)} places are known")
        return self.inner(X - self.positions[: X.shape[1]])


def find_places(oracle: Oracle, rng: np.random.Generator, places: int | None = None) -> Unplaced:
    """The box without the vectors of so many places, `PLACES` unless told. `NotConverged` says why there are none: it
    is not such vectors that make the order matter, or answers behind a norm hold fewer numbers than a token, which do
    not show them. In front of one head alone they take more queries than the head: they have to be asked for."""
    outputs = np.size(oracle(np.zeros((1, 1, oracle.dim)))[0])
    sphere = None if outputs < max(oracle.dim, 2) else find_sphere(oracle, rng, {key_length(oracle): STILL_OFF})
    if sphere is not None:
        table = read_differences(find_long_token(oracle, sphere, rng), places or PLACES, rng)
    elif places is None:
        raise NotConverged(f"{no_norm(oracle, outputs)}; for those in front of one head say places=, at how many")
    else:
        table = find_plain_positions(oracle, places, rng)
    if table is None and sphere is None:
        raise NotConverged(f"{no_norm(oracle, outputs)}, and it is not one head whose values hide a direction")
    if table is None:
        raise NotConverged(f"answers to copies of long tokens settle on none{limits_of(oracle)}")
    unplaced = Unplaced(oracle, table, outputs, one_head=sphere is None)
    check_copies(unplaced, rng)
    if sphere is not None:
        unplaced.set_positions(table + read_origin(oracle, sphere, rng))
    return unplaced


def no_norm(oracle: Oracle, outputs: int) -> str:
    few = "answers of fewer numbers than a token has do not show them behind a norm"
    return few if outputs < max(oracle.dim, 2) else f"no norm shows in front of heads{limits_of(oracle)}"


def limits_of(oracle: Oracle) -> str:
    """What may be why nothing shows."""
    longest = "" if oracle.max_norm is None else f", with tokens up to max_norm = {oracle.max_norm:g}"
    return longest + ("" if oracle.roundoff == DOUBLE else f", in answers of {-np.log10(oracle.roundoff):.0f} digits")


def check_copies(unplaced: Unplaced, rng: np.random.Generator) -> None:
    """Refuses where copies of an ordinary token are not answered like that token, at several lengths. One head is
    promised to answer as well as tokens are rounded beside vectors, which short tokens are lost in, and is held to
    that."""
    z = rng.standard_normal(unplaced.dim) * min(1.0, unplaced.reach / (4 * np.sqrt(unplaced.dim)))
    lengths = (1, *COPIES, len(unplaced.positions))
    one, *more = (np.atleast_1d(unplaced(np.tile(z, (1, n, 1)))[0]) for n in lengths)
    off, size = max(float(norm(y - one)) for y in more), float(norm(one))
    allowed = COPIES_OFF * size
    if unplaced.one_head:
        beside = max(1.0, float(norms(unplaced.positions).max()))
        unplaced.tolerance = TOKENS_ROUNDED * unplaced.roundoff * beside * size
        allowed = min(allowed, unplaced.tolerance)
    if not off <= allowed:
        raise NotConverged(f"without them copies of a token are answered {off / (size or 1.0):.1g} apart")


def read_differences(view: LongToken, places: int, rng: np.random.Generator) -> Float[np.ndarray, "N d"] | None:
    """`p_t - p_0` of each place, from copies of long tokens: one, or two where each hides a direction."""
    d, length = view.oracle.dim, float(view.lengths[-1])
    table, stream = np.zeros((places, d)), np.eye(d) if view.stream is None else view.stream
    q = view.sphere.random((1 + view.normed,), rng)
    z = length * q @ view.sphere.basis
    alone, lost = view.ask(z[:, None]), view.unseen(q)
    shown = np.eye(stream.shape[1]) - lost.T @ lost / len(q)
    if np.linalg.matrix_rank(shown) < len(shown):
        raise NotConverged("a last norm hides all that answers show of them")
    off, rounding = np.inf, ROUNDED * view.oracle.roundoff * float(norms(z).max())
    for _ in range(CORRECTIONS):
        off = 0.0
        if float(norms(z).max() + norms(table).max()) > view.oracle.reach:
            raise NotConverged(f"tokens up to {view.oracle.reach:.3g} are too short for them beside long ones")
        for n in range(2, places + 1):
            moved = (view.ask(z[:, None] - table[:n]) - alone) * (length if view.normed else 1.0)
            moved = view.seen(moved if view.back is None else moved @ view.back, q)
            change = stream @ np.linalg.solve(shown, moved.mean(axis=0))
            table[n - 1] += change
            off = max(off, float(np.linalg.norm(change)))
        if off <= rounding:
            break
    least = STILL_OFF * float(norms(table).max())
    return table if off <= least and rounding <= least / STILL_OFF**0.5 else None  # and not 0 but for rounding


def read_origin(oracle: Oracle, sphere: Sphere, rng: np.random.Generator) -> Float[np.ndarray, " d"]:
    """p_0: the answer to a key `s u - p_0` has no part that falls with 1 / s."""
    d, length = oracle.dim, RAY_LENGTHS[-1]
    if 2 * length * sphere.radius > oracle.reach:
        raise NotConverged(f"tokens up to {oracle.reach:.3g} are too short for the first of them")

    def ask(keys: np.ndarray, last: np.ndarray) -> np.ndarray:
        flat, lasts = keys.reshape(-1, d), np.broadcast_to(last, keys.shape).reshape(-1, d)
        return np.asarray(oracle(np.stack([flat, lasts], axis=1))).reshape(*keys.shape[:-1], -1)

    rays, lasts, slopes = np.zeros((0, d)), np.zeros((0, d)), np.zeros((0, d))
    while len(rays) < MOST_RAYS and np.linalg.matrix_rank(slopes, KNOWN_ORIGIN * norm(slopes)) < sphere.size:
        q = sphere.random((), rng)
        u, last = sphere.around(q, 1, RAY_ANGLE, rng) @ sphere.basis, q @ sphere.basis
        here, *there = ask(length * (u + RAY_STEP * np.eye(d + 1, d, -1)), last)
        slopes = np.concatenate([slopes, ((there - here) / RAY_STEP).T])
        rays, lasts = np.concatenate([rays, u]), np.concatenate([lasts, last[None]])
    origin, fall = np.zeros(d), slope_weights(1 / RAY_LENGTHS)
    for _ in range(CORRECTIONS):
        falls = np.einsum("l,rlk->rk", fall, ask(RAY_LENGTHS[:, None] * rays[:, None] - origin, lasts[:, None]))
        change = np.linalg.lstsq(slopes, falls.reshape(-1), rcond=KNOWN_ORIGIN)[0]
        origin = origin + change
        if norm(change) <= STILL_OFF * STILL_OFF**0.5 * norm(origin):
            break
    return origin @ sphere.basis.T @ sphere.basis  # what the norm forgets is left at 0


def slope_weights(x: np.ndarray) -> np.ndarray:
    """The weights of values at x in the slope at 0 of the polynomial through them."""
    return np.linalg.inv(np.vander(x, increasing=True))[1]
