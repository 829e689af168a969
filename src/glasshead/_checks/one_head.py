"""The held-out check of one head, alone or in front of a network that was read too: which tokens show it best."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from itertools import chain

import numpy as np

from .._errors import FRESH_HEAD
from .._learned import HeldOut, Predicting, head_length
from .._oracles import Oracle
from .held_out import QUERIES, USER_SIZES, even, judged_fresh, read_fresh, unit_scale

VAGUE = 0.1  # of an answer: bounds that allow more say next to nothing
SHARP_TIMES = 32.0  # times the least that bounds allow at any length: still sharp
SHORTER_EACH, SHORTENINGS = 4.0, 24  # shorter and shorter tokens to look for better ones
SAMPLE = 4  # sequences, and tokens in each, on which bounds are compared


def check_held_out(oracle: Oracle, learned: Predicting, rng: np.random.Generator) -> HeldOut:
    """Fresh answers against the predictions of a model that says itself how far off they may be.

    About half of the sequences have users' sizes. Where only these are further off than bounds allow it may be coarse
    arithmetic, which bounds do not know of before the judge has measured it: he is asked to look there again.
    """
    suited = token_sizes(oracle, learned, deepcopy(rng))
    # The last sequence, which is asked again, has a suited size, however many there are.
    in_turn = [(suited[0], size, *suited[1:]) for size in user_sizes(oracle, learned, suited, rng)]
    sizes = tuple(chain.from_iterable(in_turn))
    fresh = read_fresh(oracle, sizes, rng)
    want, allowed = fresh.each(learned.model), fresh.each(lambda X: learned.allowed(X, oracle))
    check = judged_fresh(fresh, want, allowed, FRESH_HEAD)
    suits = np.isin(np.resize(sizes, len(want)), suited)
    alone = judged_fresh(fresh.only(suits), want[suits], allowed[suits], FRESH_HEAD)
    if check.evidence is None or alone.evidence is not None:
        return check
    return replace(alone, left=tuple(x for x, suited_one in zip(fresh.X, suits, strict=True) if not suited_one))


def user_sizes(
    oracle: Oracle, learned: Predicting, suited: tuple[float, ...], rng: np.random.Generator
) -> tuple[float, ...]:
    """For every turn of the lengths that suit the head one more, that of users' tokens, for more of what the box may go
    by to be seen; the first of the others in place of one at which bounds say little."""
    (rng,) = rng.spawn(1)
    turns = -(-QUERIES // (len(suited) + 1))
    lengths = np.minimum(2 * np.sqrt(oracle.dim) * 2.0 ** even(*USER_SIZES, turns, rng), oracle.reach)
    X = unit_scale(rng.standard_normal((SAMPLE, SAMPLE, oracle.dim)))
    return tuple(x if vagueness(oracle, learned, x * X) <= VAGUE else suited[0] for x in lengths.tolist())


def token_sizes(oracle: Oracle, learned: Predicting, rng: np.random.Generator) -> tuple[float, ...]:
    """The lengths of tokens that suit the head, to check with.

    A head that takes the mean suits any length, and does so for the longest tokens too. Where the bounds say nothing at
    the usual length, also the longest at which they say most: a check that every answer passes is none.
    """
    model, reach = learned.model, oracle.reach
    flat = model.W_norm == 0 and not np.any(model.key_bias)
    usual = min(head_length(model), reach)
    lengths = usual * SHORTER_EACH ** -np.arange(SHORTENINGS)
    X = unit_scale(rng.standard_normal((SAMPLE, SAMPLE, oracle.dim)))
    said = np.array([vagueness(oracle, learned, length * X) for length in lengths])
    best = float(lengths[said <= SHARP_TIMES * said.min()][0])
    return (usual, *[reach] * flat, *[best] * bool(said[0] > VAGUE and best < usual))


def vagueness(oracle: Oracle, learned: Predicting, X: np.ndarray) -> float:
    """How far answers to such sequences may be off, over what their tokens are answered one by one."""
    alone = np.abs(np.asarray(learned.model(X.reshape(-1, 1, X.shape[2]))))
    return float(learned.allowed(X, oracle).max() / max(float(alone.max()), np.finfo(float).tiny))
