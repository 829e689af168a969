"""A meter for one head among several.

Keys orthogonal to the values of all other heads are answered by head h alone, whatever the query token is: that leaves
`y = sigma(z.k_h) z.v_h` on m = d - H + 1 directions, the value meter's case. What it measures is
`M = [kappa W, key_bias]` between these keys and m of the d + 1 query directions, a square matrix, so that every scheme
works on it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from .._meter import Scores
from .._meter.frame import Frame, cone
from .._meter.lever import longest
from .._meter.scale import TARGET
from .._meter.value import BATCH, BLOCK_BYTES, CAREFUL, GOOD_ENOUGH
from .._meter.visible import inside, pairs
from .._oracle import Oracle, Wrapper
from .._types import Float
from .affine import Queries, make_queries, tokens
from .box import SAFETY, Box
from .reading import Reading
from .room import Room


class Restricted(Wrapper):
    """The box as a scheme sees it: of the dimension of the keys that it may use."""

    dim = 0  # type: ignore[assignment]

    def __init__(self, inner: Oracle, dim: int):
        super().__init__(inner)
        self.dim = dim


@dataclass(frozen=True)
class IsolatedHead(Reading):
    """Measures scores of head `h` with keys that no other head answers to, of length `rho` over sqrt(m)."""

    oracle: Oracle
    keys: Frame
    asked: Queries
    rho: float = 1.0
    kappa: float = 1.0
    biased: bool = True
    frames: list[Frame] = field(default_factory=list)  # those handed out, for who wants to know what a scheme measured

    @property
    def queries(self) -> Frame:
        return self.asked.frame

    @property
    def values(self) -> Float[np.ndarray, " m"]:
        """The head's v, as far as these keys see it."""
        return self.room.reach[self.h] * np.eye(self.oracle.dim)[0]

    @property
    def drift(self) -> float:
        return 0.0

    @property
    def careful(self) -> int:
        return CAREFUL

    @property
    def batch(self) -> int:
        return BATCH

    def tuned(self, scores: np.ndarray, noise: np.ndarray | float = 0.0, growth: float = 8.0) -> IsolatedHead:
        """The meter with keys as long as scores like these ask for; the query tokens stay."""
        rms = self.rho * float(np.sqrt(np.mean(scores**2)))
        if np.linalg.norm(scores) <= np.linalg.norm(noise):
            return self
        if GOOD_ENOUGH[0] * TARGET <= rms <= GOOD_ENOUGH[1] * TARGET:
            return self
        factor = growth if growth * rms < TARGET else TARGET / rms
        return replace(self, rho=min(self.rho * factor, longest(self.oracle) / 4))

    def suited(self, keys: np.ndarray) -> IsolatedHead:
        return self

    def sharper(self) -> IsolatedHead:
        return self

    def likely(self, noise: float) -> float:
        return noise if not self.oracle.exact else noise * min(1.0, 4 / np.sqrt(self.box.dim))

    def pairs(self, A: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        return pairs(self.values, A, rng)

    def frame(self, Q: np.ndarray, rng: np.random.Generator, exact: bool = True) -> Frame:
        self.frames.append(inside(self.values, Q, rng, exact))
        return self.frames[-1]

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
        return Scores(t, lo, hi)

    def rounding(self, W_norm: float) -> float:
        """How much rounding inside the box can move a score of unit vectors: both tokens against `W q + key_bias`."""
        ratio = self.kappa * self.oracle.dim / self.rho  # of the lengths of query token and key
        return (
            2 * SAFETY * np.sqrt(self.box.dim) * self.oracle.roundoff * W_norm * (1 + ratio) / np.sqrt(self.oracle.dim)
        )


def isolated(box: Box, room: Room, h: int, rng: np.random.Generator) -> IsolatedHead:
    m = box.dim - len(room.values) + 1
    oracle = Restricted(box.oracle, m)
    return IsolatedHead(box, room, h, oracle, cone(np.eye(m)[0], rng), make_queries(box.dim, m, rng))
