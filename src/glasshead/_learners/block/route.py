"""Which way into a block: a norm in front of its heads makes it another box."""

from __future__ import annotations

import numpy as np

from ..._errors import AccuracyUnreachable
from ..._learned import LearnedBlock
from ..._oracles import Oracle, find_sphere
from .decoder import learn_decoder
from .learn import learn_encoder


def learn_block(
    oracle: Oracle,
    rng: np.random.Generator,
    rank: int | None = None,
    accuracy: float | None = None,
    residual_map: str | None = "identity",
) -> LearnedBlock:
    """All heads of a block, from answers that hold (nearly) as many numbers as a token.

    `residual_map="identity"` assumes that the residual connection adds the last token as it is; with None value maps
    come up to one invertible map.
    """
    if not oracle.exact:
        raise AccuracyUnreachable("a block is read from differences of answers, which need all their digits")
    sphere = find_sphere(oracle, rng.spawn(1)[0])
    if sphere is not None:
        return learn_decoder(oracle, sphere, rng, residual_map)
    return learn_encoder(oracle, rng, rank, residual_map)
