"""All kinks of the function on one half circle.

Between two kinks the function is `C cos t + S sin t`, here called a line: two samples predict a third. If the lines on
both sides of a gap predict each other there is no kink in it, since on a random circle the jumps of different neurons
do not cancel. Two lines that cross inside a gap predict its kink, and the prediction is checked on *both* sides: a
sample on the crossing itself lies on both lines whatever happens around it, and half the kinks would be lost.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .._linalg import LEAST_DIVISOR
from .._types import Float
from .homogeneous import NARROWEST, NEAREST_TO_CROSSING
from .samples import Samples
from .scale import AnswerNoise

FIRST_SAMPLES = 4  # samples to begin with, each with a companion
MOST_SAMPLINGS = 10_000
MOST_IDLE = 16  # rounds in a row that neither ask nor settle anything: gaps too narrow for a new sample, drawn again
GAPS_AT_ONCE = 128  # gaps looked into in one round, from the left: a hopeless search is then seen before it asks much
MOST_SAMPLES, SAMPLES_PER_KINK = 800, 30  # a search that asked more than this found something else than kinks
MOST_BLURRED = 40  # and as many as there are sharp ones: exact answers that blur more kinks than this belong to a curve
CHECK_ERRORS = 3.0  # the two checks lie this many errors of the crossing away from it
TIGHT = 8.0  # and a kink is pinned once its neighbours are this many such distances from it


@dataclass(frozen=True)
class SampledKinks:
    """Kinks: where they are, all that was sampled, and how many gaps were too narrow for this noise to be resolved."""

    at: Float[np.ndarray, "m"]
    samples: Samples
    blurred: int
    given_up: bool


def find_kinks_between(
    F: Callable[[np.ndarray], np.ndarray], low: float, high: float, noise: AnswerNoise, rng: np.random.Generator
) -> SampledKinks:
    """Every round asks what each open gap needs, all in one batch."""
    inner = np.arange(1, FIRST_SAMPLES - 1) + rng.uniform(-0.3, 0.3, FIRST_SAMPLES - 2)
    grid = low + (high - low) * np.r_[0, inner / (FIRST_SAMPLES - 1), 1]
    beside = noise.companion * 0.3 * np.diff(grid).min() * np.r_[np.ones(FIRST_SAMPLES - 1), -1]
    samples = Samples(noise)
    samples.add(grid, F(grid))
    samples.add(grid + beside, F(grid + beside), pair=True)
    idle = 0
    for _ in range(MOST_SAMPLINGS):
        settled = np.count_nonzero(samples.flat | samples.kink)
        wanted, pair = next_samples(samples, rng)
        if len(wanted) == 0 and np.all(samples.flat | samples.kink):
            return SampledKinks(samples.crossings(), samples, int(samples.blurred.sum()), False)
        sharp, blurred = np.count_nonzero(samples.kink & ~samples.blurred), np.count_nonzero(samples.blurred)
        if len(samples.t) + len(wanted) > MOST_SAMPLES + SAMPLES_PER_KINK * sharp or (
            noise.exact and blurred > MOST_BLURRED + sharp
        ):
            break
        idle = idle + 1 if len(wanted) == 0 and np.count_nonzero(samples.flat | samples.kink) == settled else 0
        if idle > MOST_IDLE:
            break
        if len(wanted):
            samples.add(wanted, F(wanted), pair)
    return SampledKinks(samples.crossings(), samples, int(samples.blurred.sum()), True)


def next_samples(samples: Samples, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Where to ask next and which of these are companions; kinks pinned by now are marked on the way."""
    samples.join()
    still_open = ~(samples.flat | samples.kink)
    # what lies beside a companion is presumed flat until nothing else is left to ask
    open_gaps = np.flatnonzero(still_open & ~samples.pair)
    if len(open_gaps) == 0:
        open_gaps = np.flatnonzero(still_open)
    if len(open_gaps) == 0:
        hidden = samples.bent_arcs()
        return hidden, np.zeros(len(hidden), bool)
    open_gaps = open_gaps[:GAPS_AT_ONCE]
    left, right = samples.line_before(open_gaps), samples.line_after(open_gaps)
    lonely = companions(samples, open_gaps, left == open_gaps, right == open_gaps + 1, rng)
    both = (left < open_gaps) & (right > open_gaps + 1)
    asked = [
        question
        for gap, first, last in np.column_stack([open_gaps, left, right])[both].tolist()
        if (question := next_in_gap(samples, gap, first, last, rng)) is not None
    ]
    wanted = np.r_[lonely, asked]
    fresh = ~np.isin(wanted, samples.t)
    return wanted[fresh], (np.arange(len(wanted)) < len(lonely))[fresh]


def companions(samples: Samples, gaps, no_left, no_right, rng) -> np.ndarray:
    """A second sample close to each one that stands alone at an open gap, so that the two make a line."""
    t, width = samples.t, np.diff(samples.t)
    from_left, from_right = set(gaps[no_left].tolist()), set((gaps[no_right] + 1).tolist())
    out = []
    for i in sorted(from_left | from_right):
        sides = [side for side, known in ((1, from_left), (-1, from_right)) if i in known]
        narrower = min(width[i if side > 0 else i - 1] for side in sides)
        out.append(t[i] + samples.noise.companion * narrower * sides[rng.integers(len(sides))] * rng.uniform(0.8, 1.2))
    return np.array(out)


def next_in_gap(samples: Samples, gap: int, first: int, last: int, rng) -> float | None:
    """What to ask in a gap between two lines: beside their crossing if it can be trusted, else near the middle."""
    low, high = samples.t[gap], samples.t[gap + 1]
    width = high - low
    crossing, jump = samples.meet(gap, first, last)
    error_left, error_right = samples.error(gap, first, crossing), samples.error(gap + 1, last, crossing)
    reach = samples.reach(gap, first, last)
    error = CHECK_ERRORS * (error_left + error_right) / max(jump, LEAST_DIVISOR)
    near = max(error, NEAREST_TO_CROSSING * reach, 64 * np.spacing(abs(crossing)))
    loose_left, loose_right = crossing - low > TIGHT * near, high - crossing > TIGHT * near
    within = low - near / 2 < crossing < high + near / 2
    if within and near < 0.1 * width:
        if loose_left and (error_left >= error_right or not loose_right):
            return crossing - near
        if loose_right:
            return crossing + near
    tight = not (loose_left or loose_right) and samples.proved(gap) and reach >= width
    if tight or width < NARROWEST:
        samples.pin(gap, blurred=bool(not within or near > 0.1 * reach))
        return None
    return low + width * rng.uniform(0.4, 0.6)
