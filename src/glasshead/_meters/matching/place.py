"""A place to measure from: an origin, how far query tokens spread around it, and how long probes are.

The network decides what can be seen where. So lengths of tokens are tried in turn until most pilots show a score, and
then others for as long as scores get more certain.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..._errors import (
    EQUAL_OUTPUTS,
    NOT_FRONT_HEAD,
    OR_NOISY,
    OUTPUT_REACHES,
    Evidence,
    NotIdentifiable,
    TargetMismatch,
)
from ..._linalg import LEAST_DIVISOR, rms
from ..._types import Float
from .match import Matched
from .meter import Ruler


@dataclass(frozen=True)
class Place:
    """Query tokens within `kappa` of an origin, probes of length `rho`, and the error of `a^T W b` that they lead to.

    It is infinite if nothing worked; `relative` is the same over the scores seen, `noise` what answers were taken for.
    """

    origin: Float[np.ndarray, " d"]
    kappa: float
    rho: float
    error: float = np.inf
    relative: float = np.inf
    noise: float = 0.0

    @property
    def length(self) -> float:
        return float(np.hypot(np.linalg.norm(self.origin), self.kappa))

    @property
    def works(self) -> bool:
        return bool(np.isfinite(self.error))

    def probes(self, count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        both = rng.standard_normal((2, count, len(self.origin)))
        both /= np.linalg.norm(both, axis=2, keepdims=True)
        return self.origin + self.kappa * both[0], self.rho * both[1]


def somewhere(dim: int, length: float, spread: float, rho: float, rng: np.random.Generator) -> Place:
    """A place around a random origin; queries of about this length, spread over that share of it."""
    direction = rng.standard_normal(dim)
    away = length / np.hypot(1.0, spread)
    return Place(away * direction / np.linalg.norm(direction), spread * away, rho)


PLACE_PILOTS = 4
FEWEST_PILOTS = 3  # of them must succeed
LENGTH_FACTOR = 4.0  # from one length of query tokens to the next
MOST_STRIDES = 8  # strides from length one, up or down
ADJUSTMENTS = 6
DEAD = 2  # places of one length without any answer that moves
LONGEST_PROBE = 4.0  # times the query token: beyond, the query hardly matters
GOOD_ROUNDOFFS = 2.0**13  # roundoffs: a relative error of 1e-12 of single scores in double precision
WORTH_A_STRIDE = 1.5  # a gain that is worth another stride
STANDS_OUT = 16.0  # times the noise: an answer that changes by more moves
ROUNDS_APART = 2  # eight probes, none of which a head would fail


class PlacePilots:
    """Tries places with one ruler, their queries spread by that share of their length.

    A network may be dead in some places and alive in others: the closer queries are together, the more probable it is
    that it is alive at all of them. Remembers whether any answer ever moved.
    """

    def __init__(self, ruler: Ruler, spread: float = 1.0):
        self.ruler, self.oracle, self.curve, self.rng = ruler, ruler.oracle, ruler.curve, ruler.rng
        self.spread = spread
        self.moved = False
        self.apart = 0  # times in a row that no probe was answered alike
        self.asked = np.zeros((1, self.oracle.dim))  # the last sequence that showed nothing

    def find_first(self) -> Place:
        """Any place that works, the nearest to tokens of length one."""
        reach = self.oracle.reach / 4
        start = min(1.0, reach)
        for stride in range(MOST_STRIDES + 1):
            for length in {start * LENGTH_FACTOR**stride, start / LENGTH_FACTOR**stride}:
                if length <= reach and (place := self.find_length(length, length)).works:
                    return place
        raise self.refusal()

    def find_best(self, best: Place) -> Place:
        """From a place that works to a good one, and if need be to the best one."""
        if best.relative <= GOOD_ROUNDOFFS * self.oracle.roundoff:
            return best
        reach, start = self.oracle.reach / 4, best
        for direction in (1 / LENGTH_FACTOR, LENGTH_FACTOR):
            place = start
            for _ in range(MOST_STRIDES):
                length = place.length * direction
                if length > reach:
                    break
                place = self.find_length(length, min(place.rho / direction, LONGEST_PROBE * length))
                gained = place.error * WORTH_A_STRIDE < best.error
                best = min(best, place, key=lambda p: p.error)
                if not gained:
                    break
            if best.length < start.length:  # it got better downwards: upwards it gets worse
                break
        return best

    def find_length(self, length: float, rho: float) -> Place:
        """The best probe for query tokens of this length, starting from a guess."""
        dim, most = self.oracle.dim, min(LONGEST_PROBE * length, (self.oracle.reach - np.sqrt(2) * length) / 2)
        rho, failed, dead = min(rho, most), np.inf, 0
        best = somewhere(dim, length, self.spread, rho, self.rng)
        for _ in range(ADJUSTMENTS):
            here = somewhere(dim, length, self.spread, rho, self.rng)
            probes = here.probes(PLACE_PILOTS, self.rng)
            if not self.moved and not self.check_alive(*probes):
                dead += 1
                if dead == DEAD:
                    break
                continue
            found = self.ruler.read_matches(*probes)
            self.refuse_sideways(found, *probes)
            size = np.where(found.far | ~np.isfinite(found.s), 2 * self.curve.limit, np.abs(found.s))
            typical = rms(size) + LEAST_DIVISOR
            if found.good.sum() < FEWEST_PILOTS or typical > 2 * self.curve.typical:
                failed = rho
                rho *= max(1 / 8, min(0.5, self.curve.typical / typical))
                continue
            error = float(np.median(found.error[found.good])) / (rho * here.kappa)
            here = replace(here, error=error, relative=error * rho * here.kappa / typical, noise=found.noise)
            best = min(best, here, key=lambda place: place.error)
            longer = min(rho * min(4.0, self.curve.typical / typical), most, 0.7 * failed)
            if longer < 2 * rho:
                break
            rho = longer
        return best

    def refuse_sideways(self, found: Matched, q: np.ndarray, u: np.ndarray) -> None:
        """Refuses a box whose answers to sequences with the same attention output, that of one head, are not the same
        for any probe, twice in a row: they move along with the reference's, but sideways."""
        self.apart = self.apart + 1 if found.apart is not None and found.apart.all() else 0
        if self.apart < ROUNDS_APART:
            return
        evidence = Evidence(
            EQUAL_OUTPUTS,
            self.curve.reference(q, u, np.ones(len(q)))[0],
            "expected a shorter sequence with the same last token that is answered alike in all outputs",
            "agreement in one direction only, as from several heads with a network behind them",
        )
        raise TargetMismatch(NOT_FRONT_HEAD, evidence)

    def check_alive(self, q: np.ndarray, u: np.ndarray) -> bool:
        """Whether answers move at all along these probes."""
        ends = [self.curve.reference(q, u, np.full(len(q), c)) for c in (1.0, 0.5)]
        y = self.oracle(np.concatenate(ends)).reshape(2, len(q), -1)
        moves = float(np.abs(y[0] - y[1]).max()) > STANDS_OUT * self.ruler.noise
        self.moved, self.asked = self.moved or moves, ends[0][0]
        return moves

    def refusal(self) -> Exception:
        if not self.moved:
            evidence = Evidence(
                OUTPUT_REACHES,
                self.asked,
                "expected an answer that moves with the first tokens",
                "the same answer for tokens of all lengths",
            )
            return NotIdentifiable(
                f"the answer does not depend on the attention weights, so no learner could read W from it ({evidence})"
            )
        evidence = Evidence(
            EQUAL_OUTPUTS,
            self.asked,
            "expected pairs of sequences that are answered alike and move alike, at some length of tokens",
            "none at any length",
        )
        return TargetMismatch(
            f"{NOT_FRONT_HEAD}, {OR_NOISY}; for answers in steps, such as labels, use gh.SignOracle", evidence
        )
