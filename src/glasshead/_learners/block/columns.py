"""W and key biases, once the value maps are known: scores of many tokens at once, at last tokens around one reference.

`[x + D_1, .., x + D_t, x, .., x]` is answered like the token `x + sum_hi a_hi D_i B_h`, and its weights `a_hi`
themselves are the unknowns: no more of them than answers see dimensions, so no matter what answers do not see. `log
a_hi` less that of the last token is the score `D_i . (W_h x + key_bias_h)`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..._errors import NotConverged
from ..._linalg import LEAST_DIVISOR, norms, random_rotation, svd
from ..._oracles import STALLED_ROUNDINGS, Oracle, find_alike, read_single
from .geometry import Reference, View, copies_of, seen_rank, with_copies
from .values import Heads

MOVED_BY_TOKENS = 0.1  # of an answer
OF_REACH = 0.5  # for tokens, relative to the last one
SHARE, LEAST_SHARE, SPARE_TOKENS = 0.7, 0.5, 4  # of the tokens that every head could just tell apart; less where few
SPARE_LAST_TOKENS = 3  # last tokens beyond the rank of W at which all scores are read
TIMES = 1.25  # as many scores as unknowns, at the others
# How far last tokens lie from the reference: of its answer, and of its length.
ANSWER_DISTANCE, TOKEN_DISTANCE = 0.5, 0.75
TOKEN_CONDITION = 4e3  # tokens go less far where directions are seen so many times worse than others
CLEAR = 30.0  # between singular values of columns: less of a gap shows no rank
MISFIT_TIMES = 1e4  # times the misfit of answers: errors of columns are not larger, of the largest singular value
LOST = 1e-6  # of what tokens move answers: a token that fits no better is another one that is answered alike
ROUGH_MISFIT = 1e-2  # the same, where keys are wanted roughly
ASTRAY_TIMES, FINE = 30.0, 0.25  # or that many times the misfit of the best quarter
MOST_ASTRAY = 5e-4  # where answers have so few digits that this is less
WEIGHT_ROUNDINGS = 300.0  # roundings: how exactly weights are wanted, of which a token has a hundredth or so
MOST_FOUND = 1e-7  # where that is more
# Last tokens that are tried first; all are shortened by so much where these are lost.
FIRST_TRIED, SHORTENED_ALL = 4, 0.3
CLOSER, CLOSER_TRIES = 0.5, 5  # last tokens that are lost come closer, so often


def read_scores(
    oracle: Oracle, at: Reference, B: np.ndarray, last: np.ndarray, D: np.ndarray, k: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Scores `(j, H, t)` of tokens `x + D` at the last tokens x, and how far off answers are, over what tokens move.
    `k (j, H, d)` or `(H, d)` are keys nearby, to start from."""
    j, H, t, copies = len(last), len(B), len(D), copies_of(oracle)
    answers = np.asarray(oracle(with_copies(last, np.broadcast_to(D, (j, *D.shape)), copies)))
    moves = np.einsum("td,hde->hte", D, B, optimize=True).reshape(H * t, -1)
    inverse = np.linalg.pinv(moves @ at.jacobian)
    e = np.exp(np.einsum("td,jhd->jht", D, np.broadcast_to(k, (j, *k.shape[-2:]))))
    start = (e / (copies + e.sum(axis=2, keepdims=True))).reshape(j, -1)
    left = np.empty(j)

    def read_step(weights: np.ndarray, which: np.ndarray) -> np.ndarray:
        off = answers[which] - read_single(oracle, last[which] + weights @ moves)
        left[which] = norms(off)
        return off @ inverse

    weights, _ = find_alike(
        read_step, start, min(WEIGHT_ROUNDINGS * oracle.roundoff, MOST_FOUND), STALLED_ROUNDINGS * oracle.roundoff
    )
    weights = weights.reshape(j, H, t)
    rest = (1 - weights.sum(axis=2, keepdims=True)) / copies
    with np.errstate(all="ignore"):
        scores = np.log(weights) - np.log(rest)
    moved = np.median(norms(np.einsum("jht,hte->je", weights, moves.reshape(H, t, -1), optimize=True) @ at.jacobian))
    return scores, np.where(np.isfinite(scores).all(axis=(1, 2)), left / moved, np.inf)


def scored_blocks(
    oracle: Oracle, at: Reference, heads: Heads, each: int, least: int, rng: np.random.Generator
) -> np.ndarray:
    """`(blocks, each, d)`: tokens, relative to the last one, that span everything and have scores of the order of one,
    unless these would move answers too far."""
    blocks, dim = -(-least // each), oracle.dim
    D = np.concatenate([random_rotation(dim, rng) for _ in range(-(-blocks * each // dim))])[: blocks * each]
    moved = float(np.median(norms(D @ heads.B.sum(axis=0) @ at.jacobian))) * np.sqrt(each) / (copies_of(oracle) + each)
    scored = np.sqrt(dim / np.max(np.sum(heads.k**2, axis=1)))  # in the loudest head
    most = MOVED_BY_TOKENS * near(at) * np.linalg.norm(at.answer)
    farthest = (1 + TOKEN_DISTANCE) * float(np.linalg.norm(at.token))  # that a last token may be
    length = min(scored, most / moved, OF_REACH * oracle.reach, oracle.reach - farthest)
    return length * D.reshape(blocks, each, dim)


def near(at: Reference) -> float:
    """How much less far tokens go than where all directions are seen alike."""
    s = svd(at.jacobian)[1]
    return float(1 / (1 + s[0] / s[seen_rank(s) - 1] / TOKEN_CONDITION))


def read_keys(oracle: Oracle, at: Reference, heads: Heads, each: int, rng: np.random.Generator) -> np.ndarray | None:
    """`W_h q + key_bias_h` at another reference, `(H, d)`; none where no weights explain answers there."""
    blocks = scored_blocks(oracle, at, heads, each, oracle.dim, rng)
    parts = [read_scores(oracle, at, heads.B, at.token[None], D, heads.k) for D in blocks]
    if not max(float(part[1][0]) for part in parts) <= ROUGH_MISFIT:
        return None
    scores = np.concatenate([part[0][0] for part in parts], axis=1)
    return scores @ np.linalg.pinv(blocks.reshape(-1, oracle.dim)).T


@dataclass(frozen=True)
class HeadColumns:
    """`W_h (H, d, d)`, key biases `(H, d)`, the rank of each W, how far off answers were, over what tokens move, and
    how far from the reference, of what is usual, last tokens were."""

    W: np.ndarray
    key_bias: np.ndarray
    ranks: tuple[int, ...]
    misfit: float
    distance: float


def last_tokens(at: Reference, rng: np.random.Generator) -> np.ndarray:
    """Moves `(d, d)` of the last token that span everything, each as long as answers bear."""
    left, s, _ = svd(at.jacobian, full=True)
    gains = np.concatenate([s, np.zeros(len(left) - len(s))])
    far, farthest = ANSWER_DISTANCE * near(at) * np.linalg.norm(at.answer), TOKEN_DISTANCE * np.linalg.norm(at.token)
    length = np.minimum(far / np.maximum(gains, LEAST_DIVISOR), farthest)
    return random_rotation(len(left), rng) @ (left.T * length[:, None])


def astray(usual: float) -> float:
    """The largest misfit of a token that is the right one, where they usually have that."""
    return max(LOST, min(ASTRAY_TIMES * usual, MOST_ASTRAY))


def find_distance(oracle: Oracle, at: Reference, heads: Heads, D: np.ndarray, moves: np.ndarray) -> float:
    """How much of all moves can be gone: shortened until the first few of them are answered as they should be."""
    distance = 1.0
    for _ in range(CLOSER_TRIES):
        _, misfit = read_scores(oracle, at, heads.B, at.token + distance * moves[:FIRST_TRIED], D, heads.k)
        if np.median(misfit) <= astray(heads.misfit):
            break
        distance *= SHORTENED_ALL
    return distance


def each_time(view: View, heads: Heads, lost: int) -> int:
    """Tokens to send at once."""
    least = min(V.shape[1] for V in heads.V) - lost if len(heads.V) > 1 else len(view.gains)
    return max(1, int(LEAST_SHARE * least), min(int(SHARE * least), least - SPARE_TOKENS))


def read_columns(
    oracle: Oracle, at: Reference, heads: Heads, each: int, rank: int, rng: np.random.Generator
) -> HeadColumns:
    """All scores at a few last tokens show the span of the columns of every W; at the others a few scores do."""
    d, H = oracle.dim, len(heads.B)
    blocks = scored_blocks(oracle, at, heads, each, d, rng)
    moves = last_tokens(at, rng)
    distance = find_distance(oracle, at, heads, blocks[0], moves)
    moves *= distance
    full = min(d, rank + SPARE_LAST_TOKENS)
    while True:
        first, changes, misfit = read_changes(oracle, at, heads, moves[:full], blocks)
        changed = changes @ np.linalg.pinv(blocks.reshape(-1, d)).T
        if not (np.isfinite(changed).all() and norms(first).all()):
            raise NotConverged(NO_WEIGHTS_THERE)
        spans = [column_span(changed[:, h] / norms(first)[:, None], MISFIT_TIMES * misfit) for h in range(H)]
        if full == d or max(K.shape[1] for K in spans) + 2 <= full:
            break
        full = min(d, 2 * full)
    if full == d:
        W = [np.linalg.solve(first, changed[:, h]).T for h in range(H)]
        return HeadColumns(
            np.array(W), heads.k - np.array(W) @ at.token, tuple(K.shape[1] for K in spans), misfit, distance
        )
    most = max(K.shape[1] for K in spans)
    few = scored_blocks(oracle, at, heads, each, int(np.ceil(TIMES * (most + 1))), rng)
    others, changes, also = read_changes(oracle, at, heads, moves[full:], few)
    tokens, W = few.reshape(-1, d), []
    for h, K in enumerate(spans):
        rest = changes[:, h] @ np.linalg.pinv(tokens @ K).T @ K.T
        W.append(np.linalg.solve(np.concatenate([first, others]), np.concatenate([changed[:, h] @ K @ K.T, rest])).T)
    ranks = tuple(K.shape[1] for K in spans)
    return HeadColumns(np.array(W), heads.k - np.array(W) @ at.token, ranks, max(misfit, also), distance)


def column_span(columns: np.ndarray, noise: float) -> np.ndarray:
    """A basis of what columns span: up to the widest gap of singular values beyond which noise explains them, as a
    share of the largest; all of it where there is none."""
    _, s, right = svd(columns)
    gaps = np.where(s[1:] <= noise * s[0], s[:-1] / np.maximum(s[1:], np.finfo(float).tiny), 0.0)
    rank = int(np.argmax(gaps)) + 1 if len(gaps) and gaps.max() > CLEAR else len(s)
    return right[:rank].T


NO_WEIGHTS_THERE = "some last tokens are answered like no token that their attention weights could explain"


def read_changes(
    oracle: Oracle, at: Reference, heads: Heads, moves: np.ndarray, blocks: np.ndarray
) -> tuple[np.ndarray, np.ndarray, float]:
    """Moves of the last token that worked, how much scores change with them, `(j, H, n)`, and the worst misfit. What
    errors of the value maps do to scores is nearly the same at the reference, and cancels."""
    settled, scores, misfit = read_settled(oracle, at, heads, np.concatenate([np.zeros_like(moves[:1]), moves]), blocks)
    return settled[1:], scores[1:] - scores[:1], misfit


def read_settled(
    oracle: Oracle, at: Reference, heads: Heads, moves: np.ndarray, blocks: np.ndarray
) -> tuple[np.ndarray, np.ndarray, float]:
    """Moves of the last token that worked, scores there, `(j, H, n)`, and the worst misfit. Moves are shortened where
    another token than the right one is answered alike: its weights fit badly."""
    moves, todo = moves.copy(), np.arange(len(moves))
    scores = np.empty((len(moves), len(heads.B), blocks.shape[0] * blocks.shape[1]))
    misfit = np.zeros(len(moves))
    for _ in range(CLOSER_TRIES):
        parts = [read_scores(oracle, at, heads.B, at.token + moves[todo], D, heads.k) for D in blocks]
        scores[todo] = np.concatenate([part[0] for part in parts], axis=2)
        misfit[todo] = np.max([part[1] for part in parts], axis=0)
        todo = np.flatnonzero(~(misfit <= astray(float(np.quantile(misfit, FINE)))))
        if len(todo) == 0:
            return moves, scores, float(np.median(misfit))
        moves[todo] *= CLOSER
    raise NotConverged(NO_WEIGHTS_THERE)
