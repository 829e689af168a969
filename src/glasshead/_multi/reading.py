"""How an answer of one head alone becomes a logit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from .._errors import Evidence
from .._meter.logit import Interval, beyond, logit
from .._meter.value import MAX_REASKS
from .._types import Float
from .box import SAFETY, Box
from .room import Room

SATURATED = 6.0  # a score beyond this is asked again with a shorter key: its error would spoil its column


@dataclass(frozen=True)
class Reading:
    """Reads `z.k_h` from `y = sigma(z.k_h) z.v_h`, for keys z orthogonal to the values of all heads but h."""

    box: Box
    room: Room
    h: int

    def logits(self, q: Float[np.ndarray, "p d"], keys: Float[np.ndarray, "p n d"]) -> Interval:
        """`z.k` for query tokens and key tokens; a key that saturates is asked again, shortened, and scaled back."""
        s, lo, hi = interval = self.read(q, keys)
        row, col = np.nonzero(beyond(interval, SATURATED))
        shrink, seen = np.ones(len(row)), s[row, col]
        for _ in range(MAX_REASKS):
            if len(row) == 0:
                return s, lo, hi
            shrink *= 1.5 / np.clip(np.abs(seen), 3.0, 20 * SATURATED)
            reading = self.read(q[row], (shrink[:, None] * keys[row, col])[:, None])
            s[row, col], lo[row, col], hi[row, col] = (end[:, 0] / shrink for end in reading)
            still = beyond(reading, SATURATED)[:, 0]
            row, col, shrink, seen = row[still], col[still], shrink[still], reading[0][still, 0]
        return self.refuse(q[row[0]], keys[row[0], col[0]], "0 or 1 at any length")

    def read(self, q: Float[np.ndarray, "p d"], keys: Float[np.ndarray, "p n d"]) -> Interval:
        """The logit that each key gains over the query token, and its interval."""
        p, n, d = keys.shape
        sent, y = self.box.ask(keys.reshape(p * n, d), np.repeat(q, n, axis=0))
        swing = sent @ self.box.total  # of head h alone, for these keys, and better known than its v
        flip = np.where(swing < 0, -1.0, 1.0)
        z, leak = np.linalg.norm(sent, axis=1), self.room.leak
        noise = self.box.noise(z, np.repeat(np.linalg.norm(q, axis=1), n)) + z * leak
        rounding = SAFETY * np.sqrt(d) * self.box.oracle.roundoff * np.linalg.norm(self.room.values.v[self.h])
        interval, impossible = logit(y * flip, swing * flip, noise, z * (leak + rounding))
        if impossible.any():
            where = np.flatnonzero(impossible)[0]
            self.refuse(q[where // n], sent[where], f"one that asks for a weight of {y[where] / swing[where]:.6g}")
        s, lo, hi = (end.reshape(p, n) for end in interval)
        return s, lo, hi

    def refuse(self, q: np.ndarray, key: np.ndarray, got: str) -> NoReturn:
        evidence = Evidence(
            "a key orthogonal to the values of all other heads is answered by one head alone",
            np.stack([key + q, q]),
            "expected an attention weight inside (0, 1)",
            got,
        )
        self.box.refuse("the box is not a sum of attention heads that can be told apart", evidence)
