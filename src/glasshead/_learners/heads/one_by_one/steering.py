"""One head's matrix along the other heads' values: keys that move no value but turn every other weight to 0 or 1.

A key along the value of another head is answered by that one as well. To see head h alone there, a vector n is added
that is orthogonal to all v, so that it changes no value, with `n.k_h = 0` and `n.k_g <= -depth` for all others: their
weight is then 0, whatever their values. The shortest such n is a least-distance problem. Where no n turns all others
off, some are turned fully on instead, and what they answer is known. With that, the columns of `[kappa W, key_bias]`
along the span of the other heads' values are read for as many query directions as its projection has rank; further
directions that only show there are looked for at random.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

from ...._errors import NotConverged
from ...._linalg import cone
from ...._meters import SumOfHeads, ValueSpace
from ...._types import Float
from .projection import ProjectedHead

SIGN_PATTERNS = 64  # of signs, tried where not all heads can be silenced at once
FEASIBLE = 1e-9  # the residual of the least-distance problem is 0 up to rounding, far below this, if no vector does it


def steering_vector(
    keys: Float[np.ndarray, "H n"], h: int, depth: Float[np.ndarray, " H"], rng: np.random.Generator
) -> tuple[Float[np.ndarray, " n"], np.ndarray]:
    """The shortest n with `n.k_h = 0` and `n.k_g <= -depth_g` for the others, and which heads it turns on instead.

    With more heads than directions some may have to be turned on: their weight is then 1, as good as 0.
    """
    others = np.arange(len(keys)) != h
    own = keys[h] / (np.linalg.norm(keys[h]) or 1.0)
    walls = (keys - np.outer(keys @ own, own))[others] / depth[others, None]
    best, signs = least_distance(-walls), -np.ones(len(walls))
    for _ in range(SIGN_PATTERNS if best is None else 0):
        tried = np.sign(walls @ rng.standard_normal(keys.shape[1]))
        n = least_distance(tried[:, None] * walls)
        if n is not None and (best is None or n @ n < best @ best):
            best, signs = n, tried
    if best is None:
        raise NotConverged(f"{len(keys)} heads leave no room to silence all but one: their keys are too alike")
    on = np.zeros(len(keys), bool)
    on[others] = signs > 0
    return best, on


def least_distance(walls: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " d"] | None:
    """The shortest x with `walls @ x >= 1`: least distance programming, by way of non-negative least squares."""
    if len(walls) == 0:
        return np.zeros(walls.shape[1])
    scale = float(np.linalg.norm(walls, axis=1).max())
    if scale == 0:
        return None
    Q, R = np.linalg.qr(walls.T / scale)
    system = np.vstack([R, np.ones(len(walls))])
    target = np.zeros(len(system))
    target[-1] = 1.0
    weights, residual = nnls(system, target)
    left = system @ weights - target
    if residual <= FEASIBLE or left[-1] >= 0:
        return None
    return Q @ (-left[:-1] / left[-1]) / scale


OFF_DEPTH = 9.0  # with `-log(roundoff)` added: a weight of `exp(-depth)` is e^-9 of a rounding
UNMEASURED = 8.0  # times the rms of a key's coordinates: as much may lie where it was not measured
LONGEST_LOGIT = 7.0  # a logit past this is read again with a shorter key
KEY_SHRINK, KEY_SHRINKS = 5.0, 6  # how much shorter, and how often at most
# The least share of a squared key that is taken to lie in the kernel of all values: with less, the vector that cancels
# the key's first coordinate would be more than a hundred times as long as the key.
LEAST_KERNEL_SHARE = 1e-4


@dataclass(frozen=True)
class SteeredQuery:
    """A query token and a key that head h answers alone, at a weight of one half: the others are off, or fully on.

    `swing` is what head h would answer to that key at full weight; `rms` what a unit key usually sees of it.
    """

    q: Float[np.ndarray, " d"]
    base: Float[np.ndarray, " d"]
    on: np.ndarray
    swing: float
    rms: float


class SteeredReading:
    """Reads head h along the other heads' values, given what the isolated keys said about all of them."""

    def __init__(
        self, box: SumOfHeads, space: ValueSpace, parts: list[ProjectedHead], h: int, rng: np.random.Generator
    ):
        self.box, self.space, self.parts, self.h, self.rng = box, space, parts, h, rng
        self.basis = space.others(h)
        self.v = space.values.v[h]

    def read_column(
        self, x: Float[np.ndarray, " e"], F: Float[np.ndarray, "n m"] | None = None
    ) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
        """`f . M x` for every f in `F`, in coordinates along the others' values, by default all; and its error."""
        F = np.eye(self.basis.shape[1]) if F is None else F
        sign = np.where(F @ (self.basis.T @ self.v) < 0, -1.0, 1.0)  # so that the key and f add up
        keys = np.vstack([np.zeros(self.box.dim), sign[:, None] * F @ self.basis.T])
        steered = self.find_steered(self.parts[self.h].meter.kappa * x[:-1] / x[-1])
        length = 1.0 / steered.rms
        s, error = self.read(steered, length * keys)
        for _ in range(KEY_SHRINKS):
            if np.abs(s).max() <= LONGEST_LOGIT:
                break
            length /= KEY_SHRINK
            s, error = self.read(steered, length * keys)
        scale = x[-1] / length
        return sign * scale * (s[1:] - s[0]), np.abs(scale) * (error[1:] + error[0])

    def read(self, steered: SteeredQuery, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The logits of keys added to the base, and their errors."""
        sent, y = self.box.read(steered.base + keys, steered.q)
        swing = steered.swing + (sent - steered.base) @ self.v
        weight = np.clip(
            (y - sent @ self.values_on(steered.on)) / swing, np.finfo(float).tiny, 1 - np.finfo(float).epsneg
        )
        size = np.linalg.norm(sent, axis=1)
        noise = self.box.noise(size, float(np.linalg.norm(steered.q)))
        return np.log(weight) - np.log1p(-weight), noise / np.abs(swing) / (weight * (1 - weight))

    def values_on(self, on: np.ndarray) -> np.ndarray:
        return self.space.values.v[on].sum(axis=0)

    def find_steered(self, q: np.ndarray) -> SteeredQuery:
        seen = np.array([part.key_at(q) for part in self.parts])  # along each head's dual, and along what no head sees
        own, size = seen[self.h], rms_coordinate(seen[self.h])
        n, on = steering_vector(seen[:, 1:], self.h, self.depths(seen), self.rng)
        steer, swing = self.space.kernel @ n, self.read_swing(q, n, on, own)
        towards = self.space.kernel @ own[1:] / (max(own[1:] @ own[1:], own @ own * LEAST_KERNEL_SHARE) or 1.0)
        light = (self.space.duals[self.h] - own[0] * towards) / size
        return SteeredQuery(q, steer + light, on, swing + float(light @ self.v), size)

    def depths(self, seen: np.ndarray) -> np.ndarray:
        deep = OFF_DEPTH - np.log(self.box.oracle.roundoff)
        return np.array([deep + UNMEASURED * rms_coordinate(one) / rms_coordinate(seen[self.h]) for one in seen])

    def read_swing(self, q: np.ndarray, n: np.ndarray, on: np.ndarray, own: np.ndarray) -> float:
        """`n.v_h`, which should be 0, but n is long and v_h not quite known: read with n longer still and head h on."""
        far = min(self.box.oracle.roundoff**-0.25, self.box.oracle.reach / (4 * float(np.linalg.norm(n)) or 1.0))
        full = (OFF_DEPTH - np.log(self.box.oracle.roundoff)) * own[1:] / (own[1:] @ own[1:] or 1.0)
        sent, y = self.box.read((self.space.kernel @ (far * n + full))[None], q)
        rest = sent[0] - far * (self.space.kernel @ n)
        return float(y[0] - rest @ self.v - sent[0] @ self.values_on(on)) / far


def rms_coordinate(own: np.ndarray) -> float:
    """The root mean square of a key's coordinates, which is what a random unit vector sees of it; 1 if it is 0."""
    return float(np.linalg.norm(own) / np.sqrt(len(own))) or 1.0


UNEXPLAINED = 1.0  # times the square root of the roundoff, of the matrix: what is fainter is not looked for


def read_completed(
    box: SumOfHeads, space: ValueSpace, parts: list[ProjectedHead], h: int, rng: np.random.Generator, enough: float
) -> tuple[np.ndarray, np.ndarray]:
    """`[kappa W, key_bias]` of head h as two factors; what is smaller than `enough` does not matter."""
    part, alone = parts[h], space.complement(h)
    if len(parts) == 1:
        return alone @ part.U, part.R
    reading = SteeredReading(box, space, parts, h, rng)
    rows, x = conditioned_queries(part.R, part.meter.dim, rng)
    seen = np.array([reading.read_column(one)[0] for one in x]).reshape(len(x), len(parts) - 1)
    rows, along = find_all_rows(reading, rows, x, seen, rng, enough * part.meter.kappa)
    return alone @ (part.U @ (part.R @ rows.T)) + reading.basis @ along, rows


def conditioned_queries(
    R: Float[np.ndarray, "r e"], m: int, rng: np.random.Generator
) -> tuple[Float[np.ndarray, "r e"], Float[np.ndarray, "r e"]]:
    """Orthonormal rows that span those of R, and as many queries that see them perfectly conditioned.

    What is added along the key bias beyond the rows changes nothing of `M x` but keeps tokens short.
    """
    rows = np.linalg.svd(R, full_matrices=False)[2]
    if len(R) == 0:
        return rows, rows
    bias = rows[:, -1]
    beyond = np.eye(R.shape[1])[-1] - bias @ rows
    share = float(np.linalg.norm(bias))
    axis = bias / share if share > 0 else np.eye(len(R))[0]
    mixed = cone(axis, rng, lean=float(1 / np.sqrt(len(R)))).vectors if len(R) > 1 else np.ones((1, 1))
    x = mixed @ rows
    more = np.maximum(0.0, 1 / np.sqrt(m) - np.abs(x[:, -1])) * np.where(x[:, -1] < 0, -1, 1)
    if 1 - share**2 > np.sqrt(np.finfo(float).eps):
        x = x + np.outer(more / (1 - share**2), beyond)
    return rows, x


def find_all_rows(
    reading: SteeredReading, rows: np.ndarray, x: np.ndarray, seen: np.ndarray, rng: np.random.Generator, enough: float
) -> tuple[np.ndarray, np.ndarray]:
    """Queries that the isolated keys say nothing about may still matter along the others' values: look, and add them.

    Returns the rows and what lies along the others' values in their coordinates.
    """
    while True:
        along = np.linalg.lstsq(x @ rows.T, seen, rcond=None)[0].T
        if len(rows) == rows.shape[1] or not find_unexplained(reading, rows, along, rng, enough):
            return rows, along
        new = random_orthogonal(rows, rng)
        asked = steerable(new, rows, rng)
        x, seen = np.vstack([x, asked]), np.vstack([seen, reading.read_column(asked)[0]])
        rows = np.vstack([rows, new])


def find_unexplained(
    reading: SteeredReading, rows: np.ndarray, along: np.ndarray, rng: np.random.Generator, enough: float
) -> bool:
    """Whether a random query is answered along the others' values in a way that the rows do not explain."""
    f = rng.standard_normal((1, len(along)))
    f /= np.linalg.norm(f)
    asked = steerable(random_orthogonal(rows, rng), rows, rng)
    seen, noise = reading.read_column(asked, f)
    size = np.hypot(np.linalg.norm(along), np.linalg.norm(reading.parts[reading.h].R)) / np.sqrt(rows.shape[1])
    off = np.abs(seen - f @ along @ (rows @ asked))
    return bool(np.any(off > noise + UNEXPLAINED * np.sqrt(reading.box.oracle.roundoff) * size + enough))


def steerable(x: np.ndarray, rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The query x with something of the rows, for a key to steer by, and some key bias, for short tokens."""
    within = rng.standard_normal(len(rows))
    asked = x + within @ rows / (np.linalg.norm(within) or 1.0)
    asked[-1] += np.where(asked[-1] < 0, -1, 1) * max(0.0, 1 / np.sqrt(len(x)) - abs(asked[-1]))
    return asked


def random_orthogonal(rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A random unit vector orthogonal to orthonormal rows."""
    x = rng.standard_normal(rows.shape[1])
    for _ in range(2):
        x -= rows.T @ (rows @ x)
        x /= np.linalg.norm(x)
    return x
