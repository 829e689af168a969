"""A whole block, from single tokens to every head's W, key bias and value map.

`search` finds all heads at one token: two references show what answers see and the sum of all value maps (`geometry`),
second differences how many heads there are (`spaces`), keys beside copies of the token the value map of each
(`values`), and sequences of two tokens, `[q + z ; q]`, make the sum of these maps exact (`search.read_pairs`). Tokens
around it give W (`columns`). Fresh tokens, read head by head, say how far off every head is (`fresh`), and `assembly`
makes a model of it.
"""

from __future__ import annotations

import numpy as np

from ..._checks import check_block_laws
from ..._errors import AccuracyUnreachable, NotConverged
from ..._learned import LearnedBlock
from ..._oracles import Oracle
from ..._plan import Sizes, plan_block
from .assembly import find_model, without_noise
from .columns import each_time, read_columns
from .fresh import read_fresh_error, refuse_scores
from .geometry import few_digits
from .search import Found, find_block

# Of a head's scores: more is no recovery; where answers have few digits.
REFUSED_SCORES, REFUSED_FEW_DIGITS = 1e-2, 5e-2
# Times the misfit of tokens that are answered alike: those of 26 blocks were 50 to 1,200 of them, of MiniLM 2,500,
# and those of blocks whose scores are capped at 5,000 were 2e5.
MISFITS = 2e4
SHARE_OF_REACH = 0.2  # for the length of tokens: what is asked about is at most so many times longer
TOKEN_SIZES = 1.0, 0.25  # of entries of tokens: those that users send, and shorter ones
FEW_DIGITS_SIZES = 2.0, 2.0, 1.0, 0.25  # the same where answers have few digits: scores grow with their square


def learn_encoder(
    oracle: Oracle, rng: np.random.Generator, rank: int | None = None, residual_map: str | None = "identity"
) -> LearnedBlock:
    """All heads of a block with no norm in front of them; where it has few digits and does not come apart, that is
    said."""
    oracle.stage = "telling what it is"
    outputs = check_block_laws(oracle, rng)
    try:
        return learn_at_some_size(oracle, rng, outputs, rank, residual_map)
    except NotConverged as error:
        if not few_digits(oracle):
            raise
        digits = f"{-np.log10(oracle.roundoff):.0f} digits"
        said = f"{error}; its answers have {digits}, and a box that computes in float64 has 16"
        raise AccuracyUnreachable(said) from error


def learn_at_some_size(
    oracle: Oracle, rng: np.random.Generator, outputs: int, rank: int | None, residual_map: str | None
) -> LearnedBlock:
    """All heads of a block that answers so many numbers, from tokens of a size at which they come apart, if any."""
    found = find_at_some_size(oracle, rng, outputs)
    oracle.stage = "reading W"
    at, heads = found.references[0], found.heads
    oracle.expect(plan_block(Sizes(oracle.dim, heads=len(heads.B))).queries - oracle.queries)
    each = each_time(found.view, heads, found.way.lost)
    columns = read_columns(oracle, at, heads, each, rank or max(found.way.ranks), rng)
    oracle.stage = "checking head by head"
    fresh = read_fresh_error(oracle, at, heads, columns, each, rng)
    error = fresh.relative
    refuse_scores(error, REFUSED_FEW_DIGITS if few_digits(oracle) else REFUSED_SCORES, MISFITS * columns.misfit)
    model = find_model(oracle, found, without_noise(at, columns, error), residual_map)
    return LearnedBlock(
        model=model,
        rank=columns.ranks,
        value_rank=found.way.ranks,
        error=error,
        fresh_bound=fresh.bound,
        reach=oracle.reach,
        outputs=outputs,
        free=len(found.view.blind) + found.total.unseen.shape[1],
    )


def find_at_some_size(oracle: Oracle, rng: np.random.Generator, outputs: int) -> Found:
    """The heads at a token of ordinary size, or at a shorter one where these do not show; or why at neither."""
    reasons = []
    for size in FEW_DIGITS_SIZES if few_digits(oracle) else TOKEN_SIZES:
        try:
            return find_block(oracle, rng, min(size, SHARE_OF_REACH * oracle.reach / float(np.sqrt(oracle.dim))))
        except NotConverged as error:
            reasons.append(str(error))
    few = f": the box gives {outputs} outputs, and each that is missing of {oracle.dim} hides a dimension of every head"
    reason = f"{reasons[-1]}{few * (outputs < oracle.dim)}"
    raise NotConverged(reason)
