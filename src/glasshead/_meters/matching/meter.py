"""Scores of a head that hides behind an unknown network, for any scheme.

Query tokens are `origin + kappa b`, keys `rho a` away from them. A probe gives `s = rho a . (pull + kappa W b)`, where
`pull = W origin + key_bias` is what every query sees: it is measured once, at the origin, and subtracted.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from ..._oracles import Oracle
from ..._types import Float
from ..frame import Frame
from ..meter import Meter, Scores
from .crossing import Crossings
from .ruler import Ruler

TOKEN_BYTES = 16 * 2**20  # tokens built at a time
AMPLE_SCORE = 1.5  # times the typical score


@dataclass(frozen=True)
class MatchingMeter(Meter):
    """Measures scores of one head with anything behind it, by finding sequences that are answered alike.

    The intervals are statistical: they follow from how noisy answers were found to be and how steeply they moved.
    """

    oracle: Oracle
    ruler: Ruler
    keys: Frame
    queries: Frame
    origin: Float[np.ndarray, " d"]
    rho: float
    kappa: float
    pull: Float[np.ndarray, " d"] = field(default_factory=lambda: np.zeros(0))
    pull_error: float = 0.0
    distortion: float = 0.0  # relative error of scores that no noise shows

    @property
    def drift(self) -> float:
        """The error of `W b` that is the same for every b: that of `pull`, seen at this scale."""
        return self.pull_error / self.kappa

    @property
    def axis(self) -> Float[np.ndarray, " d"] | None:
        """None: no direction shows better than another."""
        return None

    def tuned(self, scores: np.ndarray, noise: np.ndarray | float = 0.0) -> MatchingMeter:
        """The meter with probes shortened, if need be, to what suits scores like these."""
        return self.no_longer_than(self.kappa * float(np.sqrt(np.mean(scores**2))))

    def suited(self, keys: np.ndarray) -> MatchingMeter:
        """The meter with probes shortened, if need be, to what these keys see at every query."""
        return self.no_longer_than(float(np.sqrt(np.mean((keys @ self.pull) ** 2))))

    def no_longer_than(self, score: float) -> MatchingMeter:
        """For keys that have this score per unit length. Pilots have settled how long probes may be otherwise."""
        wanted = self.rho * self.ruler.reach * score / self.ruler.curve.typical
        return replace(self, rho=self.rho / wanted) if wanted > AMPLE_SCORE else self

    def rounding(self, W_norm: float) -> float:
        """What is wrong with the tokens themselves; rounding inside the box is part of the noise that was measured."""
        return self.distortion * W_norm / self.oracle.dim

    def likely(self, noise: float) -> float:
        return noise * min(1.0, 4 / np.sqrt(self.oracle.dim))

    def read_pull(self) -> MatchingMeter:
        """The meter that knows what every query sees: a column of scores at the origin."""
        here = self.origin[None]
        s, error = self.read_logits(here, self.rho * self.keys.vectors[None])
        pull = self.keys.inverse @ s[0] / self.rho
        pull_error = float(self.keys.gain * np.linalg.norm(error[0]) / self.rho)
        return replace(self, pull=pull, pull_error=pull_error)

    def columns(self, B: Float[np.ndarray, "m d"], A: Float[np.ndarray, "*m n d"]) -> Scores:
        """`a^T W b` for m query directions b and n key directions a, the same ones for all b or n for each of them."""
        (m, d), n = B.shape, A.shape[-2]
        t, lo, hi = np.empty((3, m, n))
        out = Scores(t, lo, hi, None, self.drift, self.rounding)
        width = max(1, TOKEN_BYTES // max(1, 64 * n * d))
        for start in range(0, m if n else 0, width):
            part = slice(start, min(m, start + width))
            keys = np.broadcast_to(A if A.ndim == 2 else A[part], (part.stop - start, n, d))
            s, error = self.read_logits(self.origin + self.kappa * B[part], self.rho * keys)
            out.t[part] = (s / self.rho - keys @ self.pull) / self.kappa
            halfwidth = error / (self.rho * self.kappa)
            out.lo[part], out.hi[part] = out.t[part] - halfwidth, out.t[part] + halfwidth
        return out

    def read_logits(
        self, q: Float[np.ndarray, "m d"], keys: Float[np.ndarray, "m n d"]
    ) -> tuple[np.ndarray, np.ndarray]:
        """`k . (W q + key_bias)` for every query token and key, and its error."""
        m, n, d = keys.shape
        s, error = self.ruler.read_scores(np.repeat(q, n, axis=0), keys.reshape(m * n, d))
        return s.reshape(m, n), error.reshape(m, n)


EARLIER_ERRORS = 8.0  # times the errors of new scores: what those of earlier columns, combined, may look like


@dataclass(frozen=True)
class SignMatchingMeter(MatchingMeter):
    """A `MatchingMeter` that sees only directions with a part along `ruler.normal`, as others see only along v."""

    ruler: Crossings

    @property
    def axis(self) -> Float[np.ndarray, " d"]:
        return self.ruler.normal

    def likely(self, noise: float) -> float:
        return EARLIER_ERRORS * noise

    def no_longer_than(self, score: float) -> SignMatchingMeter:
        """The length of a probe follows from where answers change."""
        return self
