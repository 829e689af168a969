"""Is it one head that answers? Logits are linear in the key, at any one query token: two of them foretell a mixture.

A sum of several heads hardly ever does, whatever their ranks. It is asked among the pilots, which are needed anyway.
"""

from __future__ import annotations

import numpy as np

from .._errors import Evidence, TargetMismatch
from .._meter import ValueMeter
from .._meter.logit import Interval
from .._types import Float
from .laws import MIXED

CLEARLY = 1e-4  # of a logit: several heads are hardly ever that close to one, and noise nobody promised often is
HIDDEN = 1e2  # two random keys both see that much less than usual of a vector once in 15,000
FEWEST = 3  # keys at one query token: two, and their mixture


def mix(keys: Float[np.ndarray, "n d"]) -> float:
    """Makes the third key the sum of the first two times the number returned, so that it is as long as they are."""
    both = keys[0] + keys[1]
    share = float(np.linalg.norm(keys[:2], axis=1).mean() / np.linalg.norm(both))
    keys[2] = share * both
    return share


def check_mixture(meter: ValueMeter, q: np.ndarray, keys: np.ndarray, share: float, logits: Interval) -> None:
    """Refuses a box whose logits for the first three keys, at the token q, no head could have."""
    s, lo, hi = (end.ravel()[:FEWEST] for end in logits)
    least, most = share * (lo[0] + lo[1]), share * (hi[0] + hi[1])
    off = max(lo[2] - most, least - hi[2])
    allowed = (1 + 2 * share) * rounding(meter, q, keys, s) + CLEARLY * max(1.0, float(np.abs(s).max()))
    if off > allowed:
        evidence = Evidence(
            MIXED,
            np.stack([keys[2] + q, q]),
            f"expected a logit of {share * (s[0] + s[1]):.6g}, from {least - allowed:.6g} to {most + allowed:.6g}",
            f"{s[2]:.6g}",
        )
        less = "its answers are less accurate than promised (then say so with tolerance= or rtol=)"
        raise TargetMismatch(f"the box is not a single attention head, or {less}", evidence)


def rounding(meter: ValueMeter, q: np.ndarray, keys: np.ndarray, s: np.ndarray) -> float:
    """How far rounding inside the box may move such a logit: as for a key vector that hides from the first two keys."""
    d, length = meter.oracle.dim, float(np.linalg.norm(keys[:2], axis=1).min())
    size = HIDDEN * np.sqrt(d) * float(np.abs(s[:2]).max()) / length
    size += 0.0 if meter.key_bias is None else float(np.linalg.norm(meter.key_bias))
    return 4 * (d + 4) * meter.oracle.roundoff * (length + float(np.linalg.norm(q))) * size
