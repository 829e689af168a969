"""What honest users ask, and what a defence takes from them: the price of every setting of an audit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

HONEST_LENGTHS = 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64  # tokens of the sequences that stand for honest users
EACH_LENGTH = 8  # sequences of each
FLAT_ANSWERS = 1e-12  # of their size: answers that differ by less are the same, but for rounding


@dataclass(frozen=True)
class Honest:
    """Sequences of honest users, grouped by length, and what the box answers to them, numbers or `signs`, 0 and 1."""

    X: list[np.ndarray] = field(repr=False)
    answers: np.ndarray = field(repr=False)
    signs: bool = False

    @property
    def outputs(self) -> int:
        return 1 if self.answers.ndim == 1 else self.answers.shape[1]

    @property
    def centred(self) -> np.ndarray:
        return self.answers - self.answers.mean(axis=0)

    @property
    def spread(self) -> float:
        """The root of the mean square of answers, each output's mean taken off; where they are all the same, their
        size, or 1."""
        size = float(np.abs(self.answers).max(initial=0.0))
        spread = root_mean_square(self.centred)
        return spread if spread > FLAT_ANSWERS * size else size or 1.0

    @property
    def range(self) -> float:
        return float(np.ptp(self.answers)) or 1.0

    @property
    def longest(self) -> float:
        return max(float(np.linalg.norm(x, axis=-1).max()) for x in self.X) or 1.0

    @property
    def queries(self) -> int:
        return sum(len(x) for x in self.X)

    def distortion(self, got: np.ndarray, signs: bool = False) -> float:
        """How far, over their spread, the true answers are from the straight line that fits the defended ones best:
        0 where nothing is lost, 1 where nothing is left."""
        got = (got > 0 if signs else got).astype(np.float64)
        if np.array_equal(got, self.answers):
            return 0.0
        got = got - got.mean(axis=0)
        both, own = np.sum(got * self.centred, axis=0), np.sum(got * got, axis=0)
        slope = np.divide(both, own, out=np.zeros_like(both), where=own > 0)
        return min(1.0, root_mean_square(self.centred - slope * got) / self.spread)

    def misfit(self, predicted: np.ndarray, up_to_factor: bool = False) -> float:
        """How far a copy's answers are from the true ones, over their spread; from signs the factor is not known, and
        the best one is taken. Where the box answers signs, twice the share of wrong ones, which is 1 for guesses."""
        if self.signs:
            return 2 * float(np.mean((predicted > 0) != (self.answers > 0)))
        if up_to_factor:
            own = float(np.sum(predicted * predicted))
            predicted = predicted * (float(np.sum(predicted * self.answers)) / own if own > 0 else 0.0)
        return root_mean_square(predicted - self.answers) / self.spread


class RememberingBox:
    """A box that is not asked again what honest users have asked."""

    def __init__(self, box: Any, honest: Honest):
        self.box, self.honest, self.dim = box, honest, box.dim

    def __call__(self, X: np.ndarray) -> np.ndarray:
        first = 0
        for x in self.honest.X:
            if np.array_equal(X, x):
                return self.honest.answers[first : first + len(x)]
            first += len(x)
        return self.box(X)


def root_mean_square(x: np.ndarray) -> float:
    largest = float(np.abs(x).max(initial=0.0))
    return largest * float(np.sqrt(np.mean(np.square(x / largest)))) if 0 < largest < np.inf else largest


def read_answers(box: Callable[[np.ndarray], Any], X: Sequence[np.ndarray]) -> np.ndarray:
    """Asks a box or a model all of them: the answers, one after the other, as float64."""
    return np.concatenate([np.asarray(box(x), dtype=np.float64) for x in X])


def usual_sequences(dim: int, reach: float, seed: int) -> list[np.ndarray]:
    """Gaussian tokens with entries of about 1, none longer than the box takes, in sequences of 1 to 64 tokens."""
    rng = np.random.default_rng([seed, dim])
    every = [rng.standard_normal((EACH_LENGTH, length, dim)) for length in HONEST_LENGTHS]
    return [x * np.minimum(1.0, reach / np.linalg.norm(x, axis=-1, keepdims=True)) for x in every]


def given_sequences(honest: Any, dim: int) -> list[np.ndarray]:
    """Sequences of the owner's: one array `(B, N, d)`, or a list of arrays `(N, d)` of any lengths."""
    words = (
        f"expected honest= to hold sequences of shape (N, {dim}) of finite numbers, or to be one array (B, N, {dim})"
    )
    if not np.iterable(honest) or isinstance(honest, str | Mapping):
        raise ValueError(f"{words}, got {type(honest).__name__}")
    several = []
    for x in honest:
        given = np.asarray(x)
        if given.dtype.kind not in "fiu" or given.ndim != 2 or given.shape[1] != dim or not len(given):
            raise ValueError(f"{words}, got one of shape {given.shape} and type {given.dtype}")
        if not np.isfinite(given).all():
            raise ValueError(f"{words}, got one with NaN or infinity in it")
        several.append(given.astype(np.float64))
    if len(several) < 2:
        raise ValueError(f"expected honest= to hold two sequences or more, got {len(several)}")
    lengths = sorted({len(x) for x in several})
    return [np.stack([x for x in several if len(x) == length]) for length in lengths]
