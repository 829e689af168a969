"""Laws about scores, which a learner comes across on its way: scores are linear in a key and in a probe."""

from __future__ import annotations

import numpy as np

from .._errors import HALF_PROBE, MIXED_KEYS, NOT_FRONT_HEAD, OR_NOISY, Evidence, TargetMismatch
from .._meters import Interval, OneRow, Place, Ruler, ValueMeter
from .._types import Float

LOOSE_LOGIT = 1e-4  # of a logit: several heads are hardly ever that close to one, and noise nobody promised often is
HIDDEN_KEY = 1e2  # two random keys both see that much less than usual of a vector once in 15,000
MIXTURE_KEYS = 3  # keys at one query token: two, and their mixture


def mix_third_key(keys: Float[np.ndarray, "n d"]) -> float:
    """Makes the third key the sum of the first two times the number returned, so that it is as long as they are."""
    both = keys[0] + keys[1]
    share = float(np.linalg.norm(keys[:2], axis=1).mean() / np.linalg.norm(both))
    keys[2] = share * both
    return share


def check_mixture(meter: ValueMeter, q: np.ndarray, keys: np.ndarray, share: float, logits: Interval) -> None:
    """Refuses a box whose logits for the first three keys, at the token q, no head could have."""
    s, lo, hi = (end.ravel()[:MIXTURE_KEYS] for end in logits)
    least, most = share * (lo[0] + lo[1]), share * (hi[0] + hi[1])
    off = max(lo[2] - most, least - hi[2])
    allowed = (1 + 2 * share) * mixture_rounding(meter, q, keys, s) + LOOSE_LOGIT * max(1.0, float(np.abs(s).max()))
    if off > allowed:
        evidence = Evidence(
            MIXED_KEYS,
            np.stack([keys[2] + q, q]),
            f"expected a logit of {share * (s[0] + s[1]):.6g}, from {least - allowed:.6g} to {most + allowed:.6g}",
            f"{s[2]:.6g}",
        )
        less = "its answers are less accurate than promised (then say so with tolerance= or rtol=)"
        raise TargetMismatch(f"the box is not a single attention head, or {less}", evidence)


def mixture_rounding(meter: ValueMeter, q: np.ndarray, keys: np.ndarray, s: np.ndarray) -> float:
    """How far rounding inside the box may move such a logit: as for a key vector that hides from the first two keys."""
    d, length = meter.oracle.dim, float(np.linalg.norm(keys[:2], axis=1).min())
    size = HIDDEN_KEY * np.sqrt(d) * float(np.abs(s[:2]).max()) / length
    size += 0.0 if meter.key_bias is None else float(np.linalg.norm(meter.key_bias))
    return 4 * (d + 4) * meter.oracle.roundoff * (length + float(np.linalg.norm(q))) * size


MATCHING_PROBES = 3
AGREEING = 2  # of them are enough
LOOSE_SCORE = 1e-8  # of a score of one, where matched scores are known far better


def check_last_token(ruler: Ruler, place: Place) -> bool:
    """Whether the answer depends on more than the attention output, or `TargetMismatch` where scores make no sense.

    Scores found with the last token fixed are right in any case. If one-row matching finds the same ones, the last
    token does not matter; if not, they must at least be linear in the probe.
    """
    q, u = place.probes(MATCHING_PROBES, ruler.rng)
    copies = ruler.match(q, u)
    alone = ruler.along(OneRow()).match(q, u)
    agree = np.abs(copies.s - alone.s) <= LOOSE_SCORE + 8 * (copies.error + alone.error)
    clear = copies.good & alone.good
    if (clear & agree).sum() >= AGREEING:  # by chance not even one would
        return False
    half = ruler.match(q, u / 2)
    clear = copies.good & half.good
    off = np.abs(copies.s - 2 * half.s) - 8 * (copies.error + 2 * half.error) - LOOSE_SCORE
    off[~clear] = -np.inf
    worst = int(np.argmax(off))
    if off[worst] > 0:
        evidence = Evidence(
            HALF_PROBE,
            ruler.curve.reference(q, u, np.ones(MATCHING_PROBES))[worst],
            f"expected {copies.s[worst] / 2:.6g}",
            f"{half.s[worst]:.6g}",
        )
        raise TargetMismatch(f"{NOT_FRONT_HEAD}, {OR_NOISY}", evidence)
    return True
