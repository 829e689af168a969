"""How yes-or-no answers become a score: bisection, all scores side by side.

One query says whether a score is above any chosen threshold (`one_bit.py`), so b of them halve its range b times. The
ends of what is left are thresholds that were asked about. What they compare with is known up to the error of v and the
rounding of the box, and the ends are moved outwards by just that.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from .._oracle import Oracle
from .._types import Float
from .frame import NOTHING, Frame
from .halfspace import Halfspace
from .in_rounds import Block
from .lever import longest
from .one_bit import lengths
from .probes import BLUR, Probes
from .scores import Scores
from .sums import sums
from .visible import inside, pairs

RANGE = 3.0  # times the rms of the scores: where bisection starts. Gaussian scores leave it once in 400
LOGIT = 3.0  # what a score at the end of that range is made to give to a key
FINER = 4  # bits more for a few scores on which a bound hangs
BATCH = 2**18  # scores asked for at once: the more, the fewer rounds in all
CAREFUL = 1  # columns known for each that is begun at once: as many again, since one takes as many rounds as many do
CLEAR = 2.0**10  # how far a value should stand out from its error
UNLUCKY = 64.0  # times the errors of new scores: what those of earlier columns, combined, may look like


@dataclass(frozen=True)
class KeyBias:
    """A key bias, known by its dot product with each of n keys to within a width."""

    vector: np.ndarray
    inverse: Float[np.ndarray, "d n"]
    widths: Float[np.ndarray, " n"]

    def error(self, directions: Float[np.ndarray, "m d"]) -> Float[np.ndarray, " m"]:
        """How far the dot product with each direction may be off."""
        return np.abs(directions @ self.inverse) @ self.widths

    @property
    def total(self) -> float:
        return float(np.linalg.norm(self.inverse, 2) * np.linalg.norm(self.widths))


@dataclass(frozen=True)
class SignMeter:
    """Measures scores of one head to `bits` bits of `[-reach, reach]`, and as finely where they lie outside.

    `oracle` is seen from an origin on the plane where answers change. `side` is the side of it that keys are on if no
    key bias prefers one, `lean` the largest dot product of a key with v. An `exacting` meter keeps the width of its
    intervals when the range turns out to be another, instead of the bits.
    """

    oracle: Oracle
    space: Halfspace
    keys: Frame
    queries: Frame = NOTHING
    bits: int = 40
    exacting: bool = False
    reach: float = 0.0
    lean: float = 0.0
    key_bias: KeyBias | None = None
    side: int = 1

    @property
    def drift(self) -> float:
        """None: what is not known of the key bias is part of the intervals."""
        return 0.0

    @property
    def careful(self) -> int:
        return CAREFUL

    @property
    def batch(self) -> int:
        return BATCH

    @property
    def product(self) -> float:
        """What the lengths of key and query are multiplied to, unless something forbids it."""
        return LOGIT / self.reach if self.reach > 0 else np.inf

    @property
    def width(self) -> float:
        """Of the intervals, before they are moved outwards."""
        return self.reach * 2.0 ** (1 - self.bits)

    @property
    def shortest(self) -> float:
        """The shortest token whose value still stands out from the error of the origin."""
        return CLEAR * float(self.space.value_error(self.oracle, 0.0))

    @property
    def freedom(self) -> float:
        """How much of that product tokens may have that are no longer than the box allows, nor pulled by a key bias."""
        if self.reach == 0:
            return 1.0
        rho, kappa = self._typical.lengths(np.zeros(1, int), np.zeros(1))
        return min(1.0, float((rho * kappa)[0]) / self.product)

    @property
    def _typical(self) -> Probes:
        return Probes(self, self.keys.vectors[:1], self.queries.vectors[:1], np.zeros(1, int), np.zeros(1, int))

    @property
    def finest(self) -> bool:
        """Whether more bits would not say more, because of the error of v and the rounding of the box."""
        return self.width <= BLUR * float(self._typical.blur[0])

    def tuned(self, scores: np.ndarray, noise: np.ndarray | float = 0.0, growth: float = 8.0) -> SignMeter:
        """The meter with the range that suits these scores; it shrinks by `growth` at most."""
        rms = float(np.sqrt(np.mean(scores**2)))
        reach = max(RANGE * rms, self.reach / growth)
        if self.exacting and reach > 0:
            return replace(self, reach=reach, bits=max(1, self.bits + math.ceil(math.log2(reach / self.reach))))
        return replace(self, reach=reach)

    def suited(self, keys: np.ndarray) -> SignMeter:
        lean = np.abs(keys @ self.space.v) / np.linalg.norm(keys, axis=-1)
        return replace(self, lean=max(self.lean, float(lean.max(initial=0.0))))

    def sharper(self) -> SignMeter:
        return replace(self, bits=self.bits + FINER)

    def likely(self, noise: float) -> float:
        return UNLUCKY * noise

    def pairs(self, A: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Two keys for each direction in `A`, to measure it by whatever it is, and how to combine their scores."""
        return pairs(self.space.v, A, rng)

    def frame(self, Q: np.ndarray, rng: np.random.Generator, exact: bool = True) -> Frame:
        """The keys that measure best where `W b` lies in the span of the columns of `Q`, exactly or nearly so."""
        return inside(self.space.v, Q, rng, exact)

    def rounding(self, W_norm: float) -> float:
        """How much rounding inside the box can move a score `a^T W b` of unit vectors, given the size of W."""
        d, space = self.oracle.dim, self.space
        typical = np.full(1, 1 / np.sqrt(d))
        rho, kappa = lengths(
            np.zeros(1), self.product, np.maximum(typical, self.lean), typical, np.zeros(1), longest(self.oracle)
        )
        bias = 0.0 if self.key_bias is None else float(np.linalg.norm(self.key_bias.vector))
        clutter = W_norm * space.shift + bias  # terms of W x + key_bias that the origin may have made cancel
        token = rho + kappa + space.shift
        ulps = 4 * (d + 4) * self.oracle.roundoff
        return float((ulps * (rho * clutter + token * (kappa * W_norm + bias)) / (rho * kappa))[0])

    def columns(self, B: Float[np.ndarray, "m d"], A: Float[np.ndarray, "*m n d"]) -> Scores:
        """`a^T W b` for m query directions b and n key directions a, the same ones for all b or n for each of them."""
        return self.blocks([(B, A)])[0]

    def blocks(self, blocks: list[Block]) -> list[Scores]:
        """The same for several such blocks, bisected side by side."""
        parts = [sums(self.space.v, B, A) for B, A in blocks]
        first_key, first_query, first = (
            np.cumsum([0, *map(len, each)])
            for each in zip(*((part.keys, part.queries, part.k) for part in parts), strict=True)
        )
        probes = Probes(
            self,
            np.concatenate([part.keys for part in parts]),
            np.concatenate([part.queries for part in parts]),
            np.concatenate([part.k + start for part, start in zip(parts, first_key[:-1], strict=True)]),
            np.concatenate([part.q + start for part, start in zip(parts, first_query[:-1], strict=True)]),
        )
        score, error = (np.split(each, first[1:-1]) for each in probes.measure(self.reach, self.width))
        return [part.add(*seen) for part, *seen in zip(parts, score, error, strict=True)]
