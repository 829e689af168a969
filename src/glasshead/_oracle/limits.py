"""Counting, a budget and a progress report, each a thin wrapper around any oracle."""

from __future__ import annotations

from collections.abc import Callable

from .._errors import BudgetExceeded
from .base import Oracle, Wrapper


class Counted(Wrapper):
    """Counts what is asked through it, whatever the inner oracle counts."""

    queries = 0  # type: ignore[assignment]
    stage = ""  # type: ignore[assignment]  # kept here: the box of a user need not know

    def __call__(self, X):
        self.queries += len(X)
        return self.inner(X)


class Budgeted(Wrapper):
    """Never asks more than `budget` queries; a request that would is refused before any of it is sent."""

    def __init__(self, inner: Oracle, budget: int):
        super().__init__(inner)
        self.budget = budget
        self._start = inner.queries

    def __call__(self, X):
        spent = self.queries - self._start
        if spent + len(X) > self.budget:
            raise BudgetExceeded(
                f"the budget of {self.budget} queries is spent: {spent} asked, {len(X)} more wanted",
                budget=self.budget,
                needed=spent + len(X) - self.budget,
            )
        return self.inner(X)


class Watched(Wrapper):
    """Reports `(done, planned, what)` after every request."""

    def __init__(self, inner: Oracle, planned: int, report: Callable[[int, int, str], None]):
        super().__init__(inner)
        self.planned = planned
        self._report = report
        self._start = inner.queries

    def __call__(self, X):
        answers = self.inner(X)
        done = self.queries - self._start
        self._report(done, max(self.planned, done), self.stage)
        return answers
