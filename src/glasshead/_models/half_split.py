"""Rotary positions in the layout of other libraries: one list of frequencies for all heads, first half with second.

There, coordinate j of a head turns with coordinate `width / 2 + j`, by the same frequency in every head. A recovered
head has planes with frequencies of its own, in any order, and a rest that does not turn: planes of equal frequency
become the same coordinates, and what does not turn has the frequency 0. A complex factor for each plane is free; the
one chosen makes keys and queries equally large.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .._linalg import numerical_rank
from .._types import Float
from .rotary import Turning


@dataclass(frozen=True)
class HalfSplit:
    """Rows of all heads, for scores `(K x_i + k_bias) . R(t) (Q x_N + q_bias) / sqrt(width)` of tokens t places before
    the last one; `lost` is the largest share of a head that did not fit, or how far frequencies of heads are apart."""

    K: Float[np.ndarray, "rows d"]
    Q: Float[np.ndarray, "rows d"]
    k_bias: Float[np.ndarray, " rows"]
    q_bias: Float[np.ndarray, " rows"]
    frequencies: Float[np.ndarray, " half"]
    lost: float


def half_split(heads: Sequence[Turning], width: int, allowed: float) -> HalfSplit:
    """ValueError where heads do not fit into `width` rows each, but for a share that is allowed."""
    half, dim = width // 2, heads[0].K.shape[1]
    if width % 2:
        raise ValueError(f"rotary positions turn pairs of coordinates, and {width} rows per head are an odd number")
    slots, places, apart = common_frequencies([head.frequencies for head in heads], allowed)
    if len(slots) > half:
        most = max(len(head.frequencies) for head in heads)
        why = "frequencies differ between heads" if most <= half else "heads turn in more planes than that"
        raise ValueError(
            f"{width} rows per head have room for {half} frequencies, which all heads share, but there are "
            f"{len(slots)} of them: {why}; rtol= says how far they may be apart"
        )
    keys, queries = np.zeros((2, len(heads), width, dim + 1))
    lost = apart
    for h, (head, at) in enumerate(zip(heads, places, strict=True)):
        m = len(head.frequencies)
        k, q = (np.c_[one, bias] for one, bias in ((head.K, head.k_bias), (head.Q, head.q_bias)))
        # Here places turn keys and queries the other way round than there: as complex numbers, conjugated.
        size = [np.linalg.norm(x[:m] + 1j * x[m : 2 * m], axis=1, keepdims=True) for x in (k, q)]
        equal = np.sqrt(size[0] * size[1])
        for rows, x, own in ((keys, k, size[0]), (queries, q, size[1])):
            factor = np.divide(equal, own, out=np.zeros((m, 1)), where=own > 0)
            rows[h, at], rows[h, half + at] = factor * x[:m], -factor * x[m : 2 * m]
        whole = float(np.linalg.norm(head.K) * np.linalg.norm(q))
        still = np.r_[len(slots) : half, half + len(slots) : width]
        k_rows, q_rows, beyond = still_rows(k[2 * m :, :-1], q[2 * m :], len(still), whole)
        keys[h, still, :-1], queries[h, still] = k_rows, q_rows
        if beyond > allowed:
            raise ValueError(
                f"what positions do not turn of head {h} does not fit beside {len(slots)} frequencies into {width} "
                f"rows: a share of {beyond:.1e} of its scores would be lost"
            )
        lost = max(lost, beyond)
    K, Q = (width**0.25 * x.reshape(-1, dim + 1) for x in (keys, queries))
    return HalfSplit(K[:, :-1], Q[:, :-1], K[:, -1], Q[:, -1], np.pad(slots, (0, half - len(slots))), lost)


def common_frequencies(
    heads: Sequence[np.ndarray], allowed: float
) -> tuple[Float[np.ndarray, " slots"], list[np.ndarray], float]:
    """Falling frequencies that all heads together have, which of them each head's own are, and how far off at most."""
    slots: list[float] = []
    places: list[np.ndarray] = []
    for own in heads:
        at: list[int] = []
        for frequency in own:
            near = [j for j, slot in enumerate(slots) if j not in at and abs(slot - frequency) <= allowed]
            if not near:
                slots.append(float(frequency))
                near = [len(slots) - 1]
            at.append(min(near, key=lambda j: abs(slots[j] - frequency)))
        places.append(np.array(at, int))
    order = np.argsort(-np.array(slots), kind="stable")
    rank, falling = np.argsort(order), np.array(slots)[order]
    places = [rank[at] for at in places]
    apart = [float(np.abs(falling[at] - own).max(initial=0.0)) for at, own in zip(places, heads, strict=True)]
    return falling, places, max(apart)


def still_rows(
    k: Float[np.ndarray, "n d"], q: Float[np.ndarray, "n e"], rows: int, whole: float
) -> tuple[np.ndarray, np.ndarray, float]:
    """As many rows with the same scores `k^T q`, balanced, and the share of the whole head that is lost."""
    U, s, Vt = np.linalg.svd(k.T @ q, full_matrices=False)
    s = s[: numerical_rank(np.append(whole, s), len(U)) - 1]  # what is rounding of the whole head is none of it
    keep = min(rows, len(s))
    root, missing = np.sqrt(s[:keep])[:, None], ((0, rows - keep), (0, 0))
    beyond = float(np.linalg.norm(s[keep:])) / whole if whole else 0.0
    return np.pad(root * U[:, :keep].T, missing), np.pad(root * Vt[:keep], missing), beyond
