"""Laws that every sum of attention heads obeys, checked with a handful of queries before the expensive ones."""

from __future__ import annotations

import numpy as np

from .._errors import Evidence, TargetMismatch
from .._learner.laws import COPIES, ORDER, SAME, law_token
from .._oracle import Oracle

LOOSE = 1e-6  # of the largest answer: these laws are about what the box is, not about its last digits
ROUNDINGS = 64  # of narrower numbers than float64, where LOOSE is out of reach
NOT_HEADS = "the box is not a sum of attention heads"


def check_laws(oracle: Oracle, B: np.ndarray, bias: np.ndarray, token: np.ndarray, first: np.ndarray, rng) -> None:
    """`first` is what the box answered to `[token]` before B was read."""
    other, another = (law_token(oracle, rng) for _ in range(2))
    one, two = token[None], np.stack([token, token])
    order, swapped = np.stack([other, another, token]), np.stack([another, other, token])
    again, copies, ordered, exchanged = (oracle(X[None])[0] for X in (one, two, order, swapped))
    laws = [
        (SAME, one, first, again),
        ("one token alone is answered by x.B + bias", one, token @ B + bias, again),
        (COPIES, two, again, copies),
        (ORDER, order, ordered, exchanged),
    ]
    size = float(np.abs(bias).max() + np.abs(B).sum(axis=0).max() * np.abs(token).max())
    allowed = max(LOOSE, ROUNDINGS * oracle.roundoff) * size
    for law, query, expected, got in laws:
        refuse_unless(law, query, expected, got, allowed)
    # No score is steep enough to tell such tokens apart, and any share but a half would be a residual connection's.
    near = np.sqrt(oracle.roundoff) * other
    two_alike = np.stack([token + near, token])
    nearby, share = (two_alike[0] - token) @ B, ROUNDINGS * oracle.roundoff * size
    alike = oracle(two_alike[None])[0] - again
    refuse_unless(
        "two tokens hardly apart count alike", two_alike, nearby / 2, alike, share + float(np.abs(nearby).max()) / 16
    )


def refuse_unless(law: str, query: np.ndarray, expected: np.ndarray, got: np.ndarray, allowed: float) -> None:
    """Unless `expected` and `got` are within `allowed` of each other."""
    if np.abs(expected - got).max() <= allowed:
        return
    worst = int(np.argmax(np.abs(expected - got)))
    wanted = f"expected {expected[worst]:.9g} within {allowed:.2g} as output {worst}"
    raise TargetMismatch(NOT_HEADS, Evidence(law, query, wanted, f"{got[worst]:.9g}"))
