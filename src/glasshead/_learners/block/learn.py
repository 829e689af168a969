"""A whole block, from single tokens to every head's W, key bias and value map.

Two reference tokens show what answers see and the sum of all value maps (`geometry`); second differences at one of them
how many heads there are (`spaces`); keys beside copies of it the value map of each (`values`); pairs make the sum exact
(`pairs`), and then everything else follows once more; tokens around it give W (`columns`). Fresh tokens, read head by
head, say how far off every head is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..._checks import check_block_laws
from ..._errors import AccuracyUnreachable, NotConverged
from ..._learned import LearnedBlock
from ..._linalg import norms, unit
from ..._models import Attention, Block, Norm
from ..._oracles import DOUBLE, Oracle, single
from .columns import Columns, each_time, last_tokens, read_columns, read_keys, read_scores, token_blocks
from .geometry import Reference, Total, View, read_reference, read_total
from .pairs import read_pairs
from .spaces import Bunches, bunches, read_pencil
from .values import COPIES, Heads, Rows, find_heads, read_key_rows, rows_needed

REFERENCES = 2
SCORES = 1.0  # typical, of keys in rows
LONGEST_KEYS = 2.0  # times ordinary tokens
MOST_MOVED = 0.01  # of an answer, by a key in a row
FIRST, EXACT = 1e-9, 3.0  # how exactly tokens are found at first, of an answer, and then, in roundings
SHORTER_KEYS, SHORTENINGS = 0.25, 3  # rows in which no heads are found are asked with shorter keys
MOST_WAYS = 4  # to see heads, tried on the same rows
DROPPED = 1e-6  # a rank drop worse than this is none
ROUNDS = 16
MOVED = 1e-3, 1e-2  # of an answer, by pairs: more as the heads get better
BETTER = 3.0  # another round goes on where the last one made things so many times better
FRESH, CAUTION = 2, 3.0  # last tokens read in the end; two show an error only so well
REFUSED_ERROR = 1e-2  # of a head's scores: more is no recovery
PARALLEL = 1e-4  # off the direction of (1, .., 1): the mean, which LayerNorm forgets
ALONG_RAY, CONSTANT = 0.1, 1e-3  # of a token, and of the answer's change otherwise: a normalisation forgets lengths
NO_RESIDUAL = 1e-6  # of B: nothing but heads
CURVED = 2.0, 0.5, 8.0  # the length of keys in second differences, times the fourth root of a rounding
SHARE_OF_REACH = 0.2  # for the length of tokens: what is asked about is at most so many times longer
SIZES = 1.0, 0.25  # of entries of tokens: those that users send, and shorter ones


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
    oracle.stage = "telling what it is"
    outputs = check_block_laws(oracle, rng)
    failed = None
    for size in SIZES:
        size = min(size, SHARE_OF_REACH * oracle.reach / float(np.sqrt(oracle.dim)))
        try:
            return learn_at(oracle, rng, rank, residual_map, size, outputs)
        except NotConverged as error:
            failed = error
    assert failed is not None
    few = f": the box gives {outputs} outputs, and each that is missing of {oracle.dim} hides a dimension of every head"
    reason = f"{failed}{few * (outputs < oracle.dim)}"
    if oracle.roundoff > DOUBLE:
        digits = f"{-np.log10(oracle.roundoff):.0f} digits"
        raise AccuracyUnreachable(f"{reason}; its answers have {digits}, and a box that computes in float64 has 16")
    raise NotConverged(reason) from failed


Way = tuple[Bunches, list[np.ndarray]]
NO_WEIGHTS = "no attention weights between 0 and 1 explain what single keys move, for any number of heads"


@dataclass(frozen=True)
class Found:
    """What is known of a block at its references; heads are read at the first."""

    references: list[Reference]
    total: Total
    way: Bunches
    heads: Heads
    view: View


def learn_at(
    oracle: Oracle, rng, rank: int | None, residual_map: str | None, size: float, outputs: int
) -> LearnedBlock:
    found = find_block(oracle, rng, size)
    oracle.stage = "reading W"
    at, heads = found.references[0], found.heads
    each = each_time(found.view, heads, found.way.lost)
    columns = read_columns(oracle, at, heads, each, rank or max(found.way.ranks), rng)
    oracle.stage = "checking head by head"
    error = read_fresh_error(oracle, at, heads, columns, each, rng)
    if not error <= REFUSED_ERROR:
        raise NotConverged(f"fresh tokens, read head by head, show errors of {error:.0%} of the scores")
    model = assembled(oracle, found, without_noise(at, columns, error), residual_map)
    return LearnedBlock(
        model=model,
        rank=columns.ranks,
        value_rank=found.way.ranks,
        leaves=(True,) * len(columns.ranks),
        error=error,
        reach=oracle.reach,
        outputs=outputs,
        free=len(found.view.blind) + found.total.unseen.shape[1],
    )


def find_block(oracle: Oracle, rng: np.random.Generator, size: float) -> Found:
    oracle.stage = "reading single tokens"
    tokens = size * rng.standard_normal((REFERENCES, oracle.dim))
    references = [read_reference(oracle, token, size) for token in tokens]
    total = read_total(oracle, references, size)
    references.sort(key=lambda at: condition(at.within(total.outputs)))
    at, view, ways = find_bunches(oracle, references, total, size, rng)
    references = [at, *(other for other in references if other is not at)]
    oracle.stage = "telling heads apart"
    first = find_first_heads(oracle, at, view, total, ways, size, rng)
    return find_exact(oracle, references, total, *first, rng)


def find_bunches(
    oracle: Oracle, references: list[Reference], total: Total, size: float, rng: np.random.Generator
) -> tuple[Reference, View, list[Way]]:
    """The reference at which heads show apart, and ways to see them, with directions that are each head's own."""
    oracle.stage = "counting heads"
    for curved in CURVED:
        for at in references:
            view = at.within(total.outputs)
            pencil = read_pencil(oracle, at, view, total, curved * size, rng)
            least = total.outputs.shape[1] - len(view.gains)
            ways = bunches(np.linalg.eigvals(pencil.matrix), least, least + total.unseen.shape[1])
            if ways:
                return at, view, [(way, [*map(pencil.space, way.values, way.sizes)]) for way in ways[:MOST_WAYS]]
    raise NotConverged(no_bunches(oracle.dim, len(view.gains), least + total.unseen.shape[1]))


def condition(view: View) -> float:
    return float(view.gains[0] / view.gains[-1])


def no_bunches(dim: int, seen: int, blind: int) -> str:
    return (
        f"of {dim} directions the {seen} that answers see do not split into heads: value maps have to be of rank "
        f"{3 + blind} at least, with ranks that add up, behind anything that is one-to-one but for a few directions"
    )


def find_first_heads(
    oracle: Oracle, at: Reference, view: View, total: Total, ways: list[Way], size: float, rng: np.random.Generator
) -> tuple[Bunches, Rows, Heads]:
    """Rows, and the first way to see heads that is true of them, with keys as long as they can be."""
    for shorter in range(SHORTENINGS):
        rows = None
        for way, guesses in ways:
            if rows is None:
                typical = float(np.sqrt(np.mean(np.square(way.values))))
                z = rng.standard_normal((rows_needed(oracle.dim, len(view.gains), way), oracle.dim))
                moved = float(np.median(norms(view.seen(z @ total.B)))) / (COPIES + 1)
                lengths = SCORES / typical, LONGEST_KEYS * size, MOST_MOVED * np.linalg.norm(at.answer) / moved
                z *= min(lengths) * SHORTER_KEYS**shorter
                rows = read_key_rows(oracle, at, total, z)
            found, heads = find_heads(oracle, at, view, total, rows, way, guesses, FIRST)
            if heads is not None:
                return way, found, heads
    raise NotConverged(NO_WEIGHTS)


def find_exact(
    oracle: Oracle, references: list[Reference], total: Total, way: Bunches, rows: Rows, heads: Heads, rng
) -> Found:
    """The same to rounding: the rows again, then pairs for the sum of all maps, as long as either gets better."""
    at, wanted = references[0], EXACT * oracle.roundoff
    view = at.within(total.outputs)
    for _ in range(ROUNDS):
        rows, better = find_heads(oracle, at, view, total, rows, way, heads.spaces, wanted)
        if better is None:
            raise NotConverged(NO_WEIGHTS)
        before, heads = heads, better
        if heads.ratio > before.ratio / BETTER and heads.misfit > before.misfit / BETTER:
            break
    if not heads.ratio <= DROPPED:
        raise NotConverged(f"value maps of {len(way.sizes)} heads fit what single keys move only to {heads.ratio:.0e}")
    for moved in MOVED:
        each = each_time(view, heads, way.lost)
        keys = [heads.k, *(read_keys(oracle, other, heads, each, rng) for other in references[1:])]
        sharper = read_pairs(oracle, references, keys, heads.B, total, moved)
        seen = at.within(sharper.outputs)
        spaces = [seen.carried(space, view) for space in heads.spaces]
        again, better = find_heads(oracle, at, seen, sharper, rows, way, spaces, wanted)
        if better is None or not better.misfit < heads.misfit:
            break
        rows, heads, total, view = again, better, sharper, seen
    return Found(references, total, way, heads, view)


def read_fresh_error(
    oracle: Oracle, at: Reference, heads: Heads, columns: Columns, each: int, rng: np.random.Generator
) -> float:
    """The worst head's relative error in the scores of fresh tokens at fresh last tokens."""
    moves = last_tokens(at, rng)[:FRESH]
    D = token_blocks(oracle, each, each, heads.k, rng)[0]
    scores, _ = read_scores(oracle, at, heads.B, at.token + moves, D, heads.k)
    each_head = list(zip(columns.W, columns.key_bias, strict=True))
    expected = np.stack([((at.token + moves) @ W.T + c) @ D.T for W, c in each_head], axis=1)
    changed = np.stack([(moves @ W.T) @ D.T for W in columns.W], axis=1)
    off = norms((scores - expected).transpose(1, 0, 2).reshape(len(heads.B), -1))
    size = norms(changed.transpose(1, 0, 2).reshape(len(heads.B), -1))
    worst = float(np.max(off / np.maximum(size, np.finfo(float).tiny)))
    return CAUTION * max(worst, columns.misfit) if np.isfinite(worst) else np.inf


def without_noise(at: Reference, columns: Columns, error: float) -> Columns:
    """Key biases that cannot be told from 0 are none: `W q` and its error are all that is seen of them."""
    seen = error * norms(columns.W @ at.token)
    return replace(columns, key_bias=np.where(norms(columns.key_bias) > seen, columns.key_bias.T, 0.0).T)


def assembled(oracle: Oracle, found: Found, columns: Columns, residual_map: str | None) -> Block:
    """The heads in the block's own coordinates, as far as the residual map is known."""
    total, B, d = found.total, found.heads.B, oracle.dim
    T = np.eye(d) - total.B
    known, maps = "unknown", B
    free = unit(total.unseen.T)
    norm: tuple[Norm, ...] = ()
    if float(np.linalg.norm(T)) <= NO_RESIDUAL * np.sqrt(d):
        known = "none"
    elif residual_map is not None:
        S = np.linalg.inv(T)
        forgotten = np.linalg.qr((total.unseen.T @ S).T)[0]
        mean = np.ones(d) / np.sqrt(d)
        layer = forgotten.shape[1] == 1 and abs(abs(float(forgotten[:, 0] @ mean)) - 1) <= PARALLEL
        if layer:
            forgotten, norm = mean[:, None], (Norm("layer", None, "behind"),)
        elif forgotten.shape[1] == 0 and len(found.view.blind) == 1 and read_ray(oracle, found):
            norm = (Norm("rms", None, "behind"),)
        keep = np.eye(d) - forgotten @ forgotten.T
        known, maps, free = "assumed identity", B @ S @ keep, forgotten.T
    each = zip(columns.W, columns.key_bias, maps, strict=True)
    heads = [Attention(W, v, key_bias=c if np.any(c) else None) for W, c, v in each]
    return Block(heads, residual_map=known, norms=norm, free=free, behind=oracle)


def read_ray(oracle: Oracle, found: Found) -> bool:
    """Whether answers stay as they are far along the direction that they do not see, as behind a normalisation."""
    at, view = found.references[0], found.view
    length = ALONG_RAY * float(np.linalg.norm(at.token))
    blind, seen = (
        single(oracle, at.token[None] + length * unit(x)[None])[0] for x in (view.blind[0], view.directions[0])
    )
    return bool(np.linalg.norm(blind - at.answer) <= CONSTANT * np.linalg.norm(seen - at.answer))
