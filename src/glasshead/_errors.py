"""Everything glasshead raises about a box. Wrong arguments raise ValueError or TypeError instead."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


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
    """A numerical method did not reach its goal and says so; `best` is how far it came."""

    def __init__(self, message: str, best: Any = None):
        super().__init__(message)
        self.best = best


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
