"""All heads that keys of a plane show, without a first guess; then their coordinates outside of the plane.

In a plane a head is four numbers, and all keys that it could have fit on a grid of angles and lengths. Greedily: the
gate `tanh(z.k / 2)` of the grid that explains most of what is left, with all others free to move along, then all heads
fitted together. Where it ends, it ends at rounding: a wrong set of heads leaves a thousandth of the answers, not a
billionth, so nothing has to be decided. Heads with parallel values or with proportional keys are no special case.

A key of the plane and a little of another direction is answered by the same heads: what it adds is nearly linear in two
numbers for each of them, the coordinates of key and value along that direction.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...._least_squares import levenberg
from ...._types import Float
from .even import EvenPart
from .pairs import COLLINEAR, Pairs, fitted_pairs, keys_around, pair_jacobian, random_keys, with_best_values

POINTS_PER_HEAD, POINTS_SPARE = 24, 48  # points for each head, and beyond
RENEWED = 4, 14  # heads: fewer need no second look, and more would take too long
GREEDY_PATIENCE, NO_PROGRESS = 4, 0.6  # heads that, together, leave more than that are none
GRID_ANGLES = 120
GRID_SCALES = 2.0 ** np.arange(-4, 6, 0.5)  # of a key, times the usual length of z
GUESSES, GUESSES_APART = 6, 0.3  # guesses to try for each new head, and how different they have to be


class Plane:
    """Points of the plane spanned by two rows, or of the line, and the answers there."""

    def __init__(self, even: EvenPart, basis: Float[np.ndarray, "m d"], length: float, rng: np.random.Generator):
        self.even, self.basis, self.length, self.rng = even, basis, length, rng
        self.Z, self.y = np.empty((0, len(basis))), np.empty(0)

    def read_more(self, count: int) -> None:
        sent, y = self.even(random_keys(count, self.length, len(self.basis), self.rng) @ self.basis)
        self.Z, self.y = np.vstack([self.Z, sent @ self.basis.T]), np.append(self.y, y)

    @property
    def weight(self) -> Float[np.ndarray, " n"]:
        """Answers per length of the key, the largest being 1."""
        weight = 1 / np.linalg.norm(self.Z, axis=1)
        return weight / max(np.abs(weight * self.y).max(), np.finfo(float).tiny)


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
    """Early guesses stood for several heads at once: each is taken back once and guessed again."""
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
    """The heads that the others cannot do without: a guess may have been split in two on the way."""
    gain = np.linalg.norm(found.V, axis=1)
    for h in np.argsort(gain):
        rest = np.delete(np.arange(len(found)), h)
        pairs = with_best_values(found.K[rest], plane.Z, plane.y, plane.weight)
        fewer, left = fitted_pairs(pairs, plane.Z, plane.y, plane.weight, enough)
        if left <= enough:
            return without_spare(plane, fewer, enough)
    return found


SHIFTS = 0.5, 0.05, 0.005  # of a unit of score, for the largest key: how far keys go in the other direction
SHIFT_EACH, SHIFT_SPARE = 1, 4  # questions for each head and kind, and beyond


def read_outside_plane(plane: Plane, flat: Pairs, rest: Float[np.ndarray, "n d"], enough: float) -> Pairs:
    """The pairs in d coordinates, `rest` being the orthonormal directions outside of the plane."""
    coordinates = [read_coordinate(plane, flat, direction, enough) for direction in rest]
    K, V = (np.array([pair[i] for pair in coordinates]).reshape(len(rest), len(flat)).T for i in range(2))
    return Pairs(flat.K @ plane.basis + K @ rest, flat.V @ plane.basis + V @ rest)


def read_coordinate(
    plane: Plane, flat: Pairs, direction: Float[np.ndarray, " d"], enough: float
) -> Float[np.ndarray, "2 H"]:
    """What keys and values have along one direction. A key may have far more of it than of the plane: then less far."""
    found = np.zeros((2, len(flat)))
    for move in SHIFTS:
        far = move / float(np.linalg.norm(flat.K, axis=1).max())
        found, left = solved_shift(read_shifted(plane, flat, direction, far))
        if left * far <= enough * plane.length:
            break
    return found


@dataclass(frozen=True)
class ShiftedPlane:
    """Keys Z of the plane, moved `far` out of it, in coordinates along it and beyond, and their answers y."""

    flat: Pairs
    far: float
    Z: Float[np.ndarray, "n m"]
    y: Float[np.ndarray, " n"]

    def pairs(self, x: np.ndarray) -> Pairs:
        k, v = x.reshape(2, -1)
        return Pairs(np.c_[self.flat.K, k], np.c_[self.flat.V, v])


def read_shifted(plane: Plane, flat: Pairs, direction: Float[np.ndarray, " d"], far: float) -> ShiftedPlane:
    edges = keys_around(flat, SHIFT_EACH, plane.length, plane.rng)
    others = random_keys(SHIFT_SPARE, plane.length, len(plane.basis), plane.rng)
    sent, y = plane.even(np.vstack([edges, others]) @ plane.basis + far * direction)
    return ShiftedPlane(flat, far, np.c_[sent @ plane.basis.T, sent @ direction], y)


def solved_shift(cut: ShiftedPlane) -> tuple[Float[np.ndarray, "2 H"], float]:
    """The last coordinate of keys and values, and what is left of the answers, over the move."""

    def residual(x: np.ndarray) -> np.ndarray:
        return (cut.y - cut.pairs(x)(cut.Z)) / cut.far

    def jacobian(x: np.ndarray) -> np.ndarray:
        now = cut.pairs(x)
        return np.c_[now.by_keys(cut.Z), 0.5 * now.gates(cut.Z)]

    x, left = levenberg(residual, jacobian, np.zeros(2 * len(cut.flat)), 0.0)
    return x.reshape(2, -1), left
