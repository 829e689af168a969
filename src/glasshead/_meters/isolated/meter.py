"""How an answer of one head alone becomes a logit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NoReturn

import numpy as np

from ..._errors import Evidence
from ..._oracles import Oracle
from ..._types import Float
from ..frame import Frame, cone
from ..meter import GROWTH, Meter, Scores
from ..reading import TARGET_LOGIT, Interval, logit, read_logits
from ..value import BLOCK_BYTES, GOOD_ENOUGH
from .room import Queries, Room, make_queries, tokens
from .two_tokens import SAFETY, Box

SATURATED = 6.0  # a score beyond this is asked again with a shorter key: its error would spoil its column


@dataclass(frozen=True)
class Reading:
    """Reads `z.k_h` from `y = sigma(z.k_h) z.v_h`, for keys z orthogonal to the values of all heads but h."""

    box: Box
    room: Room
    h: int

    def logits(self, q: Float[np.ndarray, "p d"], keys: Float[np.ndarray, "p n d"]) -> Interval:
        """`z.k` for query tokens and key tokens."""
        return read_logits(self.read, self.refuse_saturation, q, keys, SATURATED, guaranteed=False)[0]

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

    def refuse_saturation(self, q: np.ndarray, key: np.ndarray) -> NoReturn:
        self.refuse(q, key, "0 or 1 at any length")

    def refuse(self, q: np.ndarray, key: np.ndarray, got: str) -> NoReturn:
        evidence = Evidence(
            "a key orthogonal to the values of all other heads is answered by one head alone",
            np.stack([key + q, q]),
            "expected an attention weight inside (0, 1)",
            got,
        )
        self.box.refuse("the box is not a sum of attention heads that can be told apart", evidence)


@dataclass(frozen=True)
class IsolatedHead(Reading, Meter):
    """Measures scores of head `h` with keys that no other head answers to, of length `rho` over sqrt(m)."""

    keys: Frame
    queries: Frame
    asked: Queries
    rho: float = 1.0
    kappa: float = 1.0
    biased: bool = True

    @property
    def oracle(self) -> Oracle:
        return self.box.oracle

    @property
    def axis(self) -> Float[np.ndarray, " m"]:
        """The head's v, as far as these keys see it."""
        return self.room.reach[self.h] * np.eye(self.dim)[0]

    def tuned(self, scores: np.ndarray, noise: np.ndarray | float = 0.0) -> IsolatedHead:
        """The meter with keys as long as scores like these ask for; the query tokens stay."""
        rms = self.rho * float(np.sqrt(np.mean(scores**2)))
        if np.linalg.norm(scores) <= np.linalg.norm(noise):
            return self
        if GOOD_ENOUGH[0] * TARGET_LOGIT <= rms <= GOOD_ENOUGH[1] * TARGET_LOGIT:
            return self
        factor = GROWTH if GROWTH * rms < TARGET_LOGIT else TARGET_LOGIT / rms
        return replace(self, rho=min(self.rho * factor, self.oracle.reach / 4))

    def likely(self, noise: float) -> float:
        return noise if not self.oracle.exact else noise * min(1.0, 4 / np.sqrt(self.box.dim))

    def columns(self, B: Float[np.ndarray, "p m"], A: Float[np.ndarray, "*p n m"]) -> Scores:
        """`a^T M b` for query directions b and key directions a, both in m coordinates."""
        return self.against(B @ self.asked.lift.T, A)

    def against(self, x: Float[np.ndarray, "p e"], A: Float[np.ndarray, "*p n m"]) -> Scores:
        """The same for any query directions, in d + 1 coordinates."""
        n = A.shape[-2]
        t, lo, hi = np.empty((3, len(x), n))
        width = max(1, BLOCK_BYTES // max(1, 16 * n * self.box.dim))
        alone = self.room.alone(self.h)
        for start in range(0, len(x) if n else 0, width):
            part = slice(start, min(len(x), start + width))
            q, beta = tokens(x[part], self.kappa)
            keys = (A if A.ndim == 2 else A[part]) @ alone.T
            logits = self.logits(q, self.rho * beta[:, None, None] * np.broadcast_to(keys, (len(q), n, self.box.dim)))
            t[part], lo[part], hi[part] = (end / self.rho for end in logits)
        return Scores(t, lo, hi, rounding=self.rounding)

    def rounding(self, W_norm: float) -> float:
        """How much rounding inside the box can move a score of unit vectors: both tokens against `W q + key_bias`."""
        ratio = self.kappa * self.dim / self.rho  # of the lengths of query token and key
        return 2 * SAFETY * np.sqrt(self.box.dim) * self.oracle.roundoff * W_norm * (1 + ratio) / np.sqrt(self.dim)


def isolated(box: Box, room: Room, h: int, rng: np.random.Generator) -> IsolatedHead:
    m = box.dim - len(room.values) + 1
    keys, asked = cone(np.eye(m)[0], rng), make_queries(box.dim, m, rng)
    return IsolatedHead(box, room, h, keys, asked.frame, asked)
