"""Noise that is always the same, told from a box that is no head: is a ray of one-row answers straight?

A head answers one token on a straight line. Three points of it, evenly spaced, have a second difference of 0; noise of
size X on each makes that `sqrt(6) X` however close the points are, whereas a bend fades with the square of the spacing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

STRAIGHT_RAYS = "one-row answers lie on a straight line"


WEIGHT = "an attention weight lies between 0 and 1"


ONE_TOKEN = "one token alone is answered by x.v + bias"
SAME, COPIES = "the same query gets the same answer", "two copies of a token are answered like one"
ORDER = "the order of the other tokens does not matter"
MIXED = "a mixture of two keys has the mixture of their logits"
ALL_HEADS = (SAME, COPIES, ORDER, STRAIGHT_RAYS)  # however many of them there are
ANY_RANK = (WEIGHT, MIXED)  # laws of one head that are about one query token, where the rank of W plays no role


NOT_HEADS = "the box is not a sum of attention heads"


NOT_THIS = "the box is not a single attention head with a network behind it"
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


class GlassheadError(Exception):
    """The base of all errors about a box."""


class NotIdentifiable(GlassheadError):
    """No learner could tell: different parameters give the same answers."""


class AccuracyUnreachable(NotIdentifiable):
    """The promise behind the answers does not determine W as finely as was asked; `best` is what it does determine."""

    def __init__(self, message: str, best: Any = None):
        super().__init__(message)
        self.best = best


class TargetMismatch(GlassheadError):
    """The box is not what was asked for: `evidence` is the answer that shows it, `best` the closest recovery if any."""

    def __init__(self, message: str, evidence: Evidence | None = None, best: Any = None):
        super().__init__(f"{message} ({evidence})" if evidence is not None else message)
        self.evidence = evidence
        self.best = best


class NotConverged(GlassheadError):
    """A numerical method did not reach its goal and says so; `best` is how far it came, `known` what is known for
    sure."""

    def __init__(self, message: str, best: Any = None, known: dict[str, Any] | None = None):
        super().__init__(message)
        self.best = best
        self.known = known or {}


class BudgetExceeded(GlassheadError):
    """The query budget does not suffice: `known` is what was learned, `needed` how many more queries it would take."""

    def __init__(self, message: str, *, budget: int, needed: int, known: dict[str, Any] | None = None):
        super().__init__(message)
        self.budget = budget
        self.needed = needed
        self.known = known or {}


class OracleError(GlassheadError):
    """The box failed or answered nonsense; `query` is the offending sequence, where one can be named."""

    def __init__(self, message: str, query: np.ndarray | None = None):
        super().__init__(message)
        self.query = query


class HeadsMerged(UserWarning):
    """Heads may be so alike that some came out as one: the message says within which tolerance."""
