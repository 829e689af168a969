"""What every learner hands back, and what fresh queries said about it: all that `gh.recover` and the judge know."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from .._errors import Evidence
from .._limits import confidence_of, would_pass
from .._models import AnyModel, Attention, Block, MultiHead, Transformer
from .._oracles import Oracle
from .._recovery import Checked, Recovery

FRESH_CAUTION = 3.0  # times an error that shows at two or three fresh last tokens: they show one only so well


@dataclass(frozen=True)
class HeldOut:
    """What fresh queries say of a result: all that is decided about it is decided from this.

    `residual` as in `gh.Recovery`, None where nothing could be compared; `evidence` where an answer is off by too much;
    the check in words; a warning; how many numbers an answer has; how many fresh answers were `compared`; how sure that
    makes the family, once the judge has spoken; and the sequences `left` to him, whose answers are further off than
    bounds allow, but may be by the box's arithmetic.
    """

    residual: float | None
    evidence: Evidence | None
    words: str
    warning: str = ""
    outputs: int = 1
    compared: int = 0
    checked: Checked | None = None
    left: tuple[np.ndarray, ...] = ()

    @property
    def confidence(self) -> float:
        """How likely such queries were to show a model that is wrong on one of four."""
        return 0.0 if self.evidence is not None else confidence_of(self.compared)


UNCHECKED = HeldOut(None, None, "not yet checked")


def free_parameters(head: Attention, rank: int, value_rank: int | None = None, *, key_bias_in_W: bool = False) -> int:
    """How many numbers are free in one head with `W` of that rank and values `(d, k)` of rank `value_rank`, by default
    any values: `r (2d - r)` for W, `s (d + k - s)` for the values, d for a key bias, or r where it lies in the columns
    of W."""
    d, k = head.dim, head.v[0].size
    s = min(d, k) if value_rank is None else value_rank
    key_bias = (rank if key_bias_in_W else d) if head.has_key_bias else 0
    return rank * (2 * d - rank) + s * (d + k - s) + key_bias


@dataclass(frozen=True, kw_only=True)
class Learned:
    """What every learner hands back, and all that `gh.recover` knows of it.

    `bound` and `bound_v` as in `gh.Recovery`, None where nothing bounds the error; `confidence` is that of the bounds,
    where None that of the check. `check` is what the learner found where it asked whether fresh answers agree. `needed`
    says what would make the bounds better, where that is more than a better promise.
    """

    model: AnyModel
    rank: int | tuple[int, ...]
    bound: float | None
    bound_v: float | None
    confidence: float | None
    check: HeldOut | None = None
    needed: str = ""
    sure: str = ""

    checked_by: ClassVar[str] = ""  # the check of such a result, as `_families` names functions
    measurable: ClassVar[bool] = False  # whether its bounds can be measured on ordinary sequences
    read_again: ClassVar[bool] = False  # whether fresh tokens, read head by head, say how far off every W is

    @property
    def averaged(self) -> bool:
        """Whether it is known better than single answers are: an average of passes through noise."""
        return False

    @property
    def limit(self) -> int:
        """How few queries could do: no learner can find this model with fewer."""
        raise NotImplementedError

    @property
    def words(self) -> str:
        """What was found, for the reason given to the user."""
        raise NotImplementedError

    # What the judge wants to know. Where a family says nothing it is judged by its answers alone.
    @property
    def one_head(self) -> bool:
        """Whether it is one head with nothing behind it."""
        return False

    def suits(self, reach: float) -> tuple[float, ...]:
        """The sizes of entries of tokens at which the model shows most of itself, one for each head if they differ."""
        return (1.0,)

    def levers(self, oracle: Oracle) -> tuple[float, float]:
        """How many times as long keys of these sizes should be, and last tokens shorter, for errors of scores to show
        most; and how many times as long a single token, for those of values."""
        return 1.0, 1.0

    def neighbours(self, share: float, count: int, rng: np.random.Generator) -> list[Any]:
        """So many models as far from this one as its bounds leave open; or off by that share, if it has none."""
        return []

    def hidden(self, share: float, rng: np.random.Generator) -> list[Any]:
        """For each head that no bound speaks for, the model with its W off by a share; its key bias, if W is 0."""
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

    def most_alone(self, X: Sequence[np.ndarray]) -> np.ndarray | float:
        """How far off predictions for single tokens are at most, by their bounds: neighbours may miss the worst."""
        return 0.0

    def with_bounds_times(self, of_W: float, of_v: float = 1.0) -> Learned:
        """What was learned with its bounds, if these can be measured, times so much."""
        return self

    def with_bounds_measured(self, of_W: float, of_v: float) -> Learned:
        """What was learned with bounds times so much, which follow from no promise any more but from what was seen."""
        return self

    def through(self, oracle: Oracle) -> Oracle:
        """The oracle to check the model with: the box itself, unless noise has to be made a promise first."""
        return oracle

    def recovery(self, queries: int, check: HeldOut | None, seen: str = "") -> Recovery:
        """What the user gets, after so many queries, if that is what fresh ones said; `seen` is why this family."""
        check = check or UNCHECKED
        said, confidence = check.words, self.confidence
        if confidence is None:
            confidence = check.confidence
            said += f"; {would_pass(confidence)}" * (confidence > 0)
        ranks = self.rank if isinstance(self.rank, tuple) else (self.rank,)
        reason = f"{seen + ': ' if seen else ''}{self.words}; {self.sure + '; ' if self.sure else ''}{said}"
        bounds = {"bound": self.bound, "bound_v": self.bound_v, "confidence": confidence}
        rank = ranks[0] if len(ranks) == 1 else ranks
        what: tuple[Any, ...] = self.model, self.model.family, len(ranks), rank, queries, self.limit
        return Recovery(*what, **bounds, residual=check.residual, checked=check.checked, reason=reason)


def typical_score_error(tokens: np.ndarray, of_W: float, of_key_bias: float) -> float:
    """How far off the scores of a sequence typically are where W and the key bias are off by so much; that of a token
    alone decides nothing."""
    if len(tokens) == 1:
        return 0.0
    norms, d = np.linalg.norm(tokens, axis=1), tokens.shape[1]
    return float(norms.max() * (of_W * norms[-1] / d + of_key_bias / np.sqrt(d)))


def suited_length(dim: int, W: float, key_bias: float) -> float:
    """The token length at which scores differ by a few units, so that the softmax is neither flat nor saturated.

    It solves `W size^2 + key_bias size = 2` in what Gaussian tokens over `2 sqrt(d)` see of either.
    """
    half = 2 * np.sqrt(dim)
    quadratic, linear = W / half**2, key_bias / half
    return float(4 / (linear + np.sqrt(linear**2 + 8 * quadratic)) if linear + quadratic > 0 else half)


def head_length(head: Any) -> float:
    """The token length suited to one head."""
    return suited_length(head.dim, head.W_norm, float(np.linalg.norm(head.key_bias)))


def perturbed(x: np.ndarray, norm: float, rng: np.random.Generator) -> np.ndarray:
    """An array that differs from x by about that norm, in a random direction."""
    return np.asarray(x + norm / np.sqrt(x.size) * rng.standard_normal(x.shape))


@dataclass(frozen=True, kw_only=True)
class Attending(Learned):
    """A model with heads in it, whose scores can be moved."""

    model: Attention | Block | MultiHead | Transformer

    def suits(self, reach: float) -> tuple[float, ...]:
        """Where the scores of a head differ by a few units."""
        half = 2 * float(np.sqrt(self.model.dim))
        return tuple(min(head_length(head), reach) / half for head in self.model.heads)

    def with_scores_off(self, off: Sequence[tuple[float, float]], rng: np.random.Generator) -> Any:
        """The model with the W and the key bias of each head off by so much, in a random direction."""

        def moved(head: Any, of_W: float, of_key_bias: float) -> tuple[np.ndarray, np.ndarray]:
            return perturbed(head.W, of_W, rng), perturbed(head.key_bias, of_key_bias, rng)

        return self.model.with_scores(*(moved(h, *each) for h, each in zip(self.model.heads, off, strict=True)))

    def neighbours(self, share: float, count: int, rng: np.random.Generator) -> list[Any]:
        off = [(share * h.W_norm, share * float(np.linalg.norm(h.key_bias))) for h in self.model.heads]
        return [self.with_scores_off(off, rng) for _ in range(count)]

    def hidden(self, share: float, rng: np.random.Generator) -> list[Any]:
        def with_one_off(one: Any) -> Any:
            of_bias = share * float(np.linalg.norm(one.key_bias)) * (one.W_norm == 0)
            off = [(share * h.W_norm, of_bias) if h is one else (0.0, 0.0) for h in self.model.heads]
            return self.with_scores_off(off, rng)

        return [with_one_off(head) for head in self.model.heads if head.W_norm > 0 or head.has_key_bias]

    @property
    def flat(self) -> Any:
        return self.model.with_scores(*((np.zeros_like(h.W), np.zeros_like(h.key_bias)) for h in self.model.heads))

    def largest_term(self, x: np.ndarray) -> float:
        return float(self.model.largest_term(x))


@dataclass(frozen=True, kw_only=True)
class Predicting(Attending):
    """A model that says how far a box that it describes may answer from it."""

    model: Attention | Transformer

    def allowed(self, X: np.ndarray, oracle: Oracle) -> np.ndarray:
        """For each sequence of `X (B, N, d)`, how far the box's answer may lie from the model's."""
        raise NotImplementedError
