"""Which axis of what a box takes is its batch, and where in its answers that of a sequence stands: found by asking."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .._errors import OracleError

# Of both axes, and the next time: all different, so that answers show which is which.
AXIS_LENGTHS, NEXT_LENGTHS = (3, 5), (2, 4)
PAIRS_AT_ONCE = 2**22  # numbers of tokens times tokens at a time: a layer holds them for each of its heads
REPEAT_TIMES = 16  # times what a repeated question changes: a smaller change comes of nothing

ANSWER_SHAPES = "(B,), (B, k), (B, N) or (B, N, k), with one answer for each of B sequences or each of their N tokens"


@dataclass(frozen=True)
class Layout:
    """How sequences `(B, N, d)` go into a box, and their answers come out of it.

    The last row of a sequence, its query token, is put at `place`, 0 or -1, and answered there. `per_token`: the box
    answers one number for each token, so that two axes of an answer are those of the batch and of the places.
    """

    batch_first: bool = True
    place: int = -1
    per_token: bool = False

    def sent(self, X: np.ndarray) -> np.ndarray:
        X = X if self.place == -1 else np.roll(X, 1, axis=1)
        return np.ascontiguousarray(X if self.batch_first else X.swapaxes(0, 1))

    def read(self, answers: Any) -> Any:
        """One answer for each sequence, `(B,)` or `(B, k)`, of an array or a tensor."""
        if answers.ndim == 3 or self.per_token:
            return answers[:, self.place] if self.batch_first else answers[self.place]
        return answers

    @property
    def notes(self) -> list[str]:
        said = [] if self.batch_first else ["it takes sequences first, (N, B, d)"]
        return said + ["the last row of a sequence is put first, and answered there"] * (self.place == 0)


def parts(X: np.ndarray, rows: int | None = None) -> list[np.ndarray]:
    """Sequences so many at a time, or as many as memory has room for the scores of."""
    rows = rows or max(1, PAIRS_AT_ONCE // X.shape[1] ** 2)
    return [X[start : start + rows] for start in range(0, len(X), rows)]


def checked_place(place: Any) -> int:
    if place not in (-1, 0):
        words = "-1, the last, or 0, the first: sequences of one token have no other"
        raise ValueError(f"expected place, where the query token stands and is answered, to be {words}; got {place!r}")
    return place


def checked_order(batch_first: Any) -> bool | None:
    if batch_first is not None and not isinstance(batch_first, bool):
        raise ValueError(f"expected batch_first to be True, False, or None to find out, got {batch_first!r}")
    return batch_first


class Questions:
    """The questions of a search for the layout, with the errors of an oracle, and how many sequences they were."""

    def __init__(self, box: Callable[[np.ndarray], np.ndarray]):
        self.box = box
        self.shapes: list[tuple[int, ...]] = []

    def __call__(self, X: np.ndarray) -> np.ndarray:
        self.shapes.append(X.shape)
        try:
            return np.asarray(self.box(np.ascontiguousarray(X)))
        except OracleError:
            raise
        except Exception as error:
            what = f"asked with numbers of shape {X.shape}: is dim={X.shape[2]} right, and does it take batches?"
            raise OracleError(f"the box raised {type(error).__name__}: {error} ({what})", X[0]) from error

    def sequences(self, batch_first: bool) -> int:
        return sum(shape[0 if batch_first else 1] for shape in self.shapes)


def find_layout(
    box: Callable[[np.ndarray], np.ndarray], dim: int, longest: float, layout: Layout, batch_first: bool | None = None
) -> tuple[Layout, int]:
    """The layout of a box, with the place of the given one, and the number of sequences asked for it.

    `box` answers arrays of three axes as it likes, tokens of length `longest` at most. Its batch is the axis along
    which it does not mix: changing one sequence leaves the answers to others as they are.
    """
    X, asked = short_tokens((*AXIS_LENGTHS, dim), longest), Questions(box)
    answers, shorter = asked(X), asked(X[: NEXT_LENGTHS[0], : NEXT_LENGTHS[1]])
    axes = axes_of(answers.shape, shorter.shape)
    if axes == {0, 1}:
        if batch_first is None:
            batch_first = not find_mixing(asked, X, answers, axis=0) or find_mixing(asked, X, answers, axis=1)
        layout = replace(layout, batch_first=batch_first, per_token=answers.ndim == 2)
    elif batch_first in (None, axes == {0}):
        layout = replace(layout, batch_first=axes == {0})
    else:
        words = f"an array of shape {(*AXIS_LENGTHS, dim)} is answered by one of shape {answers.shape}"
        raise ValueError(f"expected batch_first={axes == {0}}, since {words}; got batch_first={batch_first}")
    return layout, asked.sequences(layout.batch_first)


def find_reading(
    box: Callable[[np.ndarray], np.ndarray], dim: int, longest: float, layout: Layout, batch: int
) -> tuple[Layout, int]:
    """The layout of a box that takes batches of one size only, and the number of sequences asked for it."""
    asked, axis, answered = Questions(box), 1 if layout.batch_first else 0, list[tuple[int, ...]]()
    for length in (AXIS_LENGTHS[1], NEXT_LENGTHS[1]):
        answered.append(asked(layout.sent(short_tokens((batch, length, dim), longest))).shape)
    per_token = [len(shape) == 2 and shape[axis] for shape in answered] == [AXIS_LENGTHS[1], NEXT_LENGTHS[1]]
    return replace(layout, per_token=per_token), asked.sequences(layout.batch_first)


def short_tokens(shape: tuple[int, int, int], longest: float) -> np.ndarray:
    X = np.random.default_rng(0).standard_normal(shape)
    return X * (longest / np.linalg.norm(X, axis=2).max())


def axes_of(answered: tuple[int, ...], shorter: tuple[int, ...]) -> set[int]:
    """Which of the first two axes of a question its answers have, from the shapes of two; refuses all other shapes."""
    kept = [
        next(
            (axis for axis in (0, 1) if pair == (AXIS_LENGTHS[axis], NEXT_LENGTHS[axis])),
            None if pair[0] == pair[1] else -1,
        )
        for pair in zip(answered, shorter, strict=False)
    ]
    shapes = ([0], [1], [0, None], [1, None], [0, 1], [0, 1, None])
    alone = len(kept) == 3 and 1 in answered[:2] and kept in ([0, None, None], [None, 1, None])
    if len(answered) != len(shorter) or (kept not in shapes and not alone):
        what = f"shape {answered} for an array of shape {AXIS_LENGTHS} and dim"
        raise OracleError(f"expected answers of shape {ANSWER_SHAPES}; got {what}: choose with output=")
    return {axis for axis in kept if axis is not None}


def find_mixing(asked: Questions, X: np.ndarray, answers: np.ndarray, axis: int) -> bool:
    """Whether the first or the last along an axis, changed, changes the answer to any other: causal boxes mix one way
    only. What a repeated question changes by itself counts for nothing."""
    noise = REPEAT_TIMES * np.abs(asked(X) - answers).max()
    for which in (0, -1):
        other = X.copy()
        np.moveaxis(other, axis, 0)[which] = np.roll(np.moveaxis(X, axis, 0)[which], 1, axis=-1)
        changed = np.moveaxis(np.abs(asked(other) - answers), axis, 0)
        if np.delete(changed, which, axis=0).max() > noise:
            return True
    return False
