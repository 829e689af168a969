"""A recovered head whose bounds are confidence intervals, for want of a promise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from .._models import Attention
from .._models.factors import numerical_rank
from .._oracle import Oracle
from .learned import Learned
from .passes import CONFIDENCE, average, exact_rank, interval

WIDER = 3.0  # times the interval: what the held-out check allows
BOUNDS = {"bound": "W", "bound_v": "v", "bound_key_bias": "key_bias", "bound_bias": "bias"}

Quiet = Callable[[Oracle], Oracle]


@dataclass(frozen=True)
class Sampled(Learned):
    """`quiet` makes the noise of an oracle a promise, `asked` says what the bounds are, `lacking` what would help.

    `one` is a single pass, bounded by that promise. Passes that differ by more do not read a head through noise.
    """

    quiet: Quiet
    asked: str
    lacking: str = ""
    one: Learned | None = None

    @property
    def caveat(self) -> str:  # type: ignore[override]
        return f"; {self.asked}"

    @property
    def needed(self) -> str:  # type: ignore[override]
        return self.lacking

    def through(self, oracle: Oracle) -> Oracle:
        return self.quiet(oracle)

    def allowed(self, X: np.ndarray, oracle: Oracle) -> np.ndarray:
        one = self.one or self
        wider = {name: WIDER * min(getattr(self, name), getattr(one, name)) for name in BOUNDS}
        return super(Sampled, replace(self, **wider)).allowed(X, oracle)


def sampled(passes: list[Attention], quiet: Quiet, lacking: str, one: Learned) -> Sampled:
    """The average of the passes, with intervals from their spread."""
    head = average(passes)
    bounds = {name: interval(passes, parameter) for name, parameter in BOUNDS.items()}
    rank, given = exact_rank(head), " for a head of that rank"
    if rank == head.dim:
        rank, given = numerical_rank(np.linalg.svd(head.W, compute_uv=False), rank, bounds["bound"]), ""
    asked = f"a {CONFIDENCE:.0%} confidence interval{given} from the spread of {len(passes)} passes, no guarantee"
    return Sampled(
        head, rank, **bounds, confidence=CONFIDENCE, strict=False, quiet=quiet, asked=asked, lacking=lacking, one=one
    )
