"""The box on single tokens: its derivatives, and the single token that is answered like a sequence.

Behind heads with a residual connection one token alone reaches every point that a sequence reaches, so every sequence
is answered like some single token, whatever lies behind (`gh.Block`). That token is found by asking: chord steps with
one Jacobian for all sequences around it, and Anderson's acceleration, which corrects that Jacobian from the answers.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .._linalg import norms
from .._types import Float
from .base import Oracle

VectorAnswers = Callable[[np.ndarray], np.ndarray]  # of a batch of vectors

# Of the change from one step to the next: smooth answers follow the law of differences far better, and a neuron of a
# ReLU network that turns on in between does not.
KINK = 3e-3
NOISE = 16.0  # roundings: changes below that say nothing
SHORTER_STEP = 1 / 24  # where one does


def read_single(oracle: Oracle, tokens: Float[np.ndarray, "b d"]) -> Float[np.ndarray, "b k"]:
    """What the box answers to each token alone; where that is too long to be sent, to the longest in its direction."""
    beyond = norms(tokens)[:, None] / oracle.reach
    return np.asarray(oracle((tokens / np.maximum(1.0, beyond))[:, None]))


def read_slope(ask: VectorAnswers, dim: int, step: float, roundoff: float) -> Float[np.ndarray, "d k"]:
    """The derivative of `ask` at 0, from six answers along each axis: an error of the sixth order in `step`."""
    return read_bent_slope(ask, dim, step, roundoff)[0]


def read_bent_slope(
    ask: VectorAnswers, dim: int, step: float, roundoff: float
) -> tuple[Float[np.ndarray, "d k"], bool]:
    """The derivative of `ask` at 0, from six answers along each axis, and whether there are kinks nearby.

    Where the differences along an axis do not change with their length as those of a smooth function do, a kink lies
    between. Then others may lie where they show less: all steps are made shorter, and once more along bent axes.
    """
    axes = np.eye(dim)
    slope, bent = read_derivatives(ask, axes, step, roundoff)
    kinked = bool(bent.any())
    if kinked:
        slope, bent = read_derivatives(ask, axes, SHORTER_STEP * step, roundoff)
    if bent.any():
        slope[bent] = read_derivatives(ask, axes[bent], SHORTER_STEP**2 * step, roundoff)[0]
    return slope, kinked


def read_derivatives(
    ask: VectorAnswers, axes: np.ndarray, step: float, roundoff: float
) -> tuple[np.ndarray, np.ndarray]:
    """Derivatives along axes, and along which of them there are kinks.

    Central differences over one, two and three steps are off by `a h^2`, `4 a h^2` and `9 a h^2`, and higher orders.
    """
    lengths = 1.0, 2.0, 3.0
    steps = np.concatenate([sign * length * step * axes for length in lengths for sign in (1.0, -1.0)])
    there = np.split(ask(steps), 2 * len(lengths))
    one, two, three = ((there[2 * i] - there[2 * i + 1]) / (2 * length * step) for i, length in enumerate(lengths))
    change, wrong = norms(two - one), norms((three - two) - 5 / 3 * (two - one))
    noise = NOISE * roundoff * norms(there[0]) / step
    return 1.5 * one - 0.6 * two + 0.1 * three, wrong > KINK * change + noise


MEMORY = 6  # answers remembered by the acceleration
LEAST_SQUARES = 1e-9  # relative: smaller combinations of past steps are rounding
ALIKE_ROUNDS = 40
DONE_AFTER, LOST_AFTER = 2, 7  # rounds without halving the step, after which a sequence is done, or lost
# Of a step, the usual `floor` below: what conditioning leaves of the rounding of answers. A sequence whose step stays
# above it is asked about for five rounds more, in which it can only come nearer; no experiment chose it.
STALLED_ROUNDINGS = 1e4


def find_alike(
    read_step: Callable[[np.ndarray, np.ndarray], np.ndarray], start: np.ndarray, wanted: float, floor: float
) -> tuple[Float[np.ndarray, "b p"], Float[np.ndarray, " b"]]:
    """Coefficients `(b, p)` at which `read_step(coefficients, which)` vanishes, and how large it still is there.

    `read_step` asks the box and says how far to go for the sequences `which`, one row for each. A sequence is done when
    its step is below `wanted`, or below `floor` and no longer shrinks; it is lost when it shrinks no more at all.
    """
    b, best, found = len(start), np.full(len(start), np.inf), start.copy()
    at, idle, active = start.copy(), np.zeros(b, int), np.arange(b)
    past_at, past_step = np.zeros((0, *start.shape)), np.zeros((0, *start.shape))
    for _ in range(ALIKE_ROUNDS):
        steps = read_step(at[active], active)
        size = norms(steps)
        size = np.where(np.isfinite(size), size, np.inf)
        idle[active] = np.where(size < best[active] / 2, 0, idle[active] + 1)
        better = size < best[active]
        found[active[better]], best[active[better]] = at[active[better]], size[better]
        done = (
            (size <= wanted) | ((idle[active] >= DONE_AFTER) & (best[active] <= floor)) | (idle[active] >= LOST_AFTER)
        )
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
