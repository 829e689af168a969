"""One head from answers in float16 or bfloat16, where nobody promised how they are rounded.

Their error is relative, so long keys are no lever against it. Passes with other frames at other scales are: they round
independently.
"""

from __future__ import annotations

import numpy as np

from .._models import Attention
from .._oracle.narrow import Narrow
from .._oracle.scaled import Scaled
from .attention import learn_attention
from .learned import Learned
from .passes import Hidden, hidden, until
from .sampled import Sampled, sampled

MORE = "a format with more digits"
MOST = 64  # passes: past that, what they have in common would show
DITHER = 2.0  # scales differ by up to that factor


def from_narrow(oracle: Narrow, rng: np.random.Generator, rank: int | None, accuracy: float | None) -> Learned:
    """One pass, bounded by the rounding of the answers; more where that does not prove the accuracy asked for."""

    def run() -> Attention:
        factor = float(DITHER ** -rng.random())
        learned = learn_attention(Scaled(oracle, factor), rng, rank)
        if hidden(learned):
            raise Hidden
        return undone(learned.model, factor)

    one = learn_attention(oracle, rng, rank, accuracy)
    words = f"its answers were taken to be rounded once, to {oracle.name}"
    alone = Sampled(**vars(one), quiet=Narrow, asked=words, lacking=MORE)
    if accuracy is None or one.bound <= accuracy or hidden(one):
        return alone
    try:
        return sampled(until(accuracy, [], run, MOST), Narrow, MORE, one)
    except Hidden:
        return alone


def undone(head: Attention, factor: float) -> Attention:
    """The head of which `head` is what shows through `Scaled`."""
    tensors = {"W": head.W / factor**2, "v": head.v / factor, "bias": np.asarray(head.bias)}
    return Attention.from_tensors(tensors | ({"key_bias": head.key_bias / factor} if head.has_key_bias else {}))
