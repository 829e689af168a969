"""A block with a norm in front of its heads, from the first answers to a model.

Seen through long last tokens (`_oracles/long_token.py`) such a block is its heads alone, on a sphere. `spaces` tells
them apart roughly, `heads` exactly, `scores` reads their keys, and `turning` makes rotary positions of them. In the end
fresh tokens, read head by head, say how far off every head is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...._checks import check_block_laws
from ...._errors import AccuracyUnreachable, NotConverged
from ...._learned import LearnedBlock
from ...._linalg import norms
from ...._models import Attention, Block, Norm, Rotary, Turning
from ...._oracles import DOUBLE, LongToken, Oracle, Sphere, find_long_token, find_order
from ...._plan import Sizes, plan_block
from ..fresh import refuse_scores
from .fresh_odds import read_error_of_scores
from .heads import DRAWS, Readings, read_heads, read_maps
from .scores import KeysRead, read_all_keys
from .spaces import FEW_DIGITS
from .turning import OTHER_POSITIONS, turning
from .wide import read_wide_heads

OFFSETS = 0.25  # of a head's rank, at least two: places before the last token at which scores are read, if they matter
BEFORE_WIDE = 2  # last tokens that are tried before heads are taken to be wider than the model
MOST_OFFSETS = 4  # more say little more: keys of all heads are asked for at each
REFUSED_LIMIT = 1e-3  # of what keys move answers by
MOST_ERROR = 0.05  # of scores
# Times the error of an answer's limit. Of 14 decoders they were 400 to 2e4 of these, 2e6 where scores are capped at
# 1,000; with positions, which are told from differences of keys, up to 1.5e6 behind gains as uneven as trained ones,
# and 1e9 where scores are capped at 50.
LIMIT_ERRORS, LIMIT_ERRORS_PLACED = 5e5, 1e7
SAME_KEYS = 1e-5  # of a key: places matter otherwise than by turning it
SEEN_RANK = 1e-7  # of the largest singular value of W
SINGLE_INSIDE = "does a part of it compute in float32, as norms of transformers do in a model of any dtype?"
NO_LIMIT = (
    "a norm stands in front of the heads, but behind a long last token answers do not settle: that takes a norm in "
    "front of the network as well"
)


@dataclass(frozen=True)
class Positions:
    """Scores of each head in coordinates of the sphere: plain, with slopes, or turning."""

    W: list[np.ndarray]
    key_bias: list[np.ndarray]
    slopes: np.ndarray | None = None
    turnings: list[Turning] | None = None


def learn_decoder(
    oracle: Oracle, sphere: Sphere, rng: np.random.Generator, residual_map: str | None = "identity"
) -> LearnedBlock:
    """All heads of a block behind such a norm; where it has few digits and does not come apart, that is said."""
    oracle.stage = "telling what it is"
    positions = find_order(oracle, sphere, rng)
    outputs = check_block_laws(oracle, rng, positions)
    view = find_long_token(oracle, sphere, rng)
    try:
        learned = learn_through(view, positions, outputs, rng)
    except NotConverged as error:
        settles = view.error <= REFUSED_LIMIT or oracle.roundoff > DOUBLE
        if view.error <= FEW_DIGITS or not settles:
            raise
        few = f"its answers have {-np.log10(oracle.roundoff):.0f} digits"
        inside = f"differences of its answers are known to {view.error:.0e} of themselves; {SINGLE_INSIDE}"
        said = f"{few}, and a box that computes in float64 has 16" if oracle.roundoff > DOUBLE else inside
        raise AccuracyUnreachable(f"{error}; {said}") from error
    learned.model.residual_map = "unknown" if residual_map is None else learned.model.residual_map
    return learned


def learn_through(view: LongToken, positions: bool, outputs: int, rng: np.random.Generator) -> LearnedBlock:
    """Learns a block through long last tokens, from answers of so many numbers, where positions matter or do not."""
    oracle, sphere = view.oracle, view.sphere
    if not view.error <= REFUSED_LIMIT:
        raise NotConverged(NO_LIMIT)
    oracle.stage = "telling heads apart"
    heads, maps = read_heads_and_maps(view, positions, rng)
    oracle.expect(plan_block(Sizes(oracle.dim, heads=len(heads.ranks))).queries - oracle.queries)
    oracle.stage = "reading W"
    offsets = min(MOST_OFFSETS, max(2, int(OFFSETS * heads.capacity)))
    scores = read_all_keys(view, heads, offsets * positions, rng)
    found = explained(scores)
    model = decoder_of(view, maps, found)
    oracle.stage = "checking head by head"
    fresh = read_error_of_scores(view, heads, model, rng)
    error = fresh.relative
    refuse_scores(error, MOST_ERROR, (LIMIT_ERRORS_PLACED if positions else LIMIT_ERRORS) * view.error)
    model.norms = (Norm(sphere.kind, read_eps(view, model, rng)), *model.norms[1:])
    model.parallel = not view.normed and read_parallel(oracle, model, rng)
    return LearnedBlock(
        model=model,
        rank=tuple(rank_above(W, error) for W in found.W),
        value_rank=heads.ranks,
        error=error,
        fresh_bound=fresh.bound,
        reach=oracle.reach,
        outputs=outputs,
        free=len(model.free),
    )


def rank_above(W: np.ndarray, error: float) -> int:
    """How many singular values are no error."""
    s = np.linalg.svd(W, compute_uv=False)
    return int(np.sum(s > max(SEEN_RANK, error) * s[0]))


def read_heads_and_maps(view: LongToken, positions: bool, rng: np.random.Generator) -> tuple[Readings, np.ndarray]:
    """Heads with their value maps `(h, p, s)`. Where positions tell them apart they may be wider than the model
    together, which is tried after a few last tokens and before the others."""
    ways = [range(DRAWS)] if view.normed or not positions else [range(BEFORE_WIDE), None, range(BEFORE_WIDE, DRAWS)]
    refusal, too_wide = NotConverged("no heads show apart"), ""
    for draws in ways:
        try:
            if draws is None:
                wide = read_wide_heads(view, rng)
                return wide, wide.value_maps()
            heads, angle = read_heads(view, rng, draws)
            return heads, read_maps(view, heads, angle, rng)
        except NotConverged as error:
            if draws is None:
                too_wide = f"; nor do heads that are wider than the model together show: {error}"
            else:
                refusal = error
    refusal.args = (f"{refusal.args[0]}{too_wide}",)
    raise refusal


def explained(scores: KeysRead) -> Positions:
    """What keys at one place, or at several, say about positions."""
    count, offsets = scores.keys.shape[:2]
    if offsets == 1:
        each = [scores.affine(h, 0) for h in range(count)]
        return Positions([W for W, _ in each], [c for _, c in each])
    moved = np.linalg.norm(np.diff(scores.keys, axis=1)) / np.linalg.norm(scores.keys)
    if moved <= SAME_KEYS:
        return with_slopes(scores)
    turnings = [turning(scores, h) for h in range(count)]
    return Positions([each.W(0) for each in turnings], [each.key_bias(0) for each in turnings], turnings=turnings)


def with_slopes(scores: KeysRead) -> Positions:
    """Keys that are the same everywhere, and a term of scores that grows with the distance."""
    both = KeysRead(scores.q, scores.keys.mean(axis=1, keepdims=True), scores.rest, scores.worth)
    each = [both.affine(h, 0) for h in range(len(scores.keys))]
    beyond = scores.rest + np.einsum("hjp,jp->hj", both.keys[:, 0], scores.q)[:, None]
    places, typical = np.arange(1, scores.keys.shape[1] + 1), np.median(beyond, axis=2)
    slopes = typical @ places / (places @ places)
    if np.abs(typical - slopes[:, None] * places).max() > SAME_KEYS * np.abs(beyond).max():
        raise NotConverged(OTHER_POSITIONS)
    return Positions([W for W, _ in each], [c for _, c in each], slopes=slopes)


def decoder_of(view: LongToken, maps: np.ndarray, found: Positions) -> Block:
    """The block in coordinates of tokens."""
    basis, d = view.sphere.basis, view.sphere.basis.shape[1]
    stream = np.eye(d) if view.stream is None else view.stream
    each = zip(found.W, found.key_bias, maps, strict=True)
    made = [
        Attention(basis.T @ W @ basis, basis.T @ P @ stream.T, key_bias=c @ basis if np.any(c) else None)
        for W, c, P in each
    ]
    turned = [Turning(t.K @ basis, t.Q @ basis, t.k_bias, t.q_bias, t.frequencies) for t in found.turnings or ()]
    unseen = np.linalg.svd(stream)[0][:, stream.shape[1] :].T
    behind = (Norm(view.sphere.kind, None, "behind"),) * view.normed
    return Block(
        made,
        norms=(Norm(view.sphere.kind), *behind),
        rotary=Rotary(turned) if turned else None,
        slopes=found.slopes,
        unembedding=view.unembedding,
        free=unseen,
        behind=view.oracle,
    )


def read_parallel(oracle: Oracle, model: Block, rng: np.random.Generator) -> bool:
    """Whether the network stands beside the heads, so that they move an ordinary answer as they move a long one."""
    X = rng.standard_normal((1, 2, oracle.dim))
    moved = np.asarray(oracle(X)) - np.asarray(oracle(X[:, -1:]))
    return bool(np.linalg.norm(moved - model.moved(X)) <= SAME_KEYS * np.linalg.norm(moved))


SHORT_KEYS = 1e-3, 1e-5, 1e-7  # of keys, over ordinary ones: at one of them eps shows
VISIBLE = 1e-6  # of the length of a normalised token
SHARES, SHARE_ROUNDS = 128, 8
SHARE_STEP = 1e-6  # of a share: a numeric derivative to six digits or more, which asks nothing


def read_eps(view: LongToken, model: Block, rng: np.random.Generator) -> float | None:
    """The eps of the norm in front, from keys so short that it shows; None where it never does."""
    q, key = view.sphere.random((2, 1), rng)
    for length in SHORT_KEYS:
        shrunk = shrunk_share(view, model, key, q, view.read_short(key[None], q, length))
        if shrunk < 1 - VISIBLE:
            length = float(length * np.sqrt(1 / shrunk**2 - 1))  # there it shows best
            shrunk = shrunk_share(view, model, key, q, view.read_short(key[None], q, length))
            return float(length**2 * (1 / shrunk**2 - 1))
    return None


def shrunk_share(view: LongToken, model: Block, key: np.ndarray, q: np.ndarray, moved: np.ndarray) -> float:
    """How long a normalised key is that moves the answer like this, over one that eps does not shorten."""
    basis = view.sphere.basis
    stream = np.eye(basis.shape[1]) if view.stream is None else view.stream

    def off(share: np.ndarray) -> np.ndarray:
        tokens = np.stack([share[:, None] * key, np.broadcast_to(q, (len(share), q.shape[1]))], axis=1) @ basis
        predicted = (model.attended(tokens) - model.attended(tokens[:, -1:])) @ stream
        return view.seen(predicted, np.broadcast_to(q, (len(share), q.shape[1]))) - moved

    grid = np.arange(1, SHARES + 1) / SHARES
    share = float(grid[np.argmin(norms(off(grid)))])
    for _ in range(SHARE_ROUNDS):
        here, there = off(np.array([share, share - SHARE_STEP]))
        slope = (here - there) / SHARE_STEP
        share -= float(here @ slope / (slope @ slope))
    return share
