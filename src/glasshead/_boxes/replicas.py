"""A batch answered by several replicas of a box: how it is cut into parts, what a worker does with one, and how the
answers are put together, so that they are those of one process."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from traceback import format_exc
from typing import Any

import numpy as np

from .._errors import OracleError
from .._oracles import Answering

BATCH = 1024  # sequences in a part
AT_ONCE = 2  # parts that wait at each replica or are answered there: it has the next one when it is done


@dataclass(frozen=True)
class Raised:
    """What a box raised on a worker, brought home as an answer: what the way there raises is another matter."""

    error: Exception


def cut(X: np.ndarray, replicas: int, batch: int) -> list[np.ndarray]:
    """Parts of a batch, one for each replica, or more where they would be longer than `batch`.

    They differ by one sequence at most, and depend on nothing else.
    """
    return np.array_split(X, max(-(-len(X) // batch), min(len(X), replicas)))


def answers_of(f: Answering, X: np.ndarray) -> np.ndarray | Raised:
    """What `f` answers to a part, on a worker. It may work in place, as it may in the process of its user."""
    return result_of(lambda: np.asarray(f(X if X.flags.writeable else X.copy())), (), {})


def result_of(function: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """What a function returns on a worker; what it raises comes home with a note that says where."""
    try:
        return function(*args, **keywords)
    except Exception as error:
        error.add_note(f"raised on a worker:\n{format_exc()}")
        return Raised(error if survives(error) else RuntimeError(f"{type(error).__name__}: {error}"))


def survives(thing: Any) -> bool:
    """Whether it can be sent to another process."""
    try:
        pickle.loads(pickle.dumps(thing))
    except Exception:
        return False
    return True


def together(parts: Sequence[np.ndarray], answers: Sequence[np.ndarray]) -> np.ndarray:
    """The answers to all parts in their order, after a look at whether each has one for each of its sequences."""
    for part, answer in zip(parts, answers, strict=True):
        expected = (len(part), *answers[0].shape[1:])
        if answer.ndim == 0 or answer.shape != expected:
            raise OracleError(f"expected answers of shape {expected}, one per sequence, got {answer.shape}", part[0])
    return np.concatenate(answers)
