"""Scores of a head that hides behind an unknown network, for any scheme.

Query tokens are `origin + kappa b`, keys `rho a` away from them. A probe gives `s = rho a . (pull + kappa W b)`, where
`pull = W origin + key_bias` is what every query sees: it is measured once, at the origin, and subtracted.

A network may be flat or turn back along one line, and be fine along another. So a probe that fails is replaced by two,
`(u + f) / stretch` and `(u - f) / stretch` with a random f as long as u: their scores add up to what was wanted.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from ..._errors import EQUAL_OUTPUTS, NOT_FRONT_HEAD, OR_NOISY, Evidence, TargetMismatch
from ..._linalg import LEAST_DIVISOR, Frame, rms
from ..._oracles import Oracle
from ..._plan import EACH
from ..._types import Float
from ..meter import Meter, Scores
from .curve import Curve
from .match import Matched, read_references

ILL = 30.0  # times the usual error: one score that much less certain spoils all
CROWD = 16  # scores that tell what is usual better than the pilots did
LONGER_STRETCH = 1.25  # from round to round: how much shorter probes get that did not tell
LENIENCE = 2.0  # from round to round: what is acceptable where nothing is as certain as usual
WORRYING = 0.04  # share of probes that fail: then the next ones
SHORTENED = 1.6  # are shorter by this factor,
LEAST_REACH = 0.1  # of their first length: shorter than that they never get

Pair = tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]


class Ruler:
    """Measures scores along one curve; `noise` is by how much an answer may be off, `step` is for slopes, `usual` the
    error that scores usually have."""

    rounds = 16  # of asking again, at most

    def __init__(
        self, oracle: Oracle, curve: Curve, noise: float, step: float, rng: np.random.Generator, usual: float = np.inf
    ):
        self.oracle, self.curve, self.noise, self.step, self.rng = oracle, curve, noise, step, rng
        self.usual = usual
        self.reach = 1.0  # what probes are shortened to, and how many
        self.asked = self.failed = 0  # were asked, and failed, at that

    def along(self, curve: Curve) -> Ruler:
        return Ruler(self.oracle, curve, self.noise, self.step, self.rng)

    def read_matches(self, q: Float[np.ndarray, "n d"], u: Float[np.ndarray, "n d"]) -> Matched:
        return read_references(self.oracle, self.curve, q, u, self.noise, self.step).read()

    def read_scores(self, q: Float[np.ndarray, "n d"], u: Float[np.ndarray, "n d"]) -> Pair:
        """`u . (W q + key_bias)` for every probe, and its likely error."""
        reach = self.reach
        s, error = self.read_scores_along(q, reach * u)
        return s / reach, error / reach

    def read_scores_along(self, q: np.ndarray, u: np.ndarray) -> Pair:
        found = self.read_matches(q, u)
        s, error = found.s.copy(), found.error.copy()
        acceptable = self.acceptable(found)
        todo = np.flatnonzero(~found.good | (error > acceptable))
        self.adjust_reach(len(q), len(todo))
        stretch = np.where(found.far[todo], 3.0, np.sqrt(2))
        for _ in range(self.rounds):
            if len(todo) == 0:
                break
            sides = self.read_halves(q[todo], u[todo], stretch)
            both = stretch * np.hypot(*sides.error) / 2
            good = sides.good.all(axis=0) & (both < acceptable * stretch**2)  # shorter probes are less certain
            s[todo[good]], error[todo[good]] = (stretch * sides.s.sum(axis=0) / 2)[good], both[good]
            stretch = (stretch * np.where(sides.far.any(axis=0), 2.0, LONGER_STRETCH))[~good]
            todo = todo[~good]
            acceptable *= LENIENCE
        if len(todo):
            raise self.refusal(q[todo[0]], u[todo[0]])
        return s, error

    def adjust_reach(self, asked: int, failed: int) -> None:
        """Shorter probes from now on where too many fail: those cost three times as much."""
        self.asked, self.failed = self.asked + asked, self.failed + failed
        if self.asked >= CROWD and self.failed > WORRYING * self.asked and self.reach > LEAST_REACH:
            self.reach, self.asked, self.failed = self.reach / SHORTENED, 0, 0

    def acceptable(self, found: Matched) -> float:
        """An error that does not stand out."""
        errors = found.error[found.good]
        return ILL * (float(np.median(errors)) if len(errors) >= CROWD else self.usual / self.reach)

    def read_halves(self, q: np.ndarray, u: np.ndarray, stretch: np.ndarray) -> Matched:
        """Both halves of each probe: arrays of shape `(2, n)`."""
        f = self.partner(u)
        both = np.concatenate([u + f, u - f]) / np.tile(stretch, 2)[:, None]
        found = self.read_matches(np.concatenate([q, q]), both)
        s, error, good, far = (array.reshape(2, -1) for array in (found.s, found.error, found.good, found.far))
        return Matched(s, error, good, far, found.noise)

    def partner(self, u: np.ndarray) -> np.ndarray:
        """Something random across u, as long as u: neither half is then longer than a probe may be."""
        f, length = self.rng.standard_normal(u.shape), np.linalg.norm(u, axis=1, keepdims=True)
        if u.shape[1] == 1:
            return np.zeros_like(u)
        f -= u * (np.sum(f * u, axis=1, keepdims=True) / np.maximum(length, np.sqrt(LEAST_DIVISOR)) ** 2)
        return f * length / np.linalg.norm(f, axis=1, keepdims=True)

    def refusal(self, q: np.ndarray, u: np.ndarray) -> TargetMismatch:
        query = self.curve.reference(q[None], u[None], np.ones(1))[0]
        evidence = Evidence(
            EQUAL_OUTPUTS,
            query,
            "expected a shorter sequence with the same last token that is answered alike, and moves alike",
            "none along any of many lines",
        )
        return TargetMismatch(f"{NOT_FRONT_HEAD}, {OR_NOISY}", evidence)


TOKEN_BYTES = 16 * 2**20  # tokens built at a time
AMPLE_SCORE = 1.5  # times the typical score: keys with larger ones are made shorter


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

    def expect(self, scores: int) -> None:
        self.oracle.expect(scores * EACH[self.oracle.answers])

    def tuned(self, scores: np.ndarray, noise: np.ndarray | float = 0.0) -> MatchingMeter:
        """The meter with probes shortened, if need be, to what suits scores like these."""
        return self.no_longer_than(self.kappa * rms(scores))

    def suited(self, keys: np.ndarray) -> MatchingMeter:
        """The meter with probes shortened, if need be, to what these keys see at every query."""
        return self.no_longer_than(rms(keys @ self.pull))

    def no_longer_than(self, score: float) -> MatchingMeter:
        """A meter whose probes suit keys with this score per unit length. Pilots have settled how long others are."""
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
