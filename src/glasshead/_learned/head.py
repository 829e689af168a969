"""One head with bounds on each of its parameters: from a promise, from the scatter of passes, or from yes and no."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .._limits import BITS
from .._models import Attention
from .._oracles import Oracle
from .learned import Predicting, free_parameters, head_length, perturbed, typical_score_error

# The confidence of bounds that follow from what was measured, times a factor for safety, and not from a promise.
# Of a head behind a network they held for all 332 boxes of bench/any_network.py: by the rule of three they do for more
# than 1 - 3/332 = 0.991 of such boxes.
MEASURED = 0.99
MEASURED_WORDS = "its bounds follow from measured noise: such held for all 332 boxes of an experiment"
# Of a plain head they are widened 6 times, or 4 (`_checks/bounds.py`), beyond the error that ordinary sequences show.
# By the rule of three the 90 heads speak for 1 - 3/90 = 0.967 and the 9,000 boxes, none of which would have needed more
# than 6 times, for 0.9997; of how many of these bounds were widened was not counted, so no more is said than above.
WIDENED_WORDS = (
    "its bounds are several times the error that its answers were seen to have: of 90 heads of an experiment none was "
    "off by more than 2.2 times that, of 9,000 boxes of another one by 4.4 times"
)
COARSE = "; the box computes less accurately than its answers look"
# The power of a rounding, of an answer's size: no head that was read right is that far off. No experiment chose it: it
# is 5e-6 in float64 and 4e-3 in float32, where the worst W of bench/accuracy.py is off by 2e-10 and by 2e-6.
STRICT_POWER = 1 / 3
OPEN_TIMES, OPEN_SCORE = 3.0, 0.5  # times the typical error of a score, and one that settles nothing
ABOVE_BIAS = 16.0  # times a bias: what long keys say is rounded as if there were none
WIDER = 3.0  # times an interval: what the held-out check allows
BOUNDS = {"bound": "W", "bound_v": "v", "bound_key_bias": "key_bias", "bound_bias": "bias"}

Quiet = Callable[[Oracle], Oracle]


@dataclass(frozen=True, kw_only=True)
class LearnedHead(Predicting):
    """A head with a bound for each of its parameters.

    `strict` is for answers that promise all their digits: another box makes the bounds wide, which is no excuse then.
    `caveat` says in words what cannot be known, or what the bounds are.
    """

    checked_by = "_checks:check_held_out"
    measurable = True

    model: Attention
    rank: int
    bound: float
    bound_v: float
    bound_key_bias: float
    bound_bias: float
    confidence: float
    strict: bool = False
    caveat: str = ""

    @property
    def one_head(self) -> bool:
        return True

    @property
    def limit(self) -> int:
        """The free parameters over the numbers per answer: no learner can do with fewer queries."""
        outputs = self.model.v[0].size
        parameters = free_parameters(self.model, self.rank) + outputs * bool(np.any(self.model.bias))
        return -(-parameters // outputs)

    @property
    def words(self) -> str:
        head = self.model
        biases = " and ".join(["a key bias"] * head.has_key_bias + ["a bias"] * bool(np.any(head.bias))) or "no bias"
        rank = f"of rank {self.rank}" if self.rank else f"whose W cannot be told from 0 (at most {self.bound:.1e})"
        return f"one head {rank} with {biases}{self.caveat}"

    def levers(self, oracle: Oracle) -> tuple[float, float]:
        """So long that a bias, or the error of an answer that is always there, is small beside what the keys say; keys
        not so long that a key bias decides alone."""
        head, length = self.model, min(head_length(self.model), oracle.reach)
        v, key_bias = float(np.linalg.norm(head.v)), float(np.linalg.norm(head.key_bias))
        above = np.inf if oracle.tolerance > 0 else ABOVE_BIAS * float(np.abs(head.bias).max()) / v
        above = min(above, oracle.reach)
        decides = 1 / key_bias if key_bias > 0 else np.inf
        return max(1.0, min(above, decides) / length), max(1.0, above / float(np.sqrt(head.dim)))

    def neighbours(self, share: float, count: int, rng: np.random.Generator) -> list[Any]:
        return [self.neighbour(rng) for _ in range(count)]

    def neighbour(self, rng: np.random.Generator) -> Attention:
        """A head as far from this one as all of its bounds leave open, in a random direction."""
        near = self.with_scores_off([(self.bound, self.bound_key_bias)], rng)
        v, bias = perturbed(near.v, self.bound_v, rng), perturbed(np.asarray(near.bias), self.bound_bias, rng)
        return Attention(near.W, v=v, key_bias=near.key_bias, bias=bias)

    def hidden(self, share: float, rng: np.random.Generator) -> list[Any]:
        return []

    def doubt(self, X: Sequence[np.ndarray], want: np.ndarray) -> np.ndarray:
        """No end where bounds leave scores open by so much that another token may win, which neighbours may miss."""
        errors = np.array([typical_score_error(x, self.bound, self.bound_key_bias) for x in X])
        return np.where(OPEN_TIMES * errors > OPEN_SCORE, np.inf, 0.0)

    def most_alone(self, X: Sequence[np.ndarray]) -> np.ndarray:
        return np.array([self.bound_v * np.linalg.norm(x) + self.bound_bias if len(x) == 1 else 0.0 for x in X])

    def with_bounds_times(self, of_W: float, of_v: float = 1.0) -> LearnedHead:
        scores = {"bound": of_W * self.bound, "bound_key_bias": of_W * self.bound_key_bias}
        return replace(self, **scores, bound_v=of_v * self.bound_v, bound_bias=of_v * self.bound_bias)

    def with_bounds_measured(self, of_W: float, of_v: float) -> LearnedHead:
        caveat = self.caveat if self.caveat.endswith(COARSE) else self.caveat + COARSE
        measured = {"confidence": min(self.confidence, MEASURED), "sure": WIDENED_WORDS}
        return replace(self.with_bounds_times(of_W, of_v), **measured, caveat=caveat)

    def allowed(self, X: np.ndarray, oracle: Oracle) -> np.ndarray:
        """How far the box's answers to `X (B, N, d)` may lie from the model's if the box is the head it was taken for.

        Scores off by at most e move a softmax by at most `exp(2e) - 1` in total; the values' half range does the rest.
        """
        head, d, u = self.model, oracle.dim, oracle.roundoff
        norms = np.linalg.norm(X, axis=-1)
        longest, last = norms.max(axis=1), norms[:, -1]
        values = (X @ head.v).reshape(*X.shape[:2], -1)
        half_range = (values.max(axis=1) - values.min(axis=1)).max(axis=-1) / 2
        size = np.abs(values).max(axis=(1, 2)) + float(np.abs(head.bias).max())
        keys = head.W_norm * last + np.linalg.norm(head.key_bias)
        score = longest * (self.bound * last + self.bound_key_bias) + 8 * (d + 4) * u * longest * keys
        moved = half_range * np.minimum(2.0, np.expm1(np.minimum(2 * score, 700.0)))
        rounding = u * (2 * (d + 8) * longest * np.linalg.norm(head.v) + (16 + 2 * X.shape[1]) * size)
        promise = (oracle.tolerance + oracle.rtol * size) / (1 - oracle.rtol)
        bounded = moved + longest * self.bound_v + self.bound_bias + promise + rounding
        return np.minimum(bounded, u**STRICT_POWER * size) if self.strict else bounded


@dataclass(frozen=True, kw_only=True)
class Sampled(LearnedHead):
    """A head read through noise that nobody promised: `quiet` makes the noise of an oracle a promise.

    `one` is a single pass, bounded by that promise. Passes that differ by more do not read a head through noise.
    """

    quiet: Quiet
    one: LearnedHead | None = None

    @property
    def averaged(self) -> bool:
        return self.one is not None

    @classmethod
    def from_one(cls, one: LearnedHead, quiet: Quiet, caveat: str, needed: str) -> Sampled:
        """A single pass with the bounds it has."""
        return cls(**vars(one) | {"quiet": quiet, "caveat": f"; {caveat}", "needed": needed})

    def through(self, oracle: Oracle) -> Oracle:
        return self.quiet(oracle)

    def allowed(self, X: np.ndarray, oracle: Oracle) -> np.ndarray:
        """What a head with these bounds, or those of the one pass where they are better, may be off, made wider."""
        one = self.one or self
        wider = {name: WIDER * min(getattr(self, name), getattr(one, name)) for name in BOUNDS}
        return super(Sampled, replace(self, **wider)).allowed(X, oracle)


@dataclass(frozen=True, kw_only=True)
class LearnedFromSigns(LearnedHead):
    """A head from yes and no: v has norm 1, the bias is relative to it, each score was asked for to `bits` bits."""

    bits: int = BITS
    caveat: str = ", v and bias up to a positive factor"

    @property
    def limit(self) -> int:
        """The free parameters, v being known up to a factor, times the bits asked for: an answer is one bit."""
        return (super().limit - 1) * self.bits
