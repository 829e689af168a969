"""Scores of all probes, asking again in another way where an answer does not tell.

A network may be flat or turn back along one line, and be fine along another. So a probe that fails is replaced by two,
`(u + f) / stretch` and `(u - f) / stretch` with a random f as long as u: their scores add up to what was wanted.
"""

from __future__ import annotations

import numpy as np

from ..._errors import NOT_FRONT_HEAD, OR_NOISY, Evidence, TargetMismatch
from ..._oracles import Oracle
from ..._types import Float
from .curve import Curve
from .match import Matched, Matching

ILL = 30.0  # times the usual error: one score that much less certain spoils all
CROWD = 16  # scores that tell what is usual better than the pilots did
LONGER_STRETCH = 1.25  # from round to round
LENIENCE = 2.0  # from round to round: what is acceptable where nothing is as certain as usual
WORRYING = 0.04  # share of probes that fail: then the next ones
SHORTENED = 1.6  # are shorter by this factor,
LEAST_REACH = 0.1  # to this at most

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
        return Matching(self.oracle, self.curve, q, u, self.noise, self.step).read()

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
        self.learn_from(len(q), len(todo))
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

    def learn_from(self, asked: int, failed: int) -> None:
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
        f -= u * (np.sum(f * u, axis=1, keepdims=True) / np.maximum(length, 1e-150) ** 2)
        return f * length / np.linalg.norm(f, axis=1, keepdims=True)

    def refusal(self, q: np.ndarray, u: np.ndarray) -> TargetMismatch:
        query = self.curve.reference(q[None], u[None], np.ones(1))[0]
        evidence = Evidence(
            "sequences with the same attention output are answered alike",
            query,
            "expected a shorter sequence with the same last token that is answered alike, and moves alike",
            "none along any of many lines",
        )
        return TargetMismatch(f"{NOT_FRONT_HEAD}, {OR_NOISY}", evidence)
