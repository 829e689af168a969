"""Everything glasshead raises about a box, with evidence, and the names of the laws that a box may break, once.

Wrong arguments raise ValueError or TypeError instead. Where one method of several stops, its refusal is a value,
`Tried`, from which a route decides which method is next.
"""

from __future__ import annotations

import copyreg
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar, cast

import numpy as np

# The names of laws, as evidence quotes them. What those that are asked on their own ask stands in `_checks/laws.py`.
ASKED_AGAIN = "the same query gets the same answer"
SAME_BATCH = "a sequence is answered alike alone and beside others, in any order of the batch"
ONE_TOKEN = "one token alone is answered by x.v + bias"
ONE_TOKEN_LAYER = "one token alone is answered by x.B + bias"
ONE_TOKEN_SIDE = "one token alone is answered by the side of a plane that it is on"
TWO_COPIES = "two copies of a token are answered like one"
THREE_COPIES = "three copies of a token are answered like one"
EVERY_TOKEN_TWICE = "every token twice is answered like every token once"
ANY_ORDER = "the order of the other tokens does not matter"
STRAIGHT_RAYS = "one-row answers lie on a straight line"
OPPOSITE_TOKENS = "a token and its opposite, each beside the same last one, differ as on their own"
HARDLY_APART = "two tokens hardly apart count alike"
WEIGHT_RANGE = "an attention weight lies between 0 and 1"
MIXED_KEYS = "a mixture of two keys has the mixture of their logits"
COPIED_KEY = "eight copies of a key have eight times its odds"
BALANCED_KEYS = "two keys that balance a last token each balance two copies of it together"
SHORTER_KEY = "a shorter key has a smaller logit"
HALF_PROBE = "half a probe has half the score"
SAME_OUTPUT = "a sequence and a shorter one with the same attention output are answered alike"
EQUAL_OUTPUTS = "sequences with the same attention output are answered alike"
OUTPUT_REACHES = "the attention output reaches the answer"
BOTH_ANSWERS = "both answers occur"
ONE_KEY_ONE_HEAD = "a key orthogonal to the values of all other heads is answered by one head alone"
ONE_JUMP_PER_HEAD = "very long keys are answered linearly, but for one jump per head"
LINEAR_BETWEEN_JUMPS = "very long keys between two heads' jumps are answered linearly"
HALF_CIRCLE = "on a half circle of very long keys every head jumps once"
ONE_SET_OF_SCORES = "one set of scores explains all outputs"
FEW_KINKS = "a network has few kinks on a circle and is linear between them"
FRESH_HEAD = "the recovered head predicts fresh answers"
FRESH_HEADS = "the recovered heads predict fresh answers"
FRESH_NETWORK = "the recovered network predicts fresh answers"
LEARNED_NETWORK = "the learned network predicts fresh answers"
WHOLE_BLOCK = "a block whose network is known answers by itself"
ALL_LENGTHS = "the recovered heads predict answers to tokens of all lengths"
EVERYWHERE = "the recovered model predicts answers to ordinary sequences"
ALSO_ELSEWHERE = "a model that predicts answers to some sequences to the last digit predicts those to others"
ALL_HEADS = (
    ASKED_AGAIN,
    TWO_COPIES,
    ANY_ORDER,
    STRAIGHT_RAYS,
    ALSO_ELSEWHERE,
)  # laws that hold however many heads there are
ANY_RANK = (
    WEIGHT_RANGE,
    MIXED_KEYS,
    COPIED_KEY,
    BALANCED_KEYS,
)  # laws of one head that are about one query token, whatever the rank of W
FRESH_ANSWERS = FRESH_HEAD, FRESH_HEADS, ALL_LENGTHS, EVERYWHERE, ALSO_ELSEWHERE  # laws that are about any sequences

NOT_HEADS = "the box is not a sum of attention heads"
NOT_BLOCK = "the box is not several heads in front of something that sees nothing but their sum and the last token"
NOT_FRONT_HEAD = "the box is not a single attention head with a network behind it"
OR_NOISY = "or its answers are less accurate than promised (then say so with tolerance= or rtol=)"


@dataclass(frozen=True)
class Evidence:
    """One answer that the claimed family cannot give: the law it breaks, the query, what was expected and what came."""

    law: str
    query: np.ndarray
    expected: str
    got: str

    def __str__(self) -> str:
        rows, dim = self.query.shape
        tokens = f"{rows} token{'s' * (rows != 1)} in dimension {dim}"
        return f"{self.law}: asked {tokens}, {self.expected}, got {self.got}"


class Best(Protocol):
    """What came nearest to a box that was not recovered, as the `best` of an error: a `gh.Recovery` where `gh.recover`
    or a function of `gh.paper` raised it, a `gh.RecoveredNetwork` or a `gh.ReluNetwork` where these are recovered.

    `isinstance(error.best, gh.Recovery)` tells type checkers, too; what they have in common stands here.
    """

    @property
    def queries(self) -> int: ...

    @property
    def residual(self) -> float | None: ...

    @property
    def reason(self) -> str: ...


class GlassheadError(Exception):
    """The base of all errors about a box."""

    def __reduce__(self) -> tuple[Any, ...]:  # so that one that was raised on a worker comes home whole
        return copyreg.__newobj__, (type(self), *self.args), self.__dict__  # type: ignore[attr-defined]


class NotIdentifiable(GlassheadError):
    """No learner could tell: different parameters give the same answers."""


class AccuracyUnreachable(NotIdentifiable):
    """The promise behind the answers does not determine W as finely as was asked; `best` is what it does determine."""

    best: Best | None

    def __init__(self, message: str, best: Any = None):  # a learner's own result, until `gh.recover` hands it back
        super().__init__(message)
        self.best = best


class TargetMismatch(GlassheadError):
    """The box is not what was asked for: `evidence` is the answer that shows it, `best` the closest recovery if any,
    `known` what had been learned until then."""

    best: Best | None

    def __init__(self, message: str, evidence: Evidence | None = None, best: Any = None):
        super().__init__(f"{message} ({evidence})" if evidence is not None else message)
        self.evidence = evidence
        self.best = best
        self.known: dict[str, Any] = {}


def law_of(error: Exception | None) -> str:
    """The law that the box broke, where an error says so, and else nothing."""
    evidence = error.evidence if isinstance(error, TargetMismatch) else None
    return "" if evidence is None else evidence.law


class WrongOutputs(TargetMismatch, ValueError):
    """Answers of more or fewer numbers than the family that was asked for takes: a wrong argument, as the box shows."""


class NotConverged(GlassheadError):
    """A numerical method did not reach its goal and says so; `best` is how far it came, `known` what is known for
    sure."""

    best: Best | None

    def __init__(self, message: str, best: Any = None, known: dict[str, Any] | None = None):
        super().__init__(message)
        self.best = best
        self.known: dict[str, Any] = known or {}


class BudgetExceeded(GlassheadError):
    """The query budget does not suffice: `known` is what was learned, `needed` how many more queries it would take."""

    def __init__(self, message: str, *, budget: int, needed: int, known: dict[str, Any] | None = None):
        super().__init__(message)
        self.budget = budget
        self.needed = needed
        self.known: dict[str, Any] = known or {}
        self.family = ""  # that it was being recovered as, once one was tried


class OracleError(GlassheadError):
    """The box failed or answered nonsense; `query` is the offending sequence, where one can be named."""

    def __init__(self, message: str, query: np.ndarray | None = None):
        super().__init__(message)
        self.query = query


class JournalError(GlassheadError):
    """The journal of a run cannot be used: it is another run's, in use, damaged, or its disk is full. Whatever it holds
    stays as it is."""


class HeadsMerged(UserWarning):
    """Heads may be so alike that some came out as one: the message says within which tolerance."""


Returned = TypeVar("Returned")
Made = TypeVar("Made")


@dataclass(frozen=True)
class Tried(Generic[Returned]):
    """What came of one method for a box: what it `found`, or the `refusal` that stopped it."""

    found: Returned | None = None
    refusal: Exception | None = None

    @staticmethod
    def of(method: Callable[..., Made], *arguments: Any) -> Tried[Made]:
        """What the method makes of these arguments. A budget that ends and a box that fails stop every method, so they
        are raised."""
        try:
            return Tried(found=method(*arguments))
        except (NotConverged, NotIdentifiable, TargetMismatch, np.linalg.LinAlgError) as refusal:
            return Tried(refusal=refusal)

    @property
    def law(self) -> str:
        """The law that the box broke, where that is why it was refused, and else nothing."""
        return law_of(self.refusal)

    def result(self) -> Returned:
        """What was found; a refusal is raised."""
        if self.refusal is not None:
            raise self.refusal
        return cast(Returned, self.found)
