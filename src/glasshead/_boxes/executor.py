"""`gh.from_executor`: replicas of a box on the workers of a `concurrent.futures.Executor`, as one oracle."""

from __future__ import annotations

import os
import pickle
from collections import deque
from concurrent.futures import Executor, Future
from itertools import count
from typing import Any

import numpy as np

from .._errors import OracleError
from .._oracles import Answering, Oracle
from .._types import no_type_check
from .._validate import require_callable, whole
from .base import GOES_ON, check_box
from .replicas import AT_ONCE, BATCH, Raised, answers_of, cut, together

RUN_AGAIN = f"make a new executor and run it again: {GOES_ON}"


@no_type_check
def from_executor(
    executor: Executor,
    f: Answering,
    dim: int,
    *,
    replicas: int | None = None,
    batch: int = BATCH,
    answers: str = "value",
    **promise: Any,
) -> Oracle:
    """An oracle around `f` that is answered on the workers of an executor, side by side.

    >>> with ThreadPoolExecutor(2) as executor:
    ...     found = gh.recover(gh.from_executor(executor, gh.Attention.random(8, seed=1), 8))
    >>> found.family
    'attention'

    Any executor of the standard protocol will do: threads and processes of `concurrent.futures`, `mpi4py.futures`,
    `get_executor()` of a Dask client. `f` takes a `(B, N, d)` array and returns `B` numbers, or `(B, k)`. A batch is
    cut into one part for each of `replicas`, by default as many as the executor says it has workers (Dask's does not
    say: then as many as there are processors here), or into more where a part would be longer than `batch`; the answers
    come back in order, so a box that answers a sequence alike in every batch is recovered as on one process, bit for
    bit. `f` travels to other processes with every part: let a function of a module load what is large, once. The
    executor stays the caller's, to be shut down when the oracle is not used any more.
    `promise` are the keywords of `gh.ValueOracle` or, with `answers="sign"`, of `gh.SignOracle`.
    """
    if not callable(getattr(executor, "submit", None)):
        got = type(executor).__name__
        raise TypeError(f"expected an executor with submit(f, *args), as concurrent.futures has them, got {got}")
    require_callable(f)
    dim, batch = whole(dim, "dim", least=1), whole(batch, "batch", least=1)
    replicas = workers_of(executor) if replicas is None else whole(replicas, "replicas", least=1)
    box = Submitted(executor, f, replicas, batch)
    box.await_box()
    notes = [f"answered by {replicas} workers of a {type(executor).__name__}"]
    return check_box(box, dim, answers=answers, notes=notes, **promise)


def workers_of(executor: Any) -> int:
    """How many workers it says to have; as many as there are processors where it does not say."""
    for name in ("_max_workers", "num_workers"):  # of the standard library, of mpi4py
        said = getattr(executor, name, None)
        if isinstance(said, int) and said >= 1:
            return said
    return os.cpu_count() or 1


class Submitted:
    """Sends the parts of a batch to an executor, so many at a time, and puts the answers together in their order."""

    def __init__(self, executor: Executor, f: Answering, replicas: int, batch: int):
        self._executor, self._f = executor, f
        self._replicas, self._batch = replicas, batch
        self._numbers = count()

    def __call__(self, X: np.ndarray) -> np.ndarray:
        parts = cut(X, self._replicas, self._batch)
        waiting: deque[Future[np.ndarray | Raised]] = deque()
        found: list[np.ndarray] = []
        try:
            for part in parts:
                if len(waiting) == AT_ONCE * self._replicas:
                    found.append(self._taken(waiting.popleft()))
                waiting.append(self._submitted(answers_to, self._f, part, next(self._numbers)))
            while waiting:
                found.append(self._taken(waiting.popleft()))
        finally:
            for future in waiting:
                future.cancel()
        return together(parts, found)

    def await_box(self) -> None:
        """Send the box there, without a question, to see whether it arrives."""
        try:
            self._result(self._submitted(callable, self._f))
        except OracleError as error:
            if (why := refused_by_pickle(self._f)) is None:
                raise
            words = "a function or an instance of a class that a module has at its top level, or use threads"
            got = f"{getattr(self._f, '__qualname__', type(self._f).__qualname__)} ({why})"
            raise TypeError(f"expected a box that can be sent to other processes, {words}, got {got}") from error

    def _submitted(self, *call: Any) -> Future[Any]:
        try:
            return self._executor.submit(*call)
        except Exception as error:
            raise lost(self._executor, error) from error

    def _result(self, future: Future[Any]) -> Any:
        try:
            return future.result()
        except Exception as error:  # not the box's own, which come as `Raised`
            raise lost(self._executor, error) from error

    def _taken(self, future: Future[np.ndarray | Raised]) -> np.ndarray:
        answer = self._result(future)
        if isinstance(answer, Raised):
            raise answer.error
        return answer


def answers_to(f: Answering, X: np.ndarray, number: int) -> np.ndarray | Raised:
    """What `f` answers to a part. The number makes it a call that there was not before: Dask has the result of an
    earlier one stand for the same call again, where a box may answer otherwise the second time."""
    return answers_of(f, X)


def refused_by_pickle(f: Any) -> str | None:
    try:
        pickle.dumps(f)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def lost(executor: Any, error: Exception) -> OracleError:
    got = f"{type(error).__name__}: {str(error).rstrip('.') or 'no more is known'}"
    return OracleError(f"expected answers from the workers of the {type(executor).__name__}, got {got}; {RUN_AGAIN}")
