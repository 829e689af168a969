"""The sum B of all heads' maps to rounding, from pairs `[q + z ; q]` and `[q - z ; q]`.

The two weights of every head add up to one, so the two are answered like tokens that differ by exactly `z B`. Where the
heads are known roughly both tokens can be predicted, and one answer each says how far off they are; what the heads'
errors add is alike in both, and small as z squared.
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from ..._linalg import svd
from ..._oracles import Oracle, single
from .geometry import Reference, Total, with_copies

LONGEST, LONGEST_OF_MOVED = 0.3, 100.0  # keys, of the last token, and of that share of it
ROUNDS = 2  # of answers to what is predicted


def read_pairs(
    oracle: Oracle, references: list[Reference], keys: list[np.ndarray], B: np.ndarray, total: Total, moved: float
) -> Total:
    """The same total with B made more exact, where `keys` are those of the heads at each reference, and `B` their maps:
    six answers for each dimension and reference. Pairs move answers by a share `moved`: the more, the less rounding
    matters, and the more errors of the heads do."""
    d, visible = oracle.dim, total.visible
    views = [at.within(visible) for at in references]
    asked = []
    for at, view in zip(references, views, strict=True):
        left, s, _ = svd(view.seen(total.B), full=True)
        gains = np.concatenate([s, np.zeros(d - len(s))])
        longest = min(LONGEST, LONGEST_OF_MOVED * moved) * np.linalg.norm(at.token)
        length = np.minimum(2 * moved * np.linalg.norm(at.answer) / np.maximum(gains, 1e-300), longest)
        z = left.T * length[:, None]
        both = np.concatenate([z, -z])
        asked.append((z, both, np.asarray(oracle(with_copies(at.token, both[:, None], 1)))))
    found = total.B
    side = np.concatenate([view.gains[:, None] * view.directions @ visible for view in views])
    for _ in range(ROUNDS):
        seen = []
        for at, view, k, (z, both, answers) in zip(references, views, keys, asked, strict=True):
            even = np.einsum("bh,bd,hde->be", expit(both @ k.T) - 0.5, both, B, optimize=True)
            off = (answers - single(oracle, at.token + both @ found / 2 + even)) @ view.looks
            seen.append(view.seen(found) + np.linalg.solve(z, off[:d] - off[d:]))
        found = np.linalg.lstsq(side, np.concatenate(seen, axis=1).T, rcond=None)[0].T @ visible.T
    return Total(found, total.unseen)
