"""The sum B of all heads' maps to rounding, from pairs `[q + z ; q]` and `[q - z ; q]`.

The two weights of every head add up to one, so the two are answered like tokens that differ by exactly `z B`. Where the
heads are known both tokens can be predicted, and found from there; what is not seen of them stays as predicted.
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from ..._linalg import svd
from ..._oracles import Oracle
from .geometry import Reference, Total, with_copies
from .values import Heads, Rows, find_moves

LONGEST, LONGEST_OF_MOVED = 0.3, 100.0  # keys, of the last token, and of that share of it


def read_pairs(oracle: Oracle, at: Reference, heads: Heads, total: Total, moved: float, wanted: float) -> Total:
    """The same total with B made more exact, but for what is not seen at this reference.

    Pairs move answers by a share `moved`: the more, the less rounding matters, and the more errors of the heads do.
    """
    d, view = oracle.dim, at.within(total.visible)
    left, s, _ = svd(view.seen(total.B), full=True)
    gains = np.concatenate([s, np.zeros(d - len(s))])
    longest = min(LONGEST, LONGEST_OF_MOVED * moved) * np.linalg.norm(at.token)
    length = np.minimum(2 * moved * np.linalg.norm(at.answer) / np.maximum(gains, 1e-300), longest)
    z = left.T * length[:, None]
    both = np.concatenate([z, -z])
    answers = np.asarray(oracle(with_copies(at.token, both[:, None], 1)))
    even = np.einsum("bh,bd,hde->be", expit(both @ heads.k.T) - 0.5, both, heads.B, optimize=True)
    found = find_moves(oracle, at, view, Rows(both, answers, both @ total.B / 2 + even, copies=1), wanted)
    seen = view.seen(found.moves)
    B = view.moves(np.linalg.solve(z, seen[:d] - seen[d:])) + total.B @ view.blind.T @ view.blind
    return Total(B, total.unseen)
