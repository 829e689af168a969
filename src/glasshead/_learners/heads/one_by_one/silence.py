"""Silencing all heads but one: a key that moves no value but turns every other head's weight to 0.

Keys along the other heads' values are answered by these as well. To see head h there, add a vector n orthogonal to all
v, with `n.k_h = 0` and `n.k_g` very negative for the others: their weight is then 0, whatever their values.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

from ...._errors import NotConverged
from ...._meters import Box, Room, cone
from ...._types import Float
from .columns import Part

PATTERNS = 64  # of signs, tried where not all heads can be silenced at once
FEASIBLE = 1e-9  # of the residual of the least-distance problem: 0 means that no vector does it


def steering(
    keys: Float[np.ndarray, "H n"], h: int, depth: Float[np.ndarray, " H"], rng: np.random.Generator
) -> tuple[Float[np.ndarray, " n"], np.ndarray]:
    """The shortest n with `n.k_h = 0` and `n.k_g <= -depth_g` for the others, and which heads it turns on instead.

    With more heads than room some may have to be turned on: their weight is then 1, as good as 0.
    """
    others = np.arange(len(keys)) != h
    own = keys[h] / (np.linalg.norm(keys[h]) or 1.0)
    walls = (keys - np.outer(keys @ own, own))[others] / depth[others, None]
    best, signs = shortest(-walls), -np.ones(len(walls))
    for _ in range(PATTERNS if best is None else 0):
        tried = np.sign(walls @ rng.standard_normal(keys.shape[1]))
        n = shortest(tried[:, None] * walls)
        if n is not None and (best is None or n @ n < best @ best):
            best, signs = n, tried
    if best is None:
        raise NotConverged(f"{len(keys)} heads leave no room to silence all but one: their keys are too alike")
    on = np.zeros(len(keys), bool)
    on[others] = signs > 0
    return best, on


def shortest(walls: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " d"] | None:
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


DEEP = 9.0  # and the logarithm of the precision: a weight of `exp(-depth)` is nothing
UNSURE = 8.0  # times what a key usually sees of a head: as much may hide where it was not measured
SATURATED = 7.0  # a logit past this is read again with a shorter key
SHORTER = 5.0
TRIES = 6
FLAT = 1e-4  # the least share of a key that is taken to lie where no head sees it


@dataclass(frozen=True)
class Question:
    """A query token and a key that head h answers alone, at a weight of one half: the others are off, or fully on.

    `swing` is what head h would answer to that key at full weight; `usual` what a unit key usually sees of it.
    """

    q: Float[np.ndarray, " d"]
    base: Float[np.ndarray, " d"]
    on: np.ndarray
    swing: float
    usual: float


class Beside:
    """Measures head h along the other heads' values, given what the isolated keys said about all of them."""

    def __init__(self, box: Box, room: Room, parts: list[Part], h: int, rng: np.random.Generator):
        self.box, self.room, self.parts, self.h, self.rng = box, room, parts, h, rng
        self.basis = room.others(h)
        self.v = room.values.v[h]

    def column(
        self, x: Float[np.ndarray, " e"], F: Float[np.ndarray, "n m"] | None = None
    ) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
        """`f . M x` for every f in `F`, in coordinates along the others' values, by default all; and its error."""
        F = np.eye(self.basis.shape[1]) if F is None else F
        sign = np.where(F @ (self.basis.T @ self.v) < 0, -1.0, 1.0)  # so that the key and f add up
        keys = np.vstack([np.zeros(self.box.dim), sign[:, None] * F @ self.basis.T])
        question = self.question(self.parts[self.h].meter.kappa * x[:-1] / x[-1])
        length = 1.0 / question.usual
        s, error = self.read(question, length * keys)
        for _ in range(TRIES):
            if np.abs(s).max() <= SATURATED:
                break
            length /= SHORTER
            s, error = self.read(question, length * keys)
        scale = x[-1] / length
        return sign * scale * (s[1:] - s[0]), np.abs(scale) * (error[1:] + error[0])

    def read(self, question: Question, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The logits of keys added to the base, and their errors."""
        sent, y = self.box.ask(question.base + keys, question.q)
        swing = question.swing + (sent - question.base) @ self.v
        weight = np.clip((y - sent @ self.heard(question.on)) / swing, 1e-300, 1 - 1e-16)
        size = np.linalg.norm(sent, axis=1)
        noise = self.box.noise(size, float(np.linalg.norm(question.q)))
        return np.log(weight) - np.log1p(-weight), noise / np.abs(swing) / (weight * (1 - weight))

    def heard(self, on: np.ndarray) -> np.ndarray:
        return self.room.values.v[on].sum(axis=0)

    def question(self, q: np.ndarray) -> Question:
        seen = np.array([part.keys(q) for part in self.parts])  # along each head's light, and along what no head sees
        own, size = seen[self.h], usual(seen[self.h])
        n, on = steering(seen[:, 1:], self.h, self.depths(seen), self.rng)
        steer, swing = self.room.unseen @ n, self.swing(q, n, on, own)
        towards = self.room.unseen @ own[1:] / (max(own[1:] @ own[1:], own @ own * FLAT) or 1.0)
        light = (self.room.lights[self.h] - own[0] * towards) / size
        return Question(q, steer + light, on, swing + float(light @ self.v), size)

    def depths(self, seen: np.ndarray) -> np.ndarray:
        deep = DEEP - np.log(self.box.oracle.roundoff)
        return np.array([deep + UNSURE * usual(one) / usual(seen[self.h]) for one in seen])

    def swing(self, q: np.ndarray, n: np.ndarray, on: np.ndarray, own: np.ndarray) -> float:
        """`n . v_h`, which should be 0, but n is long and v_h not quite known. Much longer still, and with head h
        turned fully on, it is answered directly."""
        far = min(self.box.oracle.roundoff**-0.25, self.box.oracle.reach / (4 * float(np.linalg.norm(n)) or 1.0))
        full = (DEEP - np.log(self.box.oracle.roundoff)) * own[1:] / (own[1:] @ own[1:] or 1.0)
        sent, y = self.box.ask((self.room.unseen @ (far * n + full))[None], q)
        rest = sent[0] - far * (self.room.unseen @ n)
        return float(y[0] - rest @ self.v - sent[0] @ self.heard(on)) / far


def usual(own: np.ndarray) -> float:
    """What a unit key usually sees of a key vector."""
    return float(np.linalg.norm(own) / np.sqrt(len(own))) or 1.0


ROUGH = 1.0  # times the square root of the precision: what is fainter than that is not looked for


def complete(
    box: Box, room: Room, parts: list[Part], h: int, rng: np.random.Generator, enough: float
) -> tuple[np.ndarray, np.ndarray]:
    """`M = [kappa W, key_bias]` of head h as two factors; what is smaller than `enough` does not matter."""
    part, alone = parts[h], room.alone(h)
    if len(parts) == 1:
        return alone @ part.U, part.R
    beside = Beside(box, room, parts, h, rng)
    rows, x = queries_for(part.R, part.meter.dim, rng)
    seen = np.array([beside.column(one)[0] for one in x]).reshape(len(x), len(parts) - 1)
    rows, along = all_rows(beside, rows, x, seen, rng, enough * part.meter.kappa)
    return alone @ (part.U @ (part.R @ rows.T)) + beside.basis @ along, rows


def queries_for(
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
    if share < 1 - 1e-8:
        x = x + np.outer(more / (1 - share**2), beyond)
    return rows, x


def all_rows(
    beside: Beside, rows: np.ndarray, x: np.ndarray, seen: np.ndarray, rng: np.random.Generator, enough: float
) -> tuple[np.ndarray, np.ndarray]:
    """Queries that the isolated keys say nothing about may still matter along the others' values: look, and add them.

    Returns the rows and what lies along the others' values in their coordinates.
    """
    while True:
        along = np.linalg.lstsq(x @ rows.T, seen, rcond=None)[0].T
        if len(rows) == rows.shape[1] or not shows(beside, rows, along, rng, enough):
            return rows, along
        new = outside(rows, rng)
        asked = askable(new, rows, rng)
        x, seen = np.vstack([x, asked]), np.vstack([seen, beside.column(asked)[0]])
        rows = np.vstack([rows, new])


def shows(beside: Beside, rows: np.ndarray, along: np.ndarray, rng: np.random.Generator, enough: float) -> bool:
    """Whether a random query is answered along the others' values in a way that the rows do not explain."""
    f = rng.standard_normal((1, len(along)))
    f /= np.linalg.norm(f)
    asked = askable(outside(rows, rng), rows, rng)
    seen, noise = beside.column(asked, f)
    size = np.hypot(np.linalg.norm(along), np.linalg.norm(beside.parts[beside.h].R)) / np.sqrt(rows.shape[1])
    off = np.abs(seen - f @ along @ (rows @ asked))
    return bool(np.any(off > noise + ROUGH * np.sqrt(beside.box.oracle.roundoff) * size + enough))


def askable(x: np.ndarray, rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The query x with something of the rows, for a key to steer by, and some key bias, for short tokens."""
    within = rng.standard_normal(len(rows))
    asked = x + within @ rows / (np.linalg.norm(within) or 1.0)
    asked[-1] += np.where(asked[-1] < 0, -1, 1) * max(0.0, 1 / np.sqrt(len(x)) - abs(asked[-1]))
    return asked


def outside(rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A random unit vector orthogonal to orthonormal rows."""
    x = rng.standard_normal(rows.shape[1])
    for _ in range(2):
        x -= rows.T @ (rows @ x)
        x /= np.linalg.norm(x)
    return x
