"""Laws of the odds of one head, of which no model is needed: those of copies of a key, and of a mixture of keys.

Beside a last token q a key k has the weight p, and eight copies of it have `8p / (1 + 7p)` together, whatever scores
are. All four answers, to `[k]`, `[q]`, `[k ; q]` and `[k ... k ; q]`, are the box's own, so a second head shows in the
last digits however faint it is: errors of W, which may hide it elsewhere, play no part.

The logarithm of the odds, the logit, is linear in the key: that of a mixture of keys is the mixture of theirs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .._errors import COPIED_KEY, MIXED_KEYS, Evidence, TargetMismatch
from .._learned import Learned
from .._meters import Interval, ValueMeter
from .._oracles import DOUBLE, Oracle
from .._types import Float
from .held_out import Compared
from .ordinary import ROUNDED, by_length, gaussian_sequences, levered

ODDS_COPIES = 8
PROBES = 2  # pairs of a key and a last token: at one of them two heads may happen to agree
ODDS_QUERIES = 4 * PROBES
MORE_PROBES = 8  # where answers are further off than bounds allow: a second head is off by as much as bad arithmetic
ROUNDED_SCORES = 2.0  # times sqrt(d) roundings: sums of d products in another order, for sequences of other lengths


def check_odds(oracle: Oracle, learned: Learned, rng: np.random.Generator, probes: int = PROBES) -> Evidence | None:
    """What breaks the law, where answers are as accurate as promised or as their format is; 4 queries for a probe."""
    sizes = np.resize(learned.suits(oracle.reach), probes)
    lever, _ = learned.levers(oracle)
    pairs = [levered(oracle, x, lever) for x in gaussian_sequences(oracle, (2,) * probes, sizes, rng)]
    copied = [np.concatenate([np.repeat(x[:1], ODDS_COPIES, axis=0), x[1:]]) for x in pairs]
    asked = [*copied, *pairs, *(x[:1] for x in pairs), *(x[1:] for x in pairs)]
    many, one, key, last = by_length(oracle, asked).reshape(4, probes, -1)
    swing = key - last
    lengths = np.maximum(np.sum(swing**2, axis=1), np.finfo(float).tiny)
    p = np.clip(np.sum((one - last) * swing, axis=1) / lengths, 0.0, 1.0)
    want = last + swing * (ODDS_COPIES * p / (1 + (ODDS_COPIES - 1) * p))[:, None]
    steep = ODDS_COPIES / (1 + (ODDS_COPIES - 1) * p) ** 2 * np.sqrt(swing.shape[1])
    model: Any = learned.model  # one head, or a sum of one
    v, bias = float(np.linalg.norm(model.heads[0].v)), float(np.abs(model.bias).max())
    size = np.array([float(np.linalg.norm(x, axis=1).max()) * v + bias for x in pairs])
    return Compared(copied, many, want, 2 * (1 + steep) * answer_error(oracle, size)).evidence(COPIED_KEY)


def answer_error(oracle: Oracle, size: np.ndarray) -> np.ndarray:
    """How far off answers made of numbers of that size are: as promised, or by some roundings of their format. A
    relative error that is promised covers those."""
    roundings = ROUNDED + (0.0 if oracle.box.narrow else ROUNDED_SCORES * np.sqrt(oracle.dim))
    if oracle.box.rtol > 0:
        return oracle.tolerance + (oracle.rtol + roundings * DOUBLE) * size
    return oracle.tolerance + max(oracle.rtol, oracle.box.roundoff) * roundings * size


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
