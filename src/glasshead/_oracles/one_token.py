"""The box on single tokens: its derivatives, and the single token that is answered like a sequence.

Behind heads with a residual connection one token alone reaches every point that a sequence reaches, so every sequence is
answered like some single token, whatever lies behind (`gh.Block`). That token is found by asking: chord steps with one
Jacobian for all sequences around it, and Anderson's acceleration, which corrects that Jacobian from the answers.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .._linalg import norms
from .._types import Float
from .base import Oracle

Answers = Callable[[np.ndarray], np.ndarray]  # of a batch of vectors

KINK = 32.0  # times the typical disagreement of two steps: between the two a neuron of a ReLU network turns on
SHORTER_STEP = 1 / 32  # where one does


def single(oracle: Oracle, tokens: Float[np.ndarray, "b d"]) -> Float[np.ndarray, "b k"]:
    """What the box answers to each token alone."""
    return np.asarray(oracle(tokens[:, None]))


def read_slope(answers: Answers, dim: int, step: float) -> Float[np.ndarray, "d k"]:
    """The derivative of `answers` at 0, from four answers along each axis: an error of the fourth order in `step`.

    Where the two differences along an axis disagree far more than along others, a kink lies between, and shorter steps
    are taken.
    """
    slope, doubt = differences(answers, np.eye(dim), step)
    bent = np.flatnonzero(doubt > KINK * np.median(doubt))
    if 0 < len(bent) < dim // 2:
        slope[bent] = differences(answers, np.eye(dim)[bent], SHORTER_STEP * step)[0]
    return slope


def differences(answers: Answers, axes: np.ndarray, step: float) -> tuple[np.ndarray, np.ndarray]:
    """Derivatives along axes, and how far those from single and from double steps lie apart."""
    steps = np.concatenate([factor * step * axes for factor in (1.0, -1.0, 2.0, -2.0)])
    there, back, far_there, far_back = np.split(answers(steps), 4)
    near, far = (there - back) / (2 * step), (far_there - far_back) / (4 * step)
    return (4 * near - far) / 3, norms(near - far)


MEMORY = 6  # answers remembered by the acceleration
LEAST_SQUARES = 1e-9  # relative: smaller combinations of past steps are rounding
MOST_ROUNDS = 40
STALLED, GIVEN_UP = 2, 7  # rounds without halving the step, after which a sequence is done, or lost


def find_alike(
    step: Callable[[np.ndarray, np.ndarray], np.ndarray], start: np.ndarray, wanted: float, floor: float
) -> tuple[Float[np.ndarray, "b p"], Float[np.ndarray, " b"]]:
    """Coefficients `(b, p)` at which `step(coefficients, which)` vanishes, and how large it still is there.

    `step` asks the box and says how far to go for the sequences `which`, one row for each. A sequence is done when its
    step is below `wanted`, or below `floor` and no longer shrinks; it is lost when it shrinks no more at all.
    """
    b, best, found = len(start), np.full(len(start), np.inf), start.copy()
    at, idle, active = start.copy(), np.zeros(b, int), np.arange(b)
    past_at, past_step = np.zeros((0, *start.shape)), np.zeros((0, *start.shape))
    for _ in range(MOST_ROUNDS):
        steps = step(at[active], active)
        size = norms(steps)
        size = np.where(np.isfinite(size), size, np.inf)
        idle[active] = np.where(size < best[active] / 2, 0, idle[active] + 1)
        better = size < best[active]
        found[active[better]], best[active[better]] = at[active[better]], size[better]
        done = (size <= wanted) | ((idle[active] >= STALLED) & (best[active] <= floor)) | (idle[active] >= GIVEN_UP)
        active, steps = active[~done], steps[~done]
        if len(active) == 0:
            break
        now = np.zeros_like(start)
        now[active] = steps
        past_at = np.concatenate([past_at[-MEMORY:], at[None]])
        past_step = np.concatenate([past_step[-MEMORY:], now[None]])
        at[active] += accelerated(steps, past_at[:, active], past_step[:, active])
    return found, best


def accelerated(steps: np.ndarray, past_at: np.ndarray, past_step: np.ndarray) -> np.ndarray:
    """The step that the past ones suggest: the combination of them that would have left the least to go."""
    if len(past_at) == 1:
        return steps
    moved, changed = (np.diff(past, axis=0).transpose(1, 0, 2) for past in (past_at, past_step))
    mix = np.einsum("bp,bpm->bm", steps, np.linalg.pinv(changed, rcond=LEAST_SQUARES))
    return steps - np.einsum("bm,bmp->bp", mix, moved + changed)
