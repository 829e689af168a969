"""A layer of heads, or one head with several outputs: the whole way from a box to parameters with a measured error.

One-row queries give `B = sum_h B_h`, two-row queries the output space of every head, so `B_h = B Pi_h`; then the scores
of many tokens at once are a linear solve per head, and W and key bias follow from columns. Fresh queries, read head by
head, say how far off every head is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import softmax

from ...._checks import check_layer_laws
from ...._errors import AccuracyUnreachable, BudgetExceeded
from ...._learned import FRESH_CAUTION, LearnedVector
from ...._linalg import NullSpace, random_rotation, unit
from ...._meters import Readout, VectorMeter, reader, seen_outputs
from ...._models import Attention, MultiHead
from ...._oracles import DOUBLE, Opening, Oracle, read_opening, read_rows
from .cells import find_spaces_in_cells
from .columns import COLUMN_ROUNDINGS, TOKEN_SHARE, LayerColumns, columns_for_span, read_layer_columns, span
from .scale import Scale, check_one_head, find_token_lengths, find_tuned_lengths
from .spaces import NeedsScalarRoute, find_spaces


@dataclass(frozen=True)
class HeadScores:
    """What one head scores tokens with."""

    W: np.ndarray
    key_bias: np.ndarray | None
    rank: int

    def keys_against(self, last: np.ndarray) -> np.ndarray:
        keys = last @ self.W.T
        return keys if self.key_bias is None else keys + self.key_bias


def layer_value_maps(readout: Readout, spaces: list[np.ndarray]) -> list[np.ndarray]:
    """`B_h = B Pi_h`, with `Pi_h` the projector on one head's outputs along all the others'."""
    if len(spaces) == 1:
        return [readout.B]
    inverse = np.linalg.inv(np.concatenate(spaces, axis=1))
    rows = np.split(inverse, np.cumsum([space.shape[1] for space in spaces])[:-1])
    return [readout.map @ space @ own @ readout.outputs.T for space, own in zip(spaces, rows, strict=True)]


def head_scores(columns: LayerColumns, frame: np.ndarray, length: float) -> list[HeadScores]:
    """The first column is the zero token's, the others those of `length * frame`."""
    each = zip(columns.k, columns.noise, strict=True)
    return [one_head(k, noise, frame / length, columns.by_gap) for k, noise in each]


def one_head(k: np.ndarray, noise: float, per_last: np.ndarray, by_gap: bool) -> HeadScores:
    rank = span(k[1:] - k[0], COLUMN_ROUNDINGS * noise, by_gap).shape[1]
    W = (k[1:] - k[0]).T @ per_last if rank else np.zeros((k.shape[1],) * 2)
    return HeadScores(W, k[0] if np.linalg.norm(k[0]) > COLUMN_ROUNDINGS * noise else None, rank)


def layer(scores: list[HeadScores], maps: list[np.ndarray], bias: np.ndarray) -> Attention | MultiHead:
    own: Any = bias if len(maps) == 1 else 0.0
    heads = [Attention(s.W, v, key_bias=s.key_bias, bias=own) for s, v in zip(scores, maps, strict=True)]
    return heads[0] if len(heads) == 1 else MultiHead(heads, bias=bias)


FRESH_LAST, FRESH_NARROW = 2, 4  # last tokens asked in the end, in float64 and with fewer digits
NO_SCORES = 32.0  # times the rounding expected: scores of a head that has none


def read_layer_error(meter: VectorMeter, scale: Scale, scores: list[HeadScores], rng: np.random.Generator) -> float:
    """The worst head's relative error; a check of answers alone would hardly see a head with small values.

    The tokens are any, not those that heads read best: errors lie where they read badly. Where digits are few, scores
    of such tokens would be off by more than W is, so there what each head moves is compared instead.
    """
    D = scale.key * unit(rng.standard_normal((max(1, int(TOKEN_SHARE * meter.rank)), meter.oracle.dim)))
    count = FRESH_NARROW if meter.few_digits else FRESH_LAST
    last = scale.last * unit(rng.standard_normal((count, meter.oracle.dim)))
    expected = [own.keys_against(last) @ D.T for own in scores]
    if meter.few_digits:
        moved = meter.read_moved(last, D)
        each = zip(meter.readers, expected, strict=True)
        return FRESH_CAUTION * max(
            moving_error(moved @ own.look, s, D @ own.C, meter.rounding(D, scale.last)) for own, s in each
        )
    seen, noise = meter.read_scores(last, D), meter.noise(D, scale.last)
    return FRESH_CAUTION * max(error_share(seen[:, h], s, float(noise[h])) for h, s in enumerate(expected))


def moving_error(moved: np.ndarray, scores: np.ndarray, values: np.ndarray, rounding: float) -> float:
    """How far off what one head moves is, over what its scores add to the mean of `values`."""
    even = values.sum(axis=0) / (len(values) + 1)
    expected = softmax(np.pad(scores, [(0, 0), (0, 1)]), axis=1)[:, :-1] @ values
    return error_share(moved - even, expected - even, rounding)


def error_share(seen: np.ndarray, expected: np.ndarray, noise: float) -> float:
    size, off = float(np.linalg.norm(expected)), float(np.linalg.norm(seen - expected))
    if size > 0:
        return off / size
    return 0.0 if off <= NO_SCORES * noise * np.sqrt(seen.size) else 1.0  # nothing to be relative to


# Of the largest output, or so many roots of a rounding: one head can do without fainter ones.
FAINT_OUTPUT, FAINT_ROUNDINGS = 2e-5, 100.0
REFUSED_ERROR = 1e-3  # of a head's parameters: more than that is not called a recovery
MOST_EFFORT = 4  # in reading scores, from 1 and twice as much each time, where digits are few for such an error

FoundSpaces = tuple[Readout, list[NullSpace]]
FindSpaces = Callable[[Oracle, Readout, Scale, np.random.Generator], FoundSpaces | NeedsScalarRoute]


def learn_vector(
    oracle: Oracle, rng, rank: int | None = None, accuracy: float | None = None, opening: Opening | None = None
) -> LearnedVector | NeedsScalarRoute:
    """A layer of heads whose value maps' ranks add up to that of their sum; number of heads and ranks are found.

    `rank` is that of every `W_h`, at most. A `NeedsScalarRoute` says why a box is not one for this.
    """
    return learn(oracle, rng, rank, accuracy, find_spaces_unless_one, opening)


def learn_vector_attention(
    oracle: Oracle, rng, rank: int | None = None, accuracy: float | None = None, opening: Opening | None = None
) -> LearnedVector | NeedsScalarRoute:
    """One head with k outputs, of which every query reads as many scores as its value map has rank."""
    return learn(oracle, rng, rank, accuracy, all_of_one_head, opening)


def all_of_one_head(oracle: Oracle, readout: Readout, scale: Scale, rng: np.random.Generator) -> FoundSpaces:
    faint = max(FAINT_OUTPUT, FAINT_ROUNDINGS * float(np.sqrt(oracle.roundoff)))
    readout = seen_outputs(oracle, readout.B, readout.bias, faint)
    return readout, [NullSpace(np.eye(readout.rank), 0.0)]


def find_spaces_unless_one(
    oracle: Oracle, readout: Readout, scale: Scale, rng: np.random.Generator
) -> FoundSpaces | NeedsScalarRoute:
    """One space where three answers are those of one head, else what tells the heads apart."""
    if check_one_head(oracle, readout, scale, rng):
        return all_of_one_head(oracle, readout, scale, rng)
    if oracle.roundoff > DOUBLE:  # with fewer digits a derivative shows no bunches of eigenvalues
        found = find_spaces_in_cells(oracle, readout, rng)
        if not isinstance(found, NeedsScalarRoute):
            return found
    drops = find_spaces(oracle, readout, scale, rng)
    if isinstance(drops, NeedsScalarRoute):
        return drops
    return all_of_one_head(oracle, readout, scale, rng) if len(drops) == 1 else (readout, drops)


def learn(
    oracle: Oracle, rng, rank, accuracy, find: FindSpaces, opening: Opening | None
) -> LearnedVector | NeedsScalarRoute:
    known: dict = {}
    try:
        return learn_measured(oracle, rng, rank, accuracy, find, opening, known)
    except BudgetExceeded as error:
        error.known = known | error.known
        raise


def learn_measured(
    oracle: Oracle, rng, rank, accuracy, find: FindSpaces, opening: Opening | None, known: dict
) -> LearnedVector | NeedsScalarRoute:
    readout = read_sum_of_maps(oracle, rng, opening, known)
    if isinstance(readout, NeedsScalarRoute):
        return readout
    oracle.stage = "finding the scale"
    scale = find_token_lengths(oracle, readout, rng)
    found = find(oracle, readout, scale, rng)
    if isinstance(found, NeedsScalarRoute):
        return found
    readout, drops = found
    spaces = [drop.basis for drop in drops]
    maps = known["v_h"] = layer_value_maps(readout, spaces)
    readers = [reader(readout, space) for space in spaces]
    meter = VectorMeter(oracle, readout, readers)
    while True:
        scale, columns, scores = read_head_scores(meter, scale, rank, rng)
        oracle.stage = "checking head by head"
        error = max(read_layer_error(meter, scale, scores, rng), *(drop.ratio for drop in drops))
        if error <= REFUSED_ERROR or not meter.few_digits or meter.effort == MOST_EFFORT:
            break
        meter = replace(meter, effort=2 * meter.effort)
    return accurate_scores(in_words(layer(scores, maps, readout.bias), scores, columns, drops, error), accuracy)


def read_sum_of_maps(
    oracle: Oracle, rng: np.random.Generator, opening: Opening | None, known: dict
) -> Readout | NeedsScalarRoute:
    oracle.stage = "reading v"
    if not oracle.exact:
        return NeedsScalarRoute("the answers come with a tolerance, and the vector route has no bounds")
    opening = opening or read_opening(oracle, rng)
    bias, B, first = opening.zero, read_rows(oracle, opening)[0], opening.first
    if B.ndim == 1:
        return NeedsScalarRoute("the box answers one number per query")
    if oracle.narrow:
        return NeedsScalarRoute("the answers come in a narrow format, which has too few digits for many scores at once")
    known |= {"v": B, "bias": bias}
    if not np.any(B):
        return NeedsScalarRoute("v = 0, or the heads' value maps add up to 0: one-row answers say nothing")
    check_layer_laws(oracle, B, bias, opening.token, first, rng)
    return seen_outputs(oracle, B, bias)


def read_head_scores(
    meter: VectorMeter, scale: Scale, rank: int | None, rng
) -> tuple[Scale, LayerColumns, list[HeadScores]]:
    meter.oracle.stage = "reading W"
    d = meter.oracle.dim
    blocks = meter.tokens(meter.at_once, d, rng)
    scale = find_tuned_lengths(meter, scale, blocks[0], rng)
    frame = random_rotation(d, rng)
    # The zero token first, so that the span of the columns has the key bias in it.
    last = np.concatenate([np.zeros((1, d)), scale.last * frame])
    first = d + 1 if len(blocks) == 1 else min(d + 1, columns_for_span(meter, rank or meter.rank))
    meter.oracle.expect(first * len(blocks) + (d + 1 - first) * -(-(rank or meter.rank) // meter.at_once))
    columns = read_layer_columns(meter, scale, last, blocks, first, rng)
    return scale, columns, head_scores(columns, frame, scale.last)


def in_words(
    model, scores: list[HeadScores], columns: LayerColumns, drops: list[NullSpace], error: float
) -> LearnedVector:
    ranks = tuple(own.rank for own in scores)
    leaves = tuple(joint > alone for joint, alone in zip(columns.ranks, ranks, strict=True))
    value_ranks = tuple(drop.basis.shape[1] for drop in drops)
    return LearnedVector(model=model, rank=ranks, value_rank=value_ranks, leaves=leaves, error=error)


def accurate_scores(found: LearnedVector, accuracy: float | None) -> LearnedVector:
    if found.error > REFUSED_ERROR:
        raise AccuracyUnreachable(
            f"fresh queries, read head by head, show errors up to {found.error:.1e} of the scores, and more than "
            f"{REFUSED_ERROR:g} is no recovery: the box's numbers have too few digits for how its heads overlap",
            found,
        )
    reached = found.error * max(head.W_norm for head in found.model.heads)
    if accuracy is not None and reached > accuracy:
        raise AccuracyUnreachable(
            f"asked for ||W_hat - W||_F <= {accuracy:.3g}, fresh queries show {reached:.3g}", found
        )
    return found
