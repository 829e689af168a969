"""Which way into a block: a norm in front of its heads makes it another box."""

from __future__ import annotations

import numpy as np

from ..._errors import AccuracyUnreachable
from ..._learned import LearnedBlock
from ..._linalg import rms
from ..._oracles import Oracle, Rounded, SeveralNumbers, find_sphere, read_single
from .decoder import learn_decoder
from .learn import learn_encoder

TYPICAL_ANSWERS = 4  # to single tokens of ordinary size, which a tolerance is compared with
LEAST_DIGITS = 2.0**-22  # of an answer: a block does not come apart with fewer, float32 has four times as many


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
    oracle = SeveralNumbers(oracle)
    oracle = oracle if oracle.exact else read_as_rounded(oracle, rng)
    sphere = find_sphere(oracle, rng.spawn(1)[0])
    if sphere is not None:
        return learn_decoder(oracle, sphere, rng, residual_map)
    return learn_encoder(oracle, rng, rank, residual_map)


def read_as_rounded(oracle: Oracle, rng: np.random.Generator) -> Oracle:
    """The box with what it promises read as its digits, if these may do."""
    x = rng.spawn(1)[0].standard_normal((TYPICAL_ANSWERS, oracle.dim))
    x *= min(1.0, oracle.reach / float(np.linalg.norm(x, axis=1).max()))
    typical = rms(read_single(oracle, x))
    share = oracle.rtol + oracle.tolerance / max(typical, np.finfo(float).tiny)
    if not share <= LEAST_DIGITS:
        raise AccuracyUnreachable(
            f"a block is read from differences of answers: promised are {share:.1e} of a typical one, and "
            f"{LEAST_DIGITS:.1e} may do"
        )
    return Rounded(oracle, share)
