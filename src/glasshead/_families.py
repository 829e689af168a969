"""How each family is learned and checked, and what to say where that does not succeed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ._checks import check_held_out, check_held_out_signs, find_promise
from ._learners import (
    check_head,
    check_heads,
    learn_any_network,
    learn_head,
    learn_heads,
    learn_sign_attention,
    learn_transformer,
)

TOLERANCE, SIGNS = "tolerance= or rtol=", "dtype= or flips="
LESS_NOISE, LONGER = "a smaller tolerance or a larger max_norm", "a larger max_norm"


def checked_before(_oracle, learned, _rng):
    """For learners that check what they found by themselves, since it takes more than asking."""
    return learned.check


def unexplained(_oracle, mismatch, _rng):
    return mismatch


@dataclass(frozen=True)
class Way:
    """`learn(oracle, rng, rank, accuracy)` gives a result and `check(oracle, result, rng)` tests it on fresh queries.

    `what` the box would have to be, which `promise` could excuse it, and what is `needed` for more accuracy. A mismatch
    is `explained` where it can be.
    """

    learn: Callable[..., Any]
    check: Callable[..., Any]
    what: str
    promise: str
    needed: str
    explain: Callable[..., Any] = unexplained


WAYS = {
    ("attention", "value"): Way(learn_head, check_head, "a single attention head", TOLERANCE, LESS_NOISE, find_promise),
    ("attention", "sign"): Way(learn_sign_attention, check_held_out_signs, "a single attention head", SIGNS, LONGER),
    ("multi-head", "value"): Way(learn_heads, check_heads, "a sum of attention heads", TOLERANCE, LESS_NOISE),
    ("transformer", "value"): Way(
        learn_transformer, check_held_out, "a one-layer Transformer with one head", TOLERANCE, LESS_NOISE
    ),
    ("any-network", "value"): Way(
        learn_any_network, checked_before, "a single attention head with a network behind it", TOLERANCE, LESS_NOISE
    ),
    ("any-network", "sign"): Way(
        learn_any_network, checked_before, "a single attention head with a network behind it", SIGNS, LONGER
    ),
}
