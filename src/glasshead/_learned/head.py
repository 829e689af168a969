"""What a learner hands back, what fresh queries said about it, and one head with bounds on each of its parameters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from .._errors import Evidence
from .._limits import BITS
from .._models import Attention, Model, Transformer
from .._oracles import Oracle
from .._recovery import Checked, Recovery
from .neighbours import (
    flattened,
    gaussian_like,
    head_length,
    heads_of,
    largest_term,
    with_one_off,
    with_scores_off,
    with_share_off,
)

# A model that is wrong on this share of fresh queries passes n of them with probability (1 - WRONG)^n. The rest is the
# confidence where nothing but fresh queries speaks for a model: 0.990 for 16 of them, 0.999 for 24.
WRONG = 0.25
# The confidence of bounds that follow from noise that was measured, times a factor for safety, and not from a promise.
# They held for all 332 boxes of bench/any_network.py: by the rule of three they do for more than 1 - 3/332 = 0.991 of
# such boxes.
MEASURED = 0.99


@dataclass(frozen=True)
class HeldOut:
    """What fresh queries say of a result: all that is decided about it is decided from this.

    `residual` as in `gh.Recovery`, None where nothing could be compared; `evidence` where an answer is off by more than
    is allowed; the check in words; what a user should be warned of; how many numbers an answer has; how many fresh
    answers were `compared`; and how sure that makes the family, once the judge has spoken.
    """

    residual: float | None
    evidence: Evidence | None
    words: str
    warning: str = ""
    outputs: int = 1
    compared: int = 0
    checked: Checked | None = None

    @property
    def confidence(self) -> float:
        """How likely such queries were to show a model that is wrong on a `WRONG` share of them."""
        return 0.0 if self.evidence is not None else 1 - (1 - WRONG) ** self.compared


UNCHECKED = HeldOut(None, None, "not yet checked")


def free_parameters(head: Attention, rank: int, value_rank: int | None = None, *, key_bias_in_W: bool = False) -> int:
    """Of one head with `W` of that rank and values `(d, k)` of rank `value_rank`, by default any values:
    `r (2d - r)` for W, `s (d + k - s)` for the values, d for a key bias, or r where it lies in the columns of W."""
    d, k = head.dim, head.v[0].size
    s = min(d, k) if value_rank is None else value_rank
    key_bias = (rank if key_bias_in_W else d) if head.has_key_bias else 0
    return rank * (2 * d - rank) + s * (d + k - s) + key_bias


@dataclass(frozen=True, kw_only=True)
class Learned:
    """What every learner hands back, and all that `gh.recover` knows of it.

    `rank` is a tuple for several heads. `bound` and `bound_v` are as in `gh.Recovery`, None where nothing bounds the
    error, and `confidence` is that of the bounds; where it is None, that of the check counts. `check` is what the
    learner found when it had to ask for itself whether fresh answers agree. `needed` says in words what would make the
    bounds better, where that is more than a better promise.
    """

    model: Model
    rank: int | tuple[int, ...]
    bound: float | None
    bound_v: float | None
    confidence: float | None
    check: HeldOut | None = None
    needed: str = ""

    checked_by: ClassVar[str] = ""  # the check of such a result, as `_families` names functions

    @property
    def limit(self) -> int:
        """How few queries could do: no learner can find this model with fewer."""
        raise NotImplementedError

    @property
    def words(self) -> str:
        """What was found, for the reason given to the user."""
        raise NotImplementedError

    # What the judge wants to know. Where a family says nothing it is judged by its answers alone.

    def suits(self, reach: float) -> tuple[float, ...]:
        """The sizes of entries of tokens at which the model shows most of itself, one for each head if they differ."""
        return (1.0,)

    def neighbours(self, share: float, count: int, rng: np.random.Generator) -> list[Any]:
        """So many models as far from this one as its bounds leave open; or off by that share, if it has none."""
        return []

    def hidden(self, share: float, rng: np.random.Generator) -> list[Any]:
        """For each W that no bound speaks for, the model with that one off by a share."""
        return []

    @property
    def flat(self) -> Any:
        """The model without attention, if that can be said."""
        return None

    def largest_term(self, x: np.ndarray) -> float:
        """The largest number that the answer to a sequence is made of, as far as is known."""
        return 0.0

    def says(self, x: np.ndarray) -> bool:
        """Whether the model predicts the answer to a sequence."""
        return True

    def doubt(self, X: Sequence[np.ndarray], want: np.ndarray) -> np.ndarray | float:
        """How far off predictions typically are, beside what neighbours say."""
        return 0.0

    def through(self, oracle: Oracle) -> Oracle:
        """The oracle to check the model with: the box itself, unless noise has to be made a promise first."""
        return oracle

    def recovery(self, queries: int, check: HeldOut | None, seen: str = "") -> Recovery:
        """What the user gets, after so many queries, if that is what fresh ones said; `seen` is why this family."""
        ranks = self.rank if isinstance(self.rank, tuple) else (self.rank,)
        said = "not yet checked" if check is None else check.words
        confidence = self.confidence
        if confidence is None:
            confidence = 0.0 if check is None else check.confidence
            passes = f"; a model that is wrong on one query in four would pass in {1 - confidence:.1%} of cases"
            said += passes * (confidence > 0)
        return Recovery(
            model=self.model,
            family=self.model.family,
            heads=len(ranks),
            rank=ranks[0] if len(ranks) == 1 else ranks,
            queries=queries,
            limit=self.limit,
            bound=self.bound,
            bound_v=self.bound_v,
            confidence=confidence,
            residual=None if check is None else check.residual,
            checked=None if check is None else check.checked,
            reason=f"{seen + ': ' if seen else ''}{self.words}; {said}",
        )


@dataclass(frozen=True, kw_only=True)
class Attending(Learned):
    """A model with heads in it, whose scores can be moved."""

    def suits(self, reach: float) -> tuple[float, ...]:
        """Where the scores of a head differ by a few units."""
        half = 2 * float(np.sqrt(self.model.dim))
        return tuple(min(head_length(head), reach) / half for head in heads_of(self.model))

    def neighbours(self, share: float, count: int, rng: np.random.Generator) -> list[Any]:
        return [with_share_off(self.model, share, rng) for _ in range(count)]

    def hidden(self, share: float, rng: np.random.Generator) -> list[Any]:
        heads = heads_of(self.model)
        return [with_one_off(self.model, h, share, rng) for h, head in enumerate(heads) if head.W_norm > 0]

    @property
    def flat(self) -> Any:
        return flattened(self.model)

    def largest_term(self, x: np.ndarray) -> float:
        return largest_term(self.model, x)


@dataclass(frozen=True, kw_only=True)
class Predicting(Attending):
    """A model that says how far a box that it describes may answer from it."""

    model: Attention | Transformer

    def allowed(self, X: np.ndarray, oracle: Oracle) -> np.ndarray:
        """For each sequence of `X (B, N, d)`, how far the box's answer may lie from the model's."""
        raise NotImplementedError


ROUNDINGS = 1 / 3  # the power of a rounding, of an answer's size: no head that was read right is that far off
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

    def neighbours(self, share: float, count: int, rng: np.random.Generator) -> list[Any]:
        return [self.neighbour(rng) for _ in range(count)]

    def neighbour(self, rng: np.random.Generator) -> Attention:
        """A head as far from this one as all of its bounds leave open, in a random direction."""
        near = with_scores_off(self.model, lambda head: self.bound, lambda head: self.bound_key_bias, rng)
        v, bias = near.v, np.asarray(near.bias)
        v, bias = v + gaussian_like(v, self.bound_v, rng), bias + gaussian_like(bias, self.bound_bias, rng)
        return Attention(near.W, v=v, key_bias=near.key_bias, bias=bias)

    def hidden(self, share: float, rng: np.random.Generator) -> list[Any]:
        return []

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
        return np.minimum(bounded, u**ROUNDINGS * size) if self.strict else bounded


@dataclass(frozen=True, kw_only=True)
class Sampled(LearnedHead):
    """A head read through noise that nobody promised: `quiet` makes the noise of an oracle a promise.

    `one` is a single pass, bounded by that promise. Passes that differ by more do not read a head through noise.
    """

    quiet: Quiet
    one: LearnedHead | None = None

    @classmethod
    def from_one(cls, one: LearnedHead, quiet: Quiet, caveat: str, needed: str) -> Sampled:
        """A single pass with the bounds it has."""
        return cls(**vars(one) | {"quiet": quiet, "caveat": f"; {caveat}", "needed": needed})

    def through(self, oracle: Oracle) -> Oracle:
        return self.quiet(oracle)

    def allowed(self, X: np.ndarray, oracle: Oracle) -> np.ndarray:
        """As far as for a head with these bounds, or those of the one pass where they are better, made wider."""
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
