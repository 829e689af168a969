"""Two-token answers, and what one head owns of them, exactly.

In the outputs N that only head h reaches, an answer is `y N = a (n - n_q) C`, with the weight a of the token n. Over
many of them `[Y, -a D]`, with the right weights, has the columns of `[N ; C]` in its null space. Newton's method finds
weights and null space from rough ones (`null_space`); what it leaves open is the scale of weights, and mixtures of
heads that share their values.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...._errors import NotConverged
from ...._linalg import LEAST_DIVISOR, NullSpace, best_weights, norms, null_space, svd
from ...._oracles import LongToken
from .spaces import Look

SPARE_ROWS = 1.35  # two-token answers, over unknowns of a null space
REACHED = 5.0  # errors: what is smaller, of the largest singular value of answers, no head reaches
LEFT_OPEN = 1e-3  # combinations of weights that the rank drop leaves open: scales, mixtures of heads that share values
ROUGHLY_DROPPED, RANK_DROPPED = 1e8, 2e5  # errors: a rank drop worse than that is none, with rows that do not fit, and
MOST_DROPPED = 0.03  # without; and one worse than this is none anyway
FAR_OFF = 30.0  # times the typical misfit


@dataclass(frozen=True)
class KeyAnswers:
    """Two-token answers `y (n, o)` at the last token q, in an orthonormal basis of the `outputs (s, o)` that heads
    reach, and how far each key is from q."""

    q: np.ndarray
    D: np.ndarray
    y: np.ndarray
    outputs: np.ndarray

    @property
    def padded(self) -> tuple[np.ndarray, np.ndarray]:
        """`[y, 0]` and `[0, D]`: with the right weights a, `[y, -a D]` has a null space."""
        o, p = self.y.shape[1], self.D.shape[1]
        return np.pad(self.y, ((0, 0), (0, p))), np.pad(self.D, ((0, 0), (o, 0)))

    def weights(self, space: NullSpace) -> np.ndarray:
        Y, Z = self.padded
        return best_weights(Y @ space.basis, Z @ space.basis)


def read_key_answers(
    view: LongToken, q: np.ndarray, angle: float, rng: np.random.Generator, outputs: np.ndarray | None = None
) -> KeyAnswers:
    """Reads answers to keys at such an angle, in these outputs or, without any, in all that show."""
    count = int(SPARE_ROWS * (len(q) + view.unseen(q[None]).shape[1]))
    keys = view.sphere.around(q, count, angle, rng)
    y = view(keys[:, None], q)
    _, sizes, right = svd(y)
    outputs = outputs if outputs is not None else right[sizes > view.errors(REACHED, MOST_DROPPED) * sizes[0]].T
    if outputs.shape[1] == 0:
        raise NotConverged("behind a long last token no other token changes the answer")
    return KeyAnswers(q, keys - q, y @ outputs, outputs)


def best_null_spaces(view: LongToken, rows: KeyAnswers, ways: list[list[Look]]) -> list[NullSpace]:
    """The first way to tell heads apart that is true of the rows."""
    best = np.inf
    for way in ways:
        found = [null_space_of(rows, look) for look in way]
        worst = max(space.ratio for space in found)
        if worst <= view.errors(ROUGHLY_DROPPED, MOST_DROPPED):
            found = without_outliers(rows, found)
            worst = max(space.ratio for space in found)
        if worst <= view.errors(RANK_DROPPED, MOST_DROPPED):
            return found
        best = min(best, worst)
    raise NotConverged(f"value maps fit what single keys move only to {best:.0e}")


def null_space_of(rows: KeyAnswers, look: Look) -> NullSpace:
    guess = np.concatenate([look.outputs, with_part_along(rows, look)])
    return null_space(*rows.padded, guess, look.rank, free=LEFT_OPEN)


def without_outliers(rows: KeyAnswers, found: list[NullSpace]) -> list[NullSpace]:
    """The null spaces of the rows that fit all of them: a neuron that turns on between two lengths of a last token
    spoils a few."""
    Y, Z = rows.padded
    left = np.max([norms((Y - rows.weights(space)[:, None] * Z) @ space.basis) for space in found], axis=0)
    kept = left <= FAR_OFF * np.median(left)
    if kept.all():
        return found
    return [null_space(Y[kept], Z[kept], space.basis, space.basis.shape[1], free=LEFT_OPEN) for space in found]


def with_part_along(rows: KeyAnswers, look: Look) -> np.ndarray:
    """What a head reads with the part along q that slopes at q do not show: the one that makes `D C` parallel to its
    answers, row by row. Scaled so that weights are typically a half, or less where some would be above one then."""
    q, Y, D, reads = rows.q, rows.y @ look.outputs, rows.D, look.reads
    along, read = D @ q / np.linalg.norm(q), D @ reads
    direction, r = Y / np.maximum(norms(Y), LEAST_DIVISOR)[:, None], Y.shape[1]
    sizes = 1 / np.maximum(norms(read), LEAST_DIVISOR)
    A = (along * sizes)[:, None, None] * (np.eye(r) - direction[:, :, None] * direction[:, None, :])
    b = sizes[:, None] * (read - np.sum(read * direction, axis=1, keepdims=True) * direction)
    part = np.linalg.lstsq(A.reshape(-1, r), -b.reshape(-1), rcond=None)[0]
    C = reads + np.outer(q / np.linalg.norm(q), part)
    whole = D @ C
    ratio = np.sum(Y * whole, axis=1) / np.maximum(np.sum(whole**2, axis=1), LEAST_DIVISOR)
    off = norms(Y - ratio[:, None] * whole)
    usual = ratio[off <= FAR_OFF * np.median(off)]
    return max(2 * np.median(ratio), usual.max()) * C
