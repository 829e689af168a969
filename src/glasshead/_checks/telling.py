"""Pairs of a key and a last token that would show a second head, and how far errors of answers reach in them.

A key of weight p has the weight `8p / (1 + 7p)` in eight copies. Weights that differ between two heads show by how much
that curve is bent between them, so pairs are chosen by second heads that are imagined.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.special import expit

from .._learned import Learned
from .._linalg import unit
from .._oracles import DOUBLE, Oracle
from .answered import TERM_ROUNDINGS
from .ordinary import gaussian_sequences, levered

ODDS_COPIES = 8
PAIRS_DRAWN = 24  # for each probe, from which it is chosen, each also with one or both of its tokens hardly answered
SECOND_HEADS = 32  # imagined, to choose the probes by that show them,
LESS_OR_MORE = 2.0  # to the power of minus or plus two: how steep their scores are, of those of the head found
FAINTER = 1 / 64  # of an answer: what is left of it where errors that are a share of answers hardly count
SETTLED_ROUNDS = 3  # until it is known how far p may be off, which depends on p
ROUNDED_SCORES = 2.0  # times sqrt(d) roundings: sums of d products in another order, for sequences of other lengths


def of_copies(p: np.ndarray) -> np.ndarray:
    """The weight of all copies of a key that alone has the weight p."""
    return ODDS_COPIES * p / (1 + (ODDS_COPIES - 1) * p)


def steepness(p: np.ndarray) -> np.ndarray:
    """The derivative, by p, of the weight of all copies of a key that alone has the weight p."""
    return ODDS_COPIES / (1 + (ODDS_COPIES - 1) * p) ** 2


def errors_of_odds(p: np.ndarray, errors: list[np.ndarray], swing: np.ndarray) -> np.ndarray:
    """How far the answer to copies may be from what the other three say, all four being off by their errors: p is the
    share of `swing (B, k)`, from the last token's answer to the key's, by which the pair is answered."""
    many, one, key, last = errors
    length, outputs = np.linalg.norm(swing, axis=1), swing.shape[1]
    low = high = p
    for _ in range(SETTLED_ROUNDS):
        off = np.sqrt(outputs) * (one + high * key + (1 - low) * last) / np.maximum(length, np.finfo(float).tiny)
        low, high = np.clip(p - off, 0.0, 1.0), np.clip(p + off, 0.0, 1.0)
    least, most = of_copies(low), of_copies(high)
    of_p = np.maximum(most - of_copies(p), of_copies(p) - least) * length
    return many + most * key + (1 - least) * last + of_p


def sizes_of(model: Any, pairs: np.ndarray) -> np.ndarray:
    """The sizes of the numbers that the answers to pairs `(B, 2, d)` are made of."""
    v, bias = float(np.linalg.norm(model.heads[0].v)), float(np.abs(model.bias).max())
    return np.linalg.norm(pairs, axis=2).max(axis=1) * v + bias


def telling_pairs(oracle: Oracle, learned: Learned, probes: int, rng: np.random.Generator) -> list[np.ndarray]:
    """The pairs, of many, that would show a second head best, whatever it is: each is chosen such that imagined ones,
    together with the pairs before it, show most in the geometric mean. Every other pair has tokens as they are drawn,
    where answers are not fainter than usual and show errors that are a share of them, too."""
    lever, _ = learned.levers(oracle)
    count = probes * PAIRS_DRAWN
    drawn = gaussian_sequences(oracle, (2,) * count, np.resize(learned.suits(oracle.reach), count), rng)
    plain = [levered(oracle, x, lever) for x in drawn]
    faint = [each for x in plain for each in faintly_answered(oracle, learned.model, x)]
    pairs = np.stack([*plain, *faint])
    with np.errstate(all="ignore"):  # a head may be as large as numbers get, or as small
        shown = np.nan_to_num(shown_by(oracle, learned.model, pairs, rng))
    best, chosen = np.full(SECOND_HEADS, np.finfo(float).tiny), []
    for probe in range(probes):
        gained = np.log(np.maximum(shown, best)).mean(axis=1)
        gained[chosen] = -np.inf
        chosen.append(int(gained[: len(pairs) if probe % 2 else count].argmax()))
        best = np.maximum(best, shown[chosen[-1]])
    return [pairs[i] for i in chosen]


def shown_by(oracle: Oracle, model: Any, pairs: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """By how much imagined second heads of size 1 break the law at each pair, over what it allows, `(B, heads)`."""
    head, (key, last) = model.heads[0], pairs.transpose(1, 0, 2)
    between, size = key - last, sizes_of(model, pairs)
    values = [x @ np.reshape(head.v, (oracle.dim, -1)) + model.bias for x in (key, last)]
    p = expit(np.einsum("bd,bd->b", between, last @ head.W.T + head.key_bias))
    made = [values[1] + share[:, None] * (values[0] - values[1]) for share in (of_copies(p), p)]
    least = FAINTER * size[:, None]  # of answers that are fainter still, errors may be no share
    errors = [answer_error(oracle, size, np.maximum(np.abs(each), least)) for each in (*made, *values)]
    allowed = errors_of_odds(p, errors, values[0] - values[1])
    flat = 1 / np.median(np.linalg.norm(pairs, axis=2).prod(axis=1))
    steep = max(head.W_norm, flat) * 2 ** rng.uniform(-LESS_OR_MORE, LESS_OR_MORE, SECOND_HEADS)
    of_key, of_last, v = unit(rng.standard_normal((3, SECOND_HEADS, oracle.dim)))
    theirs = expit(steep * (between @ of_key.T) * (last @ of_last.T))
    straight = of_copies(p)[:, None] + steepness(p)[:, None] * (theirs - p[:, None])
    return np.abs((between @ v.T) * (of_copies(theirs) - straight)) / allowed[:, None]


def faintly_answered(oracle: Oracle, model: Any, pair: np.ndarray) -> Iterator[np.ndarray]:
    """One or both of the tokens moved along v to where they are hardly answered, and errors that are a share of answers
    hardly count; but not where they would have to be moved far."""
    v = np.asarray(model.heads[0].v).reshape(oracle.dim, -1)
    if v.shape[1] > 1:
        return
    values = pair @ v + float(np.max(model.bias))
    moved = pair - (1 - FAINTER) * values * v[:, 0] / float(v[:, 0] @ v[:, 0])
    longest = np.minimum(np.sqrt(2) * np.linalg.norm(pair, axis=1), oracle.reach)
    for which in ([True, False], [False, True], [True, True]):
        if (np.linalg.norm(moved, axis=1) <= longest)[which].all():
            yield np.where(np.array(which)[:, None], moved, pair)


def answer_error(oracle: Oracle, size: np.ndarray, answers: np.ndarray, most: float | None = None) -> np.ndarray:
    """How far off answers `(B, k)` made of numbers of that size are: as promised, or by some roundings of their format,
    or by that share of themselves at `most`. A relative error that is promised covers all but double precision."""
    roundings = TERM_ROUNDINGS + (0.0 if oracle.box.narrow else ROUNDED_SCORES * np.sqrt(oracle.dim))
    largest = np.abs(answers).max(axis=1)
    if oracle.box.rtol > 0:
        return oracle.tolerance + oracle.rtol * largest + roundings * DOUBLE * size
    error = oracle.tolerance + max(oracle.rtol, oracle.box.roundoff) * roundings * size
    return error if most is None else np.minimum(error, most * largest)
