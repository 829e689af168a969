"""One head or a whole layer from vector answers: values, which outputs are whose, then all scores at once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .._errors import AccuracyUnreachable, BudgetExceeded
from .._meter.frame import orthonormal
from .._oracle import Oracle
from .._oracle.narrow import is_narrow
from .assemble import HeadScores, head_scores, layer, value_maps
from .columns import MORE, Columns, read_columns
from .fresh import fresh_error
from .laws import check_laws, law_token
from .learned import LearnedVector
from .meter import VectorMeter, reader
from .needs import NeedsScalarRoute
from .rank_drop import Drop
from .readout import Readout, read_rows, seen_outputs
from .scale import Scale, find_scale
from .split import find_spaces
from .tune import tuned

FAINT, FEW = 2e-5, 100.0  # of the loudest output, or so many roots of a rounding: one head can do without fainter ones
CONFIDENCE = 0.99  # that the error is no larger than fresh queries show: it was so in 298 of 300 layers
REFUSED = 1e-3  # of a head's parameters: more than that is not called a recovery

FindSpaces = Callable[[Oracle, Readout, Scale, np.random.Generator], list[Drop]]


def learn_vector(
    oracle: Oracle, rng: np.random.Generator, rank: int | None = None, accuracy: float | None = None
) -> LearnedVector:
    """A layer of heads whose value maps' ranks add up to that of their sum; number of heads and ranks are found.

    `rank` is that of every `W_h`, at most. `NeedsScalarRoute` says why a box is not one for this.
    """
    return learn(oracle, rng, rank, accuracy, find_spaces)


def learn_vector_attention(
    oracle: Oracle, rng: np.random.Generator, rank: int | None = None, accuracy: float | None = None
) -> LearnedVector:
    """One head with k outputs, of which every query reads as many scores as its value map has rank."""
    return learn(oracle, rng, rank, accuracy, all_of_one_head)


def all_of_one_head(oracle: Oracle, readout: Readout, scale: Scale, rng: np.random.Generator) -> list[Drop]:
    return [Drop(np.eye(readout.rank), 0.0)]


def learn(oracle: Oracle, rng, rank, accuracy, find: FindSpaces) -> LearnedVector:
    known: dict = {}
    try:
        return measure(oracle, rng, rank, accuracy, find, known)
    except BudgetExceeded as error:
        error.known = known | error.known
        raise


def measure(oracle: Oracle, rng, rank, accuracy, find: FindSpaces, known: dict) -> LearnedVector:
    readout = read_values(oracle, rng, known)
    oracle.stage = "finding the scale"
    scale = find_scale(oracle, readout, rng)
    drops = find(oracle, readout, scale, rng)
    spaces = [drop.basis for drop in drops]
    if len(spaces) == 1:
        readout = seen_outputs(oracle, readout.B, readout.bias, max(FAINT, FEW * float(np.sqrt(oracle.roundoff))))
        spaces = [np.eye(readout.rank)]
    maps = known["v_h"] = value_maps(readout, spaces)
    meter = VectorMeter(oracle, readout, [reader(readout, space) for space in spaces])
    scale, columns, scores = read_scores(meter, scale, rank, rng)
    model = layer(scores, maps, readout.bias)
    oracle.stage = "checking head by head"
    error = max(fresh_error(meter, scale, scores, rng), *(drop.ratio for drop in drops))
    return accurate(summary(model, scores, columns, drops, error), accuracy)


def read_values(oracle: Oracle, rng: np.random.Generator, known: dict) -> Readout:
    oracle.stage = "reading v"
    if not oracle.exact:
        raise NeedsScalarRoute("the answers come with a tolerance, and the vector route has no bounds")
    token = law_token(oracle, rng)
    bias, B, first = read_rows(oracle, token)
    if B.ndim == 1:
        raise NeedsScalarRoute("the box answers one number per query")
    if is_narrow(oracle):
        raise NeedsScalarRoute("the answers come in a narrow format, which has too few digits for many scores at once")
    known |= {"v": B, "bias": bias}
    if not np.any(B):
        raise NeedsScalarRoute("v = 0, or the heads' value maps add up to 0: one-row answers say nothing")
    check_laws(oracle, B, bias, token, first, rng)
    return seen_outputs(oracle, B, bias)


def read_scores(meter: VectorMeter, scale: Scale, rank: int | None, rng) -> tuple[Scale, Columns, list[HeadScores]]:
    meter.oracle.stage = "reading W"
    d = meter.oracle.dim
    blocks = meter.tokens(meter.at_once, d, rng)
    scale = tuned(meter, scale, blocks[0], rng)
    frame = orthonormal(d, rng).vectors
    # The zero token first, so that the span of the columns has the key bias in it.
    last = np.concatenate([np.zeros((1, d)), scale.last * frame])
    first = d + 1 if len(blocks) == 1 else min(d + 1, (rank or meter.rank) + MORE)
    columns = read_columns(meter, scale, last, blocks, first, rng)
    return scale, columns, head_scores(columns, frame, scale.last)


def summary(model, scores: list[HeadScores], columns: Columns, drops: list[Drop], error: float) -> LearnedVector:
    ranks = tuple(own.rank for own in scores)
    leaves = tuple(joint > alone for joint, alone in zip(columns.ranks, ranks, strict=True))
    return LearnedVector(model, ranks, tuple(drop.basis.shape[1] for drop in drops), leaves, error, CONFIDENCE)


def accurate(found: LearnedVector, accuracy: float | None) -> LearnedVector:
    if found.error > REFUSED:
        raise AccuracyUnreachable(
            f"fresh queries, read head by head, show errors up to {found.error:.1e} of the scores, and more than "
            f"{REFUSED:g} is no recovery: the box's numbers have too few digits for how its heads overlap",
            found,
        )
    reached = found.error * max(head.W_norm for head in found.heads)
    if accuracy is not None and reached > accuracy:
        raise AccuracyUnreachable(
            f"asked for ||W_hat - W||_F <= {accuracy:.3g}, fresh queries show {reached:.3g}", found
        )
    return found
