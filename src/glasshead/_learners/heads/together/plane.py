"""A first guess in a plane of keys: there a head is four numbers, and all keys that it could have fit on a grid.

Greedily: the gate of the grid that explains most of what is left, with all others free to move along, then all heads
refined together. Where it ends, it ends at rounding: a wrong set of heads leaves a thousandth of the answers, not a
billionth, so nothing has to be decided. Heads with parallel values or with proportional keys are no special case.
"""

from __future__ import annotations

import numpy as np

from ...._types import Float
from .fit import EvenPart, Pairs, fitted_pairs, pair_jacobian, with_best_values

POINTS_PER_HEAD, POINTS_SPARE = 24, 48  # points for each head, and beyond
RENEWED = 4, 14  # heads: fewer need no second look, and more would take too long
GREEDY_PATIENCE, NO_PROGRESS = 4, 0.6  # heads that, together, leave more than that are none
GRID_ANGLES = 120
GRID_SCALES = 2.0 ** np.arange(-4, 6, 0.5)  # of a key, times the usual length of z
SPREAD = 4.0  # of the lengths of z, either way
GUESSES, GUESSES_APART = 6, 0.3  # guesses to try for each new head, and how different they have to be
HALF_ON = 2.5  # the largest score of a head that is neither on nor off
COLLINEAR = 1e-6  # of the product of two squares: a determinant below says that the two columns are one


class Plane:
    """Points of the plane spanned by two rows, or of the line, and the answers there."""

    def __init__(self, even: EvenPart, basis: Float[np.ndarray, "m d"], length: float, rng: np.random.Generator):
        self.even, self.basis, self.length, self.rng = even, basis, length, rng
        self.Z, self.y = np.empty((0, len(basis))), np.empty(0)

    def read_more(self, count: int) -> None:
        sent, y = self.even(points(count, self.length, len(self.basis), self.rng) @ self.basis)
        self.Z, self.y = np.vstack([self.Z, sent @ self.basis.T]), np.append(self.y, y)

    @property
    def weight(self) -> Float[np.ndarray, " n"]:
        """Answers per length of the key, the largest being 1."""
        weight = 1 / np.linalg.norm(self.Z, axis=1)
        return weight / max(np.abs(weight * self.y).max(), np.finfo(float).tiny)


def points(count: int, length: float, dim: int, rng: np.random.Generator) -> Float[np.ndarray, "n m"]:
    """Random directions, lengths spread evenly over some octaves."""
    Z = rng.standard_normal((count, dim))
    sizes = length * SPREAD ** rng.uniform(-1, 1, count)
    return Z * (sizes / np.linalg.norm(Z, axis=1))[:, None]


def around(pairs: Pairs, each: int, length: float, rng: np.random.Generator) -> Float[np.ndarray, "n m"]:
    """Random keys for which some head is half on, and as many others: these show keys, those show values."""
    H, dim = pairs.K.shape
    Z = points(H * each, length, dim, rng)
    K = np.repeat(pairs.K, each, axis=0)
    shift = rng.uniform(-HALF_ON, HALF_ON, len(Z)) - (Z * K).sum(axis=1)
    on_edge = Z + (shift / (K**2).sum(axis=1))[:, None] * K
    size = np.linalg.norm(on_edge, axis=1, keepdims=True)
    on_edge *= np.minimum(1.0, SPREAD * length / np.maximum(size, np.finfo(float).tiny))
    return np.vstack([on_edge, points(H * each, length, dim, rng)])


def find_heads_in(plane: Plane, enough: float, most: int, known: Pairs | None = None) -> Pairs | None:
    """All heads as the plane shows them, or None where so many heads do not explain it; some may be known already."""
    nothing = np.zeros((0, len(plane.basis)))
    found, lefts = Pairs(nothing, nothing) if known is None else known, [1.0]
    plane.read_more(POINTS_SPARE + POINTS_PER_HEAD * len(found))
    while lefts[-1] > enough:
        if len(found) >= most or (
            len(lefts) > GREEDY_PATIENCE and lefts[-1] > NO_PROGRESS * lefts[-1 - GREEDY_PATIENCE]
        ):
            return None
        plane.read_more(POINTS_PER_HEAD)
        found, left = renewed(plane, *with_one_more(plane, found, enough), enough)
        lefts.append(left)
    return without_spare(plane, found, enough)


def renewed(plane: Plane, found: Pairs, left: float, enough: float) -> tuple[Pairs, float]:
    """Early guesses stood for several heads at once: each is taken back once and guessed again beside the others."""
    for h in np.argsort(np.linalg.norm(found.V, axis=1)) if RENEWED[0] <= len(found) <= RENEWED[1] else ():
        if left <= enough:
            break
        rest = np.delete(np.arange(len(found)), h)
        pairs, less = with_one_more(plane, Pairs(found.K[rest], found.V[rest]), enough)
        if less < left:
            found, left = pairs, less
    return found, left


def with_one_more(plane: Plane, found: Pairs, enough: float) -> tuple[Pairs, float]:
    """The heads with another one, of several guesses the one that leaves least."""
    Z, y, weight = plane.Z, plane.y, plane.weight
    best, least = found, np.inf
    for key in key_guesses(plane, found):
        pairs = with_best_values(np.vstack([found.K, key]), Z, y, weight)
        pairs, left = fitted_pairs(pairs, Z, y, weight, enough)
        if left < least:
            best, least = pairs, left
        if least <= enough:
            break
    return best, least


def key_guesses(plane: Plane, found: Pairs) -> list[np.ndarray]:
    """Keys of the grid, those first whose gate explains most of what is left once the others may move."""
    Z, weight, keys = plane.Z, plane.weight, key_grid(plane)
    tangent = np.linalg.qr(weight[:, None] * pair_jacobian(found, Z))[0]

    def free(M: np.ndarray) -> np.ndarray:
        return M - tangent @ (tangent.T @ M)

    left = free(weight * (plane.y - found(Z)))
    gates = weight[:, None] * np.tanh(Z @ keys.T / 2)
    columns = [free(gates * along[:, None]) for along in Z.T]
    order = np.argsort(-explained_squares(columns, left))
    chosen: list[np.ndarray] = []
    for key in keys[order]:
        if all(np.linalg.norm(key - other) > GUESSES_APART * np.linalg.norm(key) for other in chosen):
            chosen.append(key)
        if len(chosen) == GUESSES:
            break
    return chosen


def key_grid(plane: Plane) -> Float[np.ndarray, "c m"]:
    sizes = GRID_SCALES / plane.length
    if len(plane.basis) == 1:
        return sizes[:, None]
    angles = np.arange(GRID_ANGLES) * np.pi / GRID_ANGLES
    return (np.stack([np.cos(angles), np.sin(angles)], axis=1)[:, None] * sizes[:, None]).reshape(-1, 2)


def explained_squares(columns: list[np.ndarray], left: np.ndarray) -> np.ndarray:
    """By how much one or two columns, for each key, would lessen the sum of squares."""
    first = columns[0]
    aa, al = (first**2).sum(axis=0), first.T @ left
    if len(columns) == 1:
        return al**2 / np.maximum(aa, np.finfo(float).tiny)
    second = columns[1]
    bb, ab, bl = (second**2).sum(axis=0), (first * second).sum(axis=0), second.T @ left
    det = aa * bb - ab**2
    gain = (bb * al**2 - 2 * ab * al * bl + aa * bl**2) / np.maximum(det, np.finfo(float).tiny)
    return np.where(det > COLLINEAR * aa * bb, gain, 0.0)


def without_spare(plane: Plane, found: Pairs, enough: float) -> Pairs:
    """Without the heads that the others can do without: a guess may have been split in two on the way."""
    gain = np.linalg.norm(found.V, axis=1)
    for h in np.argsort(gain):
        rest = np.delete(np.arange(len(found)), h)
        pairs = with_best_values(found.K[rest], plane.Z, plane.y, plane.weight)
        fewer, left = fitted_pairs(pairs, plane.Z, plane.y, plane.weight, enough)
        if left <= enough:
            return without_spare(plane, fewer, enough)
    return found


FRESH_EACH = 2  # questions to check with, for each head and kind
FOUND = 1e-9  # of the largest answer: a set of heads that explains all but this is the right one
ANSWER_ERRORS = 30.0  # times the error of an answer, where that is more
WRONG = 1e-7  # of fresh answers: heads that are further off are others


def read_around(even: EvenPart, pairs: Pairs, length: float, each: int, rng: np.random.Generator):
    """Fresh random keys in all directions, as sent, the answers, and weights that make the largest 1."""
    Z, y = even(around(pairs, each, length, rng))
    weight = 1 / np.linalg.norm(Z, axis=1)
    return Z, y, weight / max(np.abs(weight * pairs(Z)).max(), np.abs(weight * y).max(), np.finfo(float).tiny)


def read_misfit(even: EvenPart, pairs: Pairs, length: float, rng: np.random.Generator) -> float:
    """By how much fresh answers differ from those of the pairs, the largest answer being 1."""
    Z, y, weight = read_around(even, pairs, length, FRESH_EACH, rng)
    return float(np.abs(weight * (y - pairs(Z))).max())


def allowed_misfit(even: EvenPart, length: float) -> float:
    """What the right heads may leave of the answers, the largest being 1."""
    keys = length * np.eye(even.box.dim)[:1]
    return FOUND + ANSWER_ERRORS * float(even.noise(keys)[0]) / (length * even.gain)
