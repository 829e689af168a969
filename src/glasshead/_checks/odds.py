"""The law of the odds of one head, of which no model is needed.

Beside a last token q a key k has the weight p, and eight copies of it have `8p / (1 + 7p)` together, whatever scores
are. All four answers, to `[k]`, `[q]`, `[k ; q]` and `[k ... k ; q]`, are the box's own, so a second head shows in the
last digits however faint it is: errors of W, which may hide it elsewhere, play no part.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.special import expit

from .._errors import COPIED_KEY, EVERYWHERE, Evidence
from .._learned import Learned
from .._linalg import unit
from .._oracles import DOUBLE, Oracle
from .held_out import Compared
from .ordinary import (
    NEIGHBOUR_TIMES,
    NEIGHBOURS,
    TERM_ROUNDINGS,
    VOID,
    apart,
    by_length,
    gaussian_sequences,
    levered,
)

ODDS_COPIES = 8
ODDS_PROBES = 2  # pairs of a key and a last token: at one of them two heads may happen to agree
ODDS_QUERIES = 4 * ODDS_PROBES
# Where answers are further off than promised, which bounds excuse, or than bounds allow: a second head is off by as
# much as bad arithmetic. Of 12 boxes with a faint one that two or three probes missed, 8 show two thirds where answers
# have 18 bits; where all of a box has 8 or 11, it takes 16 to show half.
MORE_PROBES, NARROW_PROBES = 8, 16
PAIRS_DRAWN = 24  # for each probe, from which it is chosen, each also with one or both of its tokens hardly answered
SECOND_HEADS = 32  # imagined, to choose the probes by that show them,
LESS_OR_MORE = 2.0  # to the power of minus or plus two: how steep their scores are, of those of the head found
FAINTER = 1 / 64  # of an answer: what is left of it where errors that are a share of answers hardly count
THRICE = 3  # copies of every token, which change no answer, however many heads there are
ODDS_TIMES = 4.0  # times what these differ by: more than answers are off
SETTLED_ROUNDS = 3  # until it is known how far p may be off, which depends on p
ROUNDED_SCORES = 2.0  # times sqrt(d) roundings: sums of d products in another order, for sequences of other lengths


def check_odds(
    oracle: Oracle, learned: Learned, rng: np.random.Generator, probes: int = ODDS_PROBES, *, measured: bool = False
) -> Evidence | None:
    """What breaks the law, where answers are as accurate as promised or as their format is, or as they are seen to be
    if that is `measured`; 4 queries for a probe, or 6."""
    model: Any = learned.model  # one head, or a sum of one
    (rng,) = rng.spawn(1)  # what is drawn afterwards is the same, whatever is drawn here
    pairs = telling_pairs(oracle, learned, probes, rng)
    copied = [np.concatenate([np.repeat(x[:1], ODDS_COPIES, axis=0), x[1:]]) for x in pairs]
    asked = [*copied, *pairs, *(x[:1] for x in pairs), *(x[1:] for x in pairs)]
    thrice = read_thrice(oracle, [*copied, *pairs]) if measured else None
    answers = by_length(oracle, asked)
    many, one, key, last = answers.reshape(4, probes, -1)
    most = None if thrice is None else relative_error(oracle, thrice, np.concatenate([many, one]))
    swing = key - last
    lengths = np.maximum(np.sum(swing**2, axis=1), np.finfo(float).tiny)
    p = np.clip(np.sum((one - last) * swing, axis=1) / lengths, 0.0, 1.0)
    size = sizes_of(model, np.stack(pairs))
    errors = [answer_error(oracle, size, each, most) for each in (many, one, key, last)]
    allowed = errors_of_odds(p, errors, swing)
    broken = Compared(copied, many, last + swing * of_copies(p)[:, None], allowed).evidence(COPIED_KEY)
    return broken or check_still(oracle, learned, asked, answers, np.tile(size, 4), rng)


def check_still(
    oracle: Oracle,
    learned: Learned,
    X: list[np.ndarray],
    answers: np.ndarray,
    size: np.ndarray,
    rng: np.random.Generator,
) -> Evidence | None:
    """What shows that the box has become another one by now, which may be a head as well. It asks nothing."""
    want = by_length(learned.model, X)
    around = [apart(model, X, want) for model in learned.neighbours(VOID, NEIGHBOURS, rng)]
    level = oracle.tolerance + oracle.rtol * np.abs(answers).max(axis=1) + learned.most_alone(X)
    return Compared(X, answers, want, VOID * size + level + NEIGHBOUR_TIMES * np.max(around, axis=0)).evidence(
        EVERYWHERE
    )


def of_copies(p: np.ndarray) -> np.ndarray:
    """The weight of all copies of a key that alone has the weight p."""
    return ODDS_COPIES * p / (1 + (ODDS_COPIES - 1) * p)


def steepness(p: np.ndarray) -> np.ndarray:
    """By how much that grows with p."""
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
    """Of many pairs those that would show a second head best, whatever it is: each is chosen such that imagined ones,
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


def read_thrice(oracle: Oracle, X: list[np.ndarray]) -> np.ndarray:
    return by_length(oracle, [np.repeat(x, THRICE, axis=0) for x in X])


def relative_error(oracle: Oracle, thrice: np.ndarray, answers: np.ndarray) -> float:
    """How far off answers `(B, k)` are, of their size, by a law that has nothing to do with what was found: every token
    three times is answered alike. It is one rounding at least."""
    sizes = np.maximum(np.abs(answers).max(axis=1), np.finfo(float).tiny)
    seen = np.sqrt(np.mean((np.minimum(np.abs(thrice - answers).max(axis=1), sizes) / sizes) ** 2))
    return max(ODDS_TIMES * float(seen), oracle.box.roundoff)


def answer_error(oracle: Oracle, size: np.ndarray, answers: np.ndarray, most: float | None = None) -> np.ndarray:
    """How far off answers `(B, k)` made of numbers of that size are: as promised, or by some roundings of their format,
    or by that share of themselves at `most`. A relative error that is promised covers all but double precision."""
    roundings = TERM_ROUNDINGS + (0.0 if oracle.box.narrow else ROUNDED_SCORES * np.sqrt(oracle.dim))
    largest = np.abs(answers).max(axis=1)
    if oracle.box.rtol > 0:
        return oracle.tolerance + oracle.rtol * largest + roundings * DOUBLE * size
    error = oracle.tolerance + max(oracle.rtol, oracle.box.roundoff) * roundings * size
    return error if most is None else np.minimum(error, most * largest)
