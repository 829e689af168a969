"""What stands between a recovery, the box and the caller: wrappers that count, keep a budget, report progress and keep
answers, and `guarded`, which puts them around a box and lets nothing out but what a caller may expect."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from .._errors import BudgetExceeded, GlassheadError, JournalError, NotConverged, OracleError
from .base import Oracle, Wrapper

Report = Callable[[int, int, str], None]  # of `(done, planned, what)`


class Counted(Wrapper):
    """Counts what is asked through it, whatever the inner oracle counts: where a recovery begins.

    It keeps stage and plan as well, which the box of a user need not know. The box runs under the rules for warnings of
    floating point that hold where this was made; whatever it raises, and answers that are no finite numbers, are an
    `OracleError`, also from an oracle that checks nothing itself. `largest` is the largest answer so far. What a
    learner decides must not depend on how often an endpoint failed: `queries` is what was asked, `sent` what it cost.
    """

    queries = 0
    stage = "telling what it is"  # until a learner says more
    planned = 0
    largest = 0.0

    def __init__(self, inner: Oracle):
        super().__init__(inner)
        self._rules = np.geterr()
        self._resent_before = inner.resent

    @property
    def box(self) -> Oracle:
        return self.inner

    @property
    def sent(self) -> int:
        return self.queries + self.inner.looked + self.inner.resent - self._resent_before

    def __call__(self, X: np.ndarray) -> np.ndarray:
        if not np.isfinite([X.min(initial=0.0), X.max(initial=0.0)]).all():
            raise FloatingPointError("a token to be sent is not finite")
        self.queries += len(X)
        try:
            with np.errstate(**self._rules):
                answers = np.asarray(self.inner(X))
        except GlassheadError:
            raise
        except Exception as error:
            raise OracleError(f"the oracle raised {type(error).__name__}: {error}", X[0] if len(X) else None) from error
        fits = answers.ndim in (1, 2) and len(answers) == len(X) and answers.shape[1:] != (0,)
        if not fits or answers.dtype.kind not in "bfiu":
            got = f"dtype {answers.dtype} and shape {answers.shape}"
            raise OracleError(f"expected a real number, or several, for each of {len(X)} sequences, got {got}")
        if not np.isfinite(answers).all():
            raise OracleError("expected finite answers, got NaN or infinity")
        if answers.dtype.kind != "b":
            self.largest = float(max(self.largest, answers.max(initial=0), -answers.min(initial=0)))
        return answers


class Budgeted(Wrapper):
    """Never asks more than `budget` queries; a request that would is refused before any of it is sent."""

    def __init__(self, inner: Oracle, budget: int):
        super().__init__(inner)
        self.budget = budget
        self._start = inner.sent - inner.looked

    def __call__(self, X: np.ndarray) -> np.ndarray:
        spent = self.sent - self._start
        if spent + len(X) > self.budget:
            raise BudgetExceeded(
                f"the budget of {self.budget} queries is spent: {spent} asked, {len(X)} more wanted",
                budget=self.budget,
                needed=spent + len(X) - self.budget,
            )
        return self.inner(X)


class Watched(Wrapper):
    """Reports `(done, planned, what)` after every request; what the report raises is kept as `raised`, and raised."""

    def __init__(self, inner: Oracle, report: Report):
        super().__init__(inner)
        self.raised: Exception | None = None
        self._report = report
        self._start = inner.sent - inner.looked

    def __call__(self, X: np.ndarray) -> np.ndarray:
        answers = self.inner(X)
        done = self.sent - self._start
        try:
            self._report(done, max(self.planned, done), self.stage)
        except Exception as error:
            self.raised = error
            raise
        return answers


@contextmanager
def guarded(box: Oracle, budget: int | None = None, report: Report | None = None) -> Iterator[Oracle]:
    """The box as a recovery asks it, with its own count, within a budget, and with a progress report if there is one.

    What leaves the block is an error about the box or the budget, what the report raised, or a `NotConverged` that says
    what happened inside; where numbers at the ends of floating point are at fault, how to change their unit.
    """
    oracle = counted = Counted(box)
    if budget is not None:
        oracle = Budgeted(oracle, budget)
    if report is not None:
        oracle = Watched(oracle, report)
    try:
        with np.errstate(all="ignore"):  # the box itself keeps the caller's rules, see `Counted`
            yield oracle
    except (OracleError, BudgetExceeded, JournalError):
        raise
    except Exception as error:
        advice = other_unit(box, counted.largest)
        expected = isinstance(error, GlassheadError) and not advice
        if expected or (isinstance(oracle, Watched) and error is oracle.raised):
            raise
        raise from_inside(error, advice) from error


SHORTEST = 1e-60  # tokens: scores are products of two lengths, and errors of scores are squared
SMALLEST, LARGEST = 1e-100, 1e100  # answers: the squares of what is calculated from them stay within float64


def other_unit(oracle: Oracle, largest: float) -> str:
    """What to do about numbers that floating point cannot square, where the answers were up to `largest`."""
    if oracle.max_norm is not None and oracle.max_norm < SHORTEST:
        words, call = f"tokens no longer than max_norm = {oracle.max_norm:g} have scores", f"f({oracle.max_norm:g} * X)"
        return f"{words} that underflow; change their unit, as in {type(oracle).__name__}(lambda X: {call}, max_norm=1)"
    if oracle.answers == "value" and largest > 0 and not SMALLEST <= largest <= LARGEST:
        words, call = f"answers of size {largest:.1g} are at the ends of what", f"f(X) / {largest:.1g}"
        return f"{words} floating point can square; change their unit, as in ValueOracle(lambda X: {call})"
    return ""


def from_inside(error: Exception, advice: str) -> NotConverged:
    """What the caller sees of an exception that no part of glasshead expected, and of any where units are at fault."""
    what = f"({type(error).__name__}: {error})".replace(": )", ")")
    if isinstance(error, MemoryError):
        return NotConverged(f"there is not enough memory for this recovery {what}; fewer dimensions need less")
    hint = "another family= may still succeed, and a report of this box would help to mend it"
    failed = f"a calculation inside glasshead failed on this box's answers; {hint}"
    return NotConverged(f"{advice or failed} {what}")


KEPT_NUMBERS = 2**23  # numbers, 64 MiB: what is asked first, very long tokens, is what says most about values
ROWS = 2  # a sum of heads is learned from one and two tokens


class Recorded(Wrapper):
    """Keeps queries and answers, the first ones, up to `KEPT_NUMBERS` in all. One token alone counts as two copies."""

    def __init__(self, inner: Oracle):
        super().__init__(inner)
        self.capacity = KEPT_NUMBERS
        self._kept: list[tuple[np.ndarray, np.ndarray]] = []

    def __call__(self, X: np.ndarray) -> np.ndarray:
        answers = np.asarray(self.inner(X))
        size = X[:, :1].size * ROWS + answers.size
        if X.shape[1] <= ROWS and size <= self.capacity and len(X):
            self.capacity -= size
            two = np.broadcast_to(X, (len(X), 1, self.dim)).repeat(ROWS, axis=1) if X.shape[1] == 1 else X.copy()
            self._kept.append((two, answers))
        return answers

    def kept(self) -> tuple[np.ndarray, np.ndarray]:
        """Queries `(n, 2, d)` and answers `(n, k)`."""
        if not self._kept:
            return np.empty((0, ROWS, self.dim)), np.empty((0, 0))
        queries, answers = zip(*self._kept, strict=True)
        return np.concatenate(queries), np.concatenate(answers)


@contextmanager
def bar(units: str = "queries") -> Iterator[Report]:
    """Yields a callable `(done, planned, what)`. On stderr, so that stdout stays clean."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(units),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task("asking", total=None, rate="")

        def report(done: int, planned: int, what: str) -> None:
            speed = progress.tasks[task].speed
            rate = "" if speed is None else f"{speed:,.0f}/s"
            progress.update(task, completed=done, total=planned, description=what, rate=rate)

        yield report
