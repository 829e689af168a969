"""From `[kappa W, key_bias]` in two factors to a head."""

from __future__ import annotations

import numpy as np

from .._models import Attention
from .._models.factors import factored_svd
from .isolate import IsolatedHead

NOTHING = (
    1e4  # times the precision, of the largest singular value: what is left of a column that was the key bias alone
)


def head_from(left: np.ndarray, rows: np.ndarray, meter: IsolatedHead, v: np.ndarray) -> tuple[Attention, int]:
    """The head with `[kappa W, key_bias] = left @ rows`, and the rank of its W."""
    d = len(left)
    key_bias, Q = left @ rows[:, -1], rows[:, :-1] / meter.kappa
    floor = NOTHING * meter.oracle.roundoff
    U, s, Vt = factored_svd(Q, left.T)
    # The key bias is known no better than that, and W of a head that has nothing else is its error.
    faint = np.sqrt(meter.oracle.roundoff) * float(np.linalg.norm(key_bias)) / meter.kappa
    rank = int(np.sum(s > max(floor * s[0], faint))) if len(s) else 0
    tensors = {"v": v, "bias": np.zeros(())} | ({"key_bias": key_bias} if meter.biased else {})
    U, s, Vt = U[:, :rank], s[:rank], Vt[:rank]
    factors = {"K": (U * np.sqrt(s)).T, "Q": np.sqrt(s)[:, None] * Vt}
    scores = factors if 0 < 2 * rank < d else {"W": (U * s) @ Vt}
    return Attention.from_tensors(scores | tensors), rank
