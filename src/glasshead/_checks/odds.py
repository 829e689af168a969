"""The law of the odds of one head, of which no model is needed.

Beside a last token q a key k has the weight p, and eight copies of it have `8p / (1 + 7p)` together, whatever scores
are. All four answers, to `[k]`, `[q]`, `[k ; q]` and `[k ... k ; q]`, are the box's own, so a second head shows in the
last digits however faint it is: errors of W, which may hide it elsewhere, play no part.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .._errors import COPIED_KEY, Evidence
from .._learned import Learned
from .._oracles import DOUBLE, Oracle
from .held_out import Compared
from .ordinary import ROUNDED, by_length, gaussian_sequences, levered

ODDS_COPIES = 8
PROBES = 2  # pairs of a key and a last token: at one of them two heads may happen to agree
ODDS_QUERIES = 4 * PROBES
PROMISED_PROBES = 3  # where answers are further off than was promised, which bounds excuse
MORE_PROBES = 8  # where answers are further off than bounds allow: a second head is off by as much as bad arithmetic
FAINTER, LINE = 1 / 64, 2  # of an answer; and the dimensions in which tokens that are answered alike lie on a line
THRICE = 3  # copies of every token, which change no answer, however many heads there are
SEEN_TIMES = 4.0  # times what these differ by: more than answers are off
ROUNDED_SCORES = 2.0  # times sqrt(d) roundings: sums of d products in another order, for sequences of other lengths


def check_odds(
    oracle: Oracle, learned: Learned, rng: np.random.Generator, probes: int = PROBES, *, measured: bool = False
) -> Evidence | None:
    """What breaks the law, where answers are as accurate as promised or as their format is, or as they are seen to be
    if that is `measured`; 4 queries for a probe, or 6."""
    sizes = np.resize(learned.suits(oracle.reach), probes)
    lever, _ = learned.levers(oracle)
    pairs = [levered(oracle, x, lever) for x in gaussian_sequences(oracle, (2,) * probes, sizes, rng)]
    model: Any = learned.model  # one head, or a sum of one
    pairs[1::2] = [faintly_answered(oracle, model, x) for x in pairs[1::2]]
    copied = [np.concatenate([np.repeat(x[:1], ODDS_COPIES, axis=0), x[1:]]) for x in pairs]
    asked = [*copied, *pairs, *(x[:1] for x in pairs), *(x[1:] for x in pairs)]
    many, one, key, last = by_length(oracle, asked).reshape(4, probes, -1)
    v, bias = float(np.linalg.norm(model.heads[0].v)), float(np.abs(model.bias).max())
    size = np.array([float(np.linalg.norm(x, axis=1).max()) * v + bias for x in pairs])
    most = read_relative_error(oracle, [*copied, *pairs], np.concatenate([many, one])) if measured else None
    off_many, off_one, off_key, off_last = (answer_error(oracle, size, y, most) for y in (many, one, key, last))
    swing = key - last
    lengths = np.maximum(np.sum(swing**2, axis=1), np.finfo(float).tiny)
    p = np.clip(np.sum((one - last) * swing, axis=1) / lengths, 0.0, 1.0)
    expected = ODDS_COPIES * p / (1 + (ODDS_COPIES - 1) * p)
    steep = ODDS_COPIES / (1 + (ODDS_COPIES - 1) * p) ** 2 * np.sqrt(swing.shape[1])
    of_p = steep * (off_one + p * off_key + (1 - p) * off_last)
    allowed = off_many + expected * off_key + (1 - expected) * off_last + of_p
    return Compared(copied, many, last + swing * expected[:, None], allowed).evidence(COPIED_KEY)


def faintly_answered(oracle: Oracle, model: Any, pair: np.ndarray) -> np.ndarray:
    """The tokens moved along v to where they are hardly answered, and errors that are a share of answers hardly count;
    as they are if they would have to be moved far, or in one or two dimensions, of which that leaves too little."""
    v = np.asarray(model.heads[0].v).reshape(oracle.dim, -1)
    if v.shape[1] > 1 or oracle.dim <= LINE:
        return pair
    values = pair @ v + float(np.max(model.bias))
    moved = pair - (1 - FAINTER) * values * v[:, 0] / float(v[:, 0] @ v[:, 0])
    longest = np.linalg.norm(moved, axis=1) <= np.minimum(np.sqrt(2) * np.linalg.norm(pair, axis=1), oracle.reach)
    return moved if longest.all() else pair


def read_relative_error(oracle: Oracle, X: list[np.ndarray], answers: np.ndarray) -> float:
    """How far off answers `(B, k)` are, of their size, by a law that has nothing to do with what was found: every token
    three times is answered alike. It is one rounding at least."""
    again = by_length(oracle, [np.repeat(x, THRICE, axis=0) for x in X])
    sizes = np.maximum(np.abs(answers).max(axis=1), np.finfo(float).tiny)
    seen = np.sqrt(np.mean((np.minimum(np.abs(again - answers).max(axis=1), sizes) / sizes) ** 2))
    return max(SEEN_TIMES * float(seen), oracle.box.roundoff)


def answer_error(oracle: Oracle, size: np.ndarray, answers: np.ndarray, most: float | None = None) -> np.ndarray:
    """How far off answers `(B, k)` made of numbers of that size are: as promised, or by some roundings of their format,
    or by that share of themselves at `most`. A relative error that is promised covers all but double precision."""
    roundings = ROUNDED + (0.0 if oracle.box.narrow else ROUNDED_SCORES * np.sqrt(oracle.dim))
    largest = np.abs(answers).max(axis=1)
    if oracle.box.rtol > 0:
        return oracle.tolerance + oracle.rtol * largest + roundings * DOUBLE * size
    error = oracle.tolerance + max(oracle.rtol, oracle.box.roundoff) * roundings * size
    return error if most is None else np.minimum(error, most * largest)
