"""From keys at one query token and the columns of W to heads."""

from __future__ import annotations

import numpy as np

from .._models import Attention, MultiHead
from .._multi.learned import CONFIDENCE, LearnedMultiHead
from .._types import Float
from .pairs import Even, Pairs
from .turns import Turned

NOTHING = 1e-8  # of the key: a key bias, if there is none


def assembled(
    face: Even, pairs: Pairs, values: Turned, W: Float[np.ndarray, "H d d"], ranks: list[int], accuracy: float | None
) -> LearnedMultiHead:
    biases = pairs.K - W @ face.q
    size = np.linalg.norm(pairs.K, axis=1) + np.linalg.norm(W @ face.q, axis=1)
    biased = bool((np.linalg.norm(biases, axis=1) > NOTHING * size).any())
    heads, found = [], []
    for sign, V in ((1.0, values.ahead), (-1.0, values.back)):
        for h in np.flatnonzero(V.any(axis=1)):
            heads.append(Attention(sign * W[h], V[h], key_bias=sign * biases[h] if biased else None))
            found.append(ranks[h])
    if values.mean.any():
        heads.append(Attention(np.zeros_like(W[0]), values.mean))
        found.append(0)
    model = MultiHead(heads, bias=face.box.bias)
    return LearnedMultiHead(model, tuple(found), CONFIDENCE, words(model), accuracy)


def words(model: MultiHead) -> str:
    biases = " and ".join(["key biases"] * model.has_key_bias + ["a bias"] * bool(np.any(model.bias))) or "no bias"
    heads = "1 head" if len(model.heads) == 1 else f"{len(model.heads)} heads"
    return f"{heads} with {biases}, solved for together, since they cannot be told apart one by one"
