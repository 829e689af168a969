"""What a head scores along the values of the others, read while these are silenced."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._meter.lever import longest
from .._types import Float
from .box import Box
from .part import Part
from .room import Room
from .steer import steering

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
        far = min(self.box.oracle.roundoff**-0.25, longest(self.box.oracle) / (4 * float(np.linalg.norm(n)) or 1.0))
        full = (DEEP - np.log(self.box.oracle.roundoff)) * own[1:] / (own[1:] @ own[1:] or 1.0)
        sent, y = self.box.ask((self.room.unseen @ (far * n + full))[None], q)
        rest = sent[0] - far * (self.room.unseen @ n)
        return float(y[0] - rest @ self.v - sent[0] @ self.heard(on)) / far


def usual(own: np.ndarray) -> float:
    """What a unit key usually sees of a key vector."""
    return float(np.linalg.norm(own) / np.sqrt(len(own))) or 1.0
