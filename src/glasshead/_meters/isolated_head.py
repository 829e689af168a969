"""The meter of one head among several: keys orthogonal to the values of all other heads, which only it answers to.

Such a key z has the answer `sigma(z.k_h) z.v_h`, so its logit is read as from a single head. Scores are those of `M =
E^T [kappa W_h, key_bias_h]`, where E is an orthonormal basis of these keys, m = d - H + 1 of them: query directions x
have d + 1 coordinates, the last of which, beta, is that of the key bias, and are asked as tokens `kappa x / beta`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NoReturn

import numpy as np

from .._errors import ONE_KEY_ONE_HEAD, Evidence
from .._linalg import Frame, cone, random_rotation
from .._oracles import Oracle
from .._types import Float
from .head_sum import SAFETY, SumOfHeads, ValueSpace
from .meter import Meter, Scores, likely_sum, tuning
from .reading import Interval, logit, read_logits
from .value import BLOCK_BYTES

SATURATED = 6.0  # a score beyond this is asked again with a shorter key: its error would spoil its column


@dataclass(frozen=True)
class Queries:
    """Directions of queries: `lift` takes the m coordinates that a square scheme works with to d + 1, `rest` are the
    others. All vectors of `frame` have the same beta, `1/sqrt(m)`."""

    lift: Float[np.ndarray, "e m"]
    rest: Float[np.ndarray, "n e"]
    frame: Frame


def query_directions(dim: int, m: int, rng: np.random.Generator) -> Queries:
    """As many directions as there are keys, `m <= dim`, and the `dim + 1 - m` others."""
    tokens, bias = np.c_[random_rotation(dim, rng), np.zeros(dim)], np.eye(dim + 1)[dim]
    axis = np.eye(m)[0]
    beta = 1 / np.sqrt(m)
    rest = (tokens[m - 1 :] + beta * bias) / np.sqrt(1 + beta**2)
    return Queries(np.vstack([bias, tokens[: m - 1]]).T, rest, cone(axis, rng, lean=float(beta)))


def query_tokens(x: Float[np.ndarray, "n e"], kappa: float) -> tuple[Float[np.ndarray, "n d"], Float[np.ndarray, " n"]]:
    """The tokens of queries, and their beta."""
    beta = x[:, -1]
    return kappa * x[:, :-1] / beta[:, None], beta


@dataclass(frozen=True)
class IsolatedHead(Meter):
    """Measures scores of head `h` with keys that no other head answers to, of length `rho` over sqrt(m)."""

    box: SumOfHeads
    space: ValueSpace
    h: int
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
        return self.space.gains[self.h] * np.eye(self.dim)[0]

    def tuned(self, scores: np.ndarray, noise: np.ndarray | float = 0.0) -> IsolatedHead:
        """The meter with keys as long as scores like these ask for; the query tokens stay."""
        factor = tuning(scores, noise, self.rho)
        return self if factor == 1.0 else replace(self, rho=min(self.rho * factor, self.oracle.reach / 4))

    def likely(self, noise: float) -> float:
        return likely_sum(self.oracle, noise)

    def columns(self, B: Float[np.ndarray, "p m"], A: Float[np.ndarray, "*p n m"]) -> Scores:
        """`a^T M b` for query directions b and key directions a, both in m coordinates."""
        return self.read_against(B @ self.asked.lift.T, A)

    def read_against(self, x: Float[np.ndarray, "p e"], A: Float[np.ndarray, "*p n m"]) -> Scores:
        """`a^T M x` for any query directions x in d + 1 coordinates, and key directions a in m."""
        n = A.shape[-2]
        t, lo, hi = np.empty((3, len(x), n))
        width = max(1, BLOCK_BYTES // max(1, 16 * n * self.box.dim))
        alone = self.space.complement(self.h)
        for start in range(0, len(x) if n else 0, width):
            part = slice(start, min(len(x), start + width))
            q, beta = query_tokens(x[part], self.kappa)
            keys = (A if A.ndim == 2 else A[part]) @ alone.T
            logits = self.read_logits(
                q, self.rho * beta[:, None, None] * np.broadcast_to(keys, (len(q), n, self.box.dim))
            )
            t[part], lo[part], hi[part] = (end / self.rho for end in logits)
        return Scores(t, lo, hi, rounding=self.rounding)

    def rounding(self, W_norm: float) -> float:
        """How much rounding inside the box can move a score of unit vectors: both tokens against `W q + key_bias`."""
        ratio = self.kappa * self.dim / self.rho  # of the lengths of query token and key
        return 2 * SAFETY * np.sqrt(self.box.dim) * self.oracle.roundoff * W_norm * (1 + ratio) / np.sqrt(self.dim)

    def read_logits(self, q: Float[np.ndarray, "p d"], keys: Float[np.ndarray, "p n d"]) -> Interval:
        """`z.k_h` for query tokens and keys; a key that saturates is asked again, shortened."""
        return read_logits(self.read, self.refuse_saturation, q, keys, SATURATED, guaranteed=False)[0]

    def read(self, q: Float[np.ndarray, "p d"], keys: Float[np.ndarray, "p n d"]) -> Interval:
        """The logit `z.k_h` of each key z, from `y = sigma(z.k_h) z.v_h`, and its interval."""
        p, n, d = keys.shape
        sent, y = self.box.read(keys.reshape(p * n, d), np.repeat(q, n, axis=0))
        swing = sent @ self.box.total  # of head h alone, for these keys, and better known than its v
        flip = np.where(swing < 0, -1.0, 1.0)
        z, crosstalk = np.linalg.norm(sent, axis=1), self.space.crosstalk
        noise = self.box.noise(z, np.repeat(np.linalg.norm(q, axis=1), n)) + z * crosstalk
        rounding = SAFETY * np.sqrt(d) * self.box.oracle.roundoff * np.linalg.norm(self.space.values.v[self.h])
        interval, impossible = logit(y * flip, swing * flip, noise, z * (crosstalk + rounding))
        if impossible.any():
            where = np.flatnonzero(impossible)[0]
            self.refuse(q[where // n], sent[where], f"one that asks for a weight of {y[where] / swing[where]:.6g}")
        s, lo, hi = (end.reshape(p, n) for end in interval)
        return s, lo, hi

    def refuse_saturation(self, q: np.ndarray, key: np.ndarray) -> NoReturn:
        self.refuse(q, key, "0 or 1 at any length")

    def refuse(self, q: np.ndarray, key: np.ndarray, got: str) -> NoReturn:
        evidence = Evidence(
            ONE_KEY_ONE_HEAD,
            np.stack([key + q, q]),
            "expected an attention weight inside (0, 1)",
            got,
        )
        self.box.refuse("the box is not a sum of attention heads that can be told apart", evidence)


def isolated_meter(box: SumOfHeads, space: ValueSpace, h: int, rng: np.random.Generator) -> IsolatedHead:
    """The meter of head h, its scales still to be found."""
    m = box.dim - len(space.values) + 1
    keys, asked = cone(np.eye(m)[0], rng), query_directions(box.dim, m, rng)
    return IsolatedHead(box, space, h, keys, asked.frame, asked)
