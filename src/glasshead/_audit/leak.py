"""What every endpoint that answers with many numbers gives away without a single chosen vector: the width inside it.

Logits are a linear map of a hidden state, so answers to any sequences whatever lie in a space as wide as that state
(Carlini et al. 2024, Finlayson et al. 2024): somewhat more answers than its width show the width, and the space itself,
which is the output projection up to a linear map.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from .. import defences

FIRST_ANSWERS = 32  # answers to begin with; then twice as many, until they span less than they could
SPARE_ANSWERS = 8  # answers more than the width, at least: a gap at the very end may be chance
WIDTH_GAP = 8.0  # between neighbouring singular values: those of a random matrix with so many rows to spare are closer
SHOWN_SINGULAR = 512  # singular values that are kept for the report
PRECISE_SHARE = 1e-5  # of the largest singular value: roundings of float32 leave less
NOISE_TIMES_AT_MOST = 2.0  # times the largest singular value of a matrix of such noise
LEVEL = 100.0  # between the first singular value behind a gap and the middle one: of roundings, or noise
LEAST_TAIL = 3  # singular values behind the gap
LEAK_TOKENS = 3  # of the sequences that are asked


@dataclass(frozen=True)
class Width:
    """What the rank of the answers says, behind one way to answer; `width` is None where it does not show."""

    answers: str
    width: int | None
    singular: tuple[float, ...]

    @property
    def words(self) -> str:
        if self.width is None:
            return f"{self.answers}: no gap in the singular values, so the width does not show"
        return f"{self.answers}: all answers lie in {self.width} dimensions, the width of what is inside"


@dataclass(frozen=True)
class Leak:
    """The widths seen, and the space of the answers as they are: `space (outputs, width)` has orthonormal columns."""

    outputs: int
    queries: int
    rows: tuple[Width, ...]
    space: np.ndarray | None = None

    def to_dict(self) -> dict[str, Any]:
        rows = [
            {"answers": row.answers, "width": row.width, "singular": list(row.singular), "words": row.words}
            for row in self.rows
        ]
        return {"outputs": self.outputs, "queries": self.queries, "rows": rows}


def find_leak(box: Callable[[np.ndarray], Any], dim: int, size: float, seed: int = 0) -> Leak | None:
    """Ask ordinary sequences, tokens `size` long, until their answers span less than they could, or everything.

    None where answers are single numbers, or not numbers at all. The answers are defended after they are given, so
    that all settings together cost what one does.
    """
    rng = np.random.default_rng([seed, dim, LEAK_TOKENS])
    answers = np.empty((0, 0))
    count = FIRST_ANSWERS
    while True:
        X = rng.standard_normal((count - len(answers), LEAK_TOKENS, dim))
        got = np.asarray(box(size * X / np.linalg.norm(X, axis=-1, keepdims=True)), dtype=np.float64)
        if got.ndim == 1 or got.shape[1] == 1 or not np.isfinite(got).all():
            return None
        answers = got if not len(answers) else np.concatenate([answers, got])
        outputs = answers.shape[1]
        if width_of(answers)[0] is not None or count >= outputs + 2 * SPARE_ANSWERS:
            break
        count = min(2 * count, outputs + 2 * SPARE_ANSWERS)
    spread = float(np.std(answers)) or 1.0
    ways = {
        "as they are": lambda f: f,
        "rounded to 4 decimals": partial(defences.rounded, decimals=4),
        "rounded to 2 decimals": partial(defences.rounded, decimals=2),
        "rounded to 1 decimal": partial(defences.rounded, decimals=1),
        "in float16": defences.half,
        "in bfloat16": defences.bfloat16,
        "with noise of 0.01 of their spread": partial(defences.noisy, tolerance=0.01 * spread),
        "with noise of 0.1 of their spread": partial(defences.noisy, tolerance=0.1 * spread),
    }
    rows = []
    for name, wrap in ways.items():
        box = wrap(lambda X: answers)
        given = np.asarray(box(np.arange(len(answers))[:, None, None]))
        if not np.isfinite(given).all():
            continue  # of a format that does not hold them
        width, singular = width_of(given, defence_noise(box, answers))
        rows.append(Width(name, width, tuple(singular[:SHOWN_SINGULAR].tolist())))
    width = rows[0].width
    centred = answers - answers.mean(axis=0)
    space = None if width is None else np.linalg.svd(centred, full_matrices=False)[2][:width].T
    return Leak(answers.shape[1], len(answers), tuple(rows), space)


def defence_noise(box: Any, answers: np.ndarray) -> float:
    """The root mean square of what a defence changes, errors being spread evenly within its promise."""
    promise = getattr(box, "tolerance", 0.0) + getattr(box, "rtol", 0.0) * np.abs(answers)
    return float(np.sqrt(np.mean(promise**2) / 3))


def width_of(answers: np.ndarray, noise: float = 0.0) -> tuple[int | None, np.ndarray]:
    """How many dimensions the answers span, and their singular values, with the mean answer and every answer's own mean
    taken off: so neither a bias nor the normalisation of log-probabilities counts.

    The width is where they fall by `WIDTH_GAP` at once, to what roundings, or noise of that size, leave: smaller than
    `PRECISE_SHARE` of the largest, or about as large as the noise; and level from there on, which it is not where a
    large unit stands in front of the others, or where outputs that are rounded to 0 leave nothing at all.
    """
    centred = answers - answers.mean(axis=0)
    centred = centred - centred.mean(axis=1, keepdims=True)
    singular = np.linalg.svd(centred, compute_uv=False)
    rows, outputs = answers.shape
    last = min(rows, outputs) - 1  # of those that centring leaves
    floor = max(float(singular[0]) * np.finfo(np.float64).eps, np.finfo(np.float64).tiny)
    raised = np.maximum(singular, floor)
    expected = noise * (np.sqrt(rows) + np.sqrt(outputs))
    for width in range(1, min(rows - 1 - SPARE_ANSWERS, last - LEAST_TAIL) + 1):
        tail = raised[width:last]
        first, middle = float(tail[0]), float(tail[len(tail) // 2])
        enough = first <= NOISE_TIMES_AT_MOST * expected if noise else first <= PRECISE_SHARE * raised[0]
        level = first <= LEVEL * middle and (not noise or LEVEL * middle >= expected)
        if enough and level and raised[width - 1] >= WIDTH_GAP * first:
            return width, singular
    return None, singular
