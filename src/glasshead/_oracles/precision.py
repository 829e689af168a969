"""How many digits a box computes with, from what it is sent, what it declares and what its answers need."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np

from .base import HALF_REACH, ROUNDOFF, Opening, Oracle, law_token, read_first_answers

FORMAT_BITS = 8, 11, 24, 53  # significant ones: bfloat16, float16, float32, float64
BY_CHANCE = 2  # numbers of a format may all happen to have so many zeros in the end
FEW_BITS = 6  # fewer than these are no format, but labels, or what is left of sums that cancel
ALL_BITS = 45  # a number that needs as many is one of float64


def significant_bits(answers: np.ndarray) -> int:
    """How many bits the longest of some numbers needs."""
    whole_numbers = np.ldexp(np.frexp(np.abs(answers, dtype=np.float64))[0], 53).astype(np.int64)
    zeros = np.frexp((whole_numbers & -whole_numbers).astype(np.float64))[1] - 1
    return 53 - int(zeros.min(initial=53))


def as_array(answers: Any) -> np.ndarray:
    """What a box answered, torch's tensors included: those of bfloat16, which numpy does not have, as the same numbers
    in float64."""
    if not hasattr(answers, "detach"):
        return np.asarray(answers)
    answers = answers.detach().cpu()
    return (answers.double() if str(answers.dtype) == "torch.bfloat16" else answers).numpy()


class Precision:
    """Narrows down the format of a box: a format stays possible until an answer needs more digits than it has."""

    ENOUGH = 5  # distinct answers before a coincidence (whole numbers, say) is not believed any more
    ENOUGH_OTHER = 16  # the same, for a number of bits that no usual format has

    def __init__(self, dtype: np.dtype):
        self._input = ROUNDOFF[dtype.name]
        self._bits = 0
        self._declared = 0.0
        self._seen: set[float] = set()

    def see(self, answers: np.ndarray) -> None:
        """Take note of some answers."""
        if answers.dtype.kind == "f":
            self._declared = ROUNDOFF.get(answers.dtype.name, 0.0)
        if self._bits >= ALL_BITS:
            return
        nonzero = answers[answers != 0].astype(np.float64, copy=False)
        if len(self._seen) < self.ENOUGH_OTHER:
            self._seen.update(np.unique(nonzero).tolist())
        self._bits = max(self._bits, significant_bits(nonzero))

    def take_tokens(self, roundoff: float) -> None:
        """Tokens are rounded inside the box, whatever its answers look like."""
        self._input = max(self._input, roundoff)

    @property
    def known(self) -> bool:
        """Whether more answers could hardly show another format."""
        return self._bits >= ALL_BITS or len(self._seen) >= self.ENOUGH_OTHER

    @property
    def roundoff(self) -> float:
        """The coarsest of what the box is sent, what it declares, and what all its answers fit in."""
        bits = next(bits for bits in FORMAT_BITS if bits >= self._bits)
        unusual = bits > FORMAT_BITS[0] and bits - self._bits > BY_CHANCE and self._bits < ALL_BITS
        if unusual and len(self._seen) >= self.ENOUGH_OTHER:
            bits = self._bits - 1  # numbers may have been cut off instead of rounded
        shown = len(self._seen) >= self.ENOUGH and self._bits >= FEW_BITS
        return max(self._input, self._declared, 2.0**-bits if shown else 0.0)


FORMAT_TOKENS = 16  # single tokens, whose answers show how many digits there are


def few_bits(answers: np.ndarray) -> bool:
    """Whether a few answers need as many bits as those of a narrow format."""
    return FEW_BITS <= significant_bits(answers) <= FORMAT_BITS[1]


def read_format(oracle: Oracle, opening: Opening) -> None:
    """Single tokens until it is known how many digits answers have; none where the first one had them all, or where
    the values of a head take as many anyway. Bounds of what is read first would be too small otherwise.

    A bias of few digits may hide what tokens of the usual length add, and that anything bends: then they are asked in
    any dimension, and longer and longer.
    """
    biased = bool(np.any(opening.zero)) and few_bits(np.array([opening.zero, opening.first]))
    needed = biased or (np.any(opening.first != opening.zero) and oracle.dim < FORMAT_TOKENS)
    if needed and not oracle.format_known:
        rng = deepcopy(opening.after)
        longest = min(HALF_REACH, oracle.reach) if biased else 1.0
        lengths = longest ** np.linspace(0, 1, FORMAT_TOKENS)
        oracle(np.stack([rng.uniform(0.5, 1.0) * each * law_token(oracle, rng) for each in lengths])[:, None])


def read_opening(oracle: Oracle, rng: np.random.Generator) -> Opening:
    """Two queries, and some more where answers do not show their format at once."""
    opening = read_first_answers(oracle, rng)
    read_format(oracle, opening)
    return opening
