"""Rotary positions from scores at a few places: frequencies are eigenvalues.

A head's keys at one place are those at the next one, turned: `k_(t+1)(q) = M k_t(q)` for every last token q, in the
space that the keys lie in. M is similar to a rotation: its eigenvalues are `exp(+-i frequency)`, its eigenvectors the
planes. With them keys at every offset are known, and what is left of log-odds says what biases add.
"""

from __future__ import annotations

import numpy as np

from ...._errors import NotConverged
from ...._linalg import svd
from ...._models import Turning
from .key_spaces import turn
from .scores import KeysRead

STILL, STILL_ERRORS = 1e-7, 10.0  # radians per place, and errors of keys: what turns by less does not turn
ON_CIRCLE = 1e-5  # eigenvalues of a rotation lie on the unit circle
IN_SPACE = 1e-7  # of the largest singular value of keys: what is smaller is their error
OTHER_POSITIONS = "the order of tokens matters, in another way than rotary positions or slopes of scores"
SEEN_BIAS = 1e-6  # of the best determined direction of a key bias: others are left at 0


def turning(scores: KeysRead, h: int) -> Turning:
    """The head in coordinates of tokens on the sphere."""
    keys, q = scores.keys[h], scores.q
    _, s, right = svd(np.concatenate(keys))
    rank = int(np.sum(s > IN_SPACE * s[0])) if scores.ranks is None else scores.ranks[h]
    U, least = right[:rank].T, max(STILL, STILL_ERRORS * float(s[rank] / s[0]) if rank < len(s) else 0.0)
    values, vectors = (np.asarray(x, complex) for x in np.linalg.eig(turn(keys, U)))
    angles, off = np.angle(values), float(np.abs(np.abs(values) - 1).max())
    still, up = np.abs(angles) < least, angles >= least
    if not off <= ON_CIRCLE or 2 * int(up.sum()) + int(still.sum()) != len(angles):
        raise NotConverged(OTHER_POSITIONS)
    order = np.argsort(-angles[up])
    plane, frequencies = vectors[:, up][:, order], angles[up][order]
    rest = svd(np.hstack([np.real(vectors[:, still]), np.imag(vectors[:, still])]), full=True)[0][:, : int(still.sum())]
    basis = np.hstack([np.real(plane), np.imag(plane), rest])
    K = (U @ basis).T
    # Keys in coordinates of the planes, turned back by one place, are what queries make of the last token.
    bare = Turning(K, 0 * K, np.zeros(len(K)), np.zeros(len(K)), frequencies)
    queries = bare.turned(np.linalg.solve(basis, U.T @ keys[0].T).T, -1.0)
    solved = np.linalg.lstsq(np.hstack([q, np.ones((len(q), 1))]), queries, rcond=None)[0]
    query = q @ solved[:-1] + solved[-1]
    own = np.sum((q @ K.T) * query, axis=1)
    turns = np.concatenate([bare.turned(query, float(t)) - query for t in range(1, len(keys) + 1)])
    k_bias = np.linalg.lstsq(turns, np.concatenate(list(scores.rest[h] + own)), rcond=SEEN_BIAS)[0]
    return Turning(K, solved[:-1].T, k_bias, solved[-1], frequencies)
