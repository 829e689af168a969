"""The held-out check of several heads, judged by what the choice of tokens adds to the plain mean of all values.

A sum of heads comes without bounds. What may be off is a share of what the heads choose, since a bias or a mean can be
far larger than all that W does, and rounding of the whole. Heads whose scores suit different tokens are checked with
tokens of several lengths, and once more with tokens of all lengths, where a head may appear that no other length shows.
Of several outputs each is judged by its own size, on the same fresh queries.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from .._errors import ALL_LENGTHS, FRESH_HEADS, AccuracyUnreachable, BudgetExceeded
from .._learned import HeldOut, LearnedCombined, LearnedMultiHead, head_length
from .._models import Attention, MultiHead
from .._oracles import OneOutput, Oracle
from .compared import Compared
from .held_out import Fresh, judged_fresh, read_fresh, unit_scale

REFUSED_SHARE = 1e-6  # of what the choice of tokens makes of an answer: past this the box is something else
PROMISED = 400.0  # times the promised error of an answer: what a true one let 90 layers be off by was 187 at most
ROUNDOFF_TIMES = 1700.0  # times the precision, where that is more: 1e-4 for float32
ANSWER_ROUNDINGS = 100.0  # of the bias and of the plain mean of the tokens, which may be far larger than what is judged
LARGEST_SCORES = 4.0  # about the largest at the length of tokens chosen: errors of W show that much larger
LENGTHS_APART = 8.0  # heads whose typical tokens differ by more are checked with tokens of their own
USUAL_RESIDUAL = 1e6, 3e-5  # times the precision, and at most: heads neither crowded nor alike agree at least so well
WARNED_TIMES = 30.0  # times that: crowded heads and those solved for together still agree so well


def check_held_out_heads(oracle: Oracle, learned: LearnedMultiHead, rng: np.random.Generator) -> HeldOut:
    """Fresh answers of one number against the sum of all heads, for tokens that suit every head."""
    sizes = typical_tokens(learned, oracle.reach)
    return judged_heads(read_fresh(oracle, sizes, rng), learned, oracle, len(sizes))


def judged_heads(fresh: Fresh, learned: LearnedMultiHead, oracle: Oracle, turns: int) -> HeldOut:
    """Answers of one number, `oracle` being what promises them, to tokens whose lengths took that many turns."""
    largest = largest_in_turn(fresh.got, turns)
    chosen = largest_in_turn(fresh.got - fresh.each(lambda X: mean_answers(learned, X)), turns)
    allowed = refused(oracle, learned) * chosen + answer_errors(oracle, learned, largest)
    check = judged_fresh(fresh, fresh.each(lambda X: np.ravel(learned.model(X))), allowed, FRESH_HEADS, largest)
    residual = check.residual or 0.0
    return replace(check, words=check.words + less_than_usual(residual, oracle), warning=warning(residual, oracle))


def mean_answers(learned: LearnedMultiHead, X: np.ndarray) -> np.ndarray:
    """What heads without any preference would answer. Next to a large bias or mean, all that W does may be small."""
    return np.ravel(X.mean(axis=1) @ np.sum([head.v for head in learned.model.heads], axis=0) + learned.model.bias)


def answer_errors(oracle: Oracle, learned: LearnedMultiHead, largest: np.ndarray) -> np.ndarray:
    """How far rounding and the promise let answers of that size be off."""
    size = largest + abs(float(np.ravel(learned.model.bias)[0]))
    return ANSWER_ROUNDINGS * oracle.roundoff * size + PROMISED * (oracle.tolerance + oracle.rtol * largest)


def largest_in_turn(answers: np.ndarray, turns: int) -> np.ndarray:
    """For each answer the largest of those to tokens of the same length."""
    size = np.abs(answers)
    return np.array([size[i % turns :: turns].max() for i in range(len(size))])


def refused(oracle: Oracle, learned: LearnedMultiHead) -> float:
    """The largest error of an answer, over the largest part of one that heads have chosen."""
    size = float(np.median([head.W_norm for head in choosy(learned)] or 0.0))
    asked = (learned.accuracy or 0.0) / size if size > 0 else 0.0
    return max(REFUSED_SHARE, ROUNDOFF_TIMES * oracle.roundoff, LARGEST_SCORES * asked)


def unusual(residual: float, oracle: Oracle, times: float = 1.0) -> bool:
    return oracle.exact and residual > min(times * USUAL_RESIDUAL[0] * oracle.roundoff, USUAL_RESIDUAL[1])


def warning(residual: float, oracle: Oracle) -> str:
    if not unusual(residual, oracle, WARNED_TIMES):
        return ""
    return (
        f"some heads may have come out as one: they answer fresh queries within {residual:.1e} only, and what differs "
        "by less is merged"
    )


def less_than_usual(residual: float, oracle: Oracle) -> str:
    if not unusual(residual, oracle):
        return ""
    return (
        ", which is less than usual: heads are crowded, or so alike that some were merged within a tolerance of "
        f"{residual:.1e}"
    )


def typical_tokens(learned: LearnedMultiHead, reach: float) -> np.ndarray:
    """The token length at which the scores of a typical head differ by a few units; several, where heads differ so much
    that one length would leave some of them with equal weights or saturated. The mean has none, so that any will do."""
    heads = choosy(learned)
    sizes = np.sort([head_length(head) for head in heads])
    if len(sizes) == 0:
        return np.array([1.0, reach]).clip(max=reach)
    groups = np.split(sizes, np.flatnonzero(np.diff(np.log(sizes)) > np.log(LENGTHS_APART)) + 1)
    return np.minimum([np.median(group) for group in groups], reach)


def choosy(learned: LearnedMultiHead) -> list:
    """The heads that prefer some token to another."""
    return [head for head in learned.model.heads if head.W_norm > 0 or head.has_key_bias]


LENGTH_STEPS, STEP_TOKENS = 8, 3  # lengths to look at, and the tokens of each sequence
SHORTEST_CHECKED, LONGEST_CHECKED = 1e-6, 0.25  # of the usual length, and of the longest
# Of v, and of W and a key bias: what may be unknown although the usual tokens agree.
UNSEEN_VALUES, UNSEEN_SCORES = 1e-9, 1e-6
WORSE_TIMES = 10.0  # times the residual there, where that is more


def check_heads_everywhere(oracle: Oracle, learned: LearnedMultiHead, rng: np.random.Generator) -> HeldOut:
    """The held-out check, and `LENGTH_STEPS` queries more where that finds nothing wrong.

    Heads that the budget does not suffice to check are known as `unchecked`.
    """
    try:
        check = check_held_out_heads(oracle, learned, rng)
        return check if check.evidence is not None else check_all_lengths(oracle, learned, check, rng)
    except BudgetExceeded as error:
        error.known["unchecked"] = learned
        raise


def check_all_lengths(oracle: Oracle, learned: LearnedMultiHead, check: HeldOut, rng: np.random.Generator) -> HeldOut:
    reach = oracle.reach
    usual = typical_tokens(learned, reach)
    lengths = np.geomspace(SHORTEST_CHECKED * usual.min(), max(LONGEST_CHECKED * reach, usual.max()), LENGTH_STEPS)
    X = lengths[:, None, None] * unit_scale(rng.standard_normal((LENGTH_STEPS, STEP_TOKENS, oracle.dim)))
    answers, expected = oracle(X), np.ravel(learned.model(X))
    compared = Compared(list(X), answers, expected, slack(oracle, learned, X, answers, check.residual or 0.0))
    return replace(check, evidence=compared.evidence(ALL_LENGTHS), compared=check.compared + len(X))


def slack(oracle: Oracle, learned: LearnedMultiHead, X: np.ndarray, answers: np.ndarray, residual: float) -> np.ndarray:
    """How far each answer may be off. What is not known of scores grows with the tokens, unlike at the usual length."""
    heads = learned.model.heads
    chosen = np.abs(answers - mean_answers(learned, X)) + sum(np.abs(preferred(head, X)) for head in heads)
    values = np.max([np.abs(X @ head.v).max(axis=1) for head in heads], axis=0)
    share = max(ROUNDOFF_TIMES * oracle.roundoff, unknown(oracle, learned, residual))
    moved = sum(unsure(head, X, max(UNSEEN_SCORES, share)) for head in heads)
    return max(UNSEEN_VALUES, share) * chosen + moved + answer_errors(oracle, learned, values + np.abs(answers))


def unknown(oracle: Oracle, learned: LearnedMultiHead, residual: float) -> float:
    """The share of all scores that answers to the usual tokens leave open: beside a large bias or mean, more."""
    length = float(typical_tokens(learned, oracle.reach).min())
    chosen = sum(float(np.linalg.norm(head.v)) for head in choosy(learned)) * length
    values = sum(float(np.linalg.norm(head.v)) for head in learned.model.heads) * length
    size = values + abs(float(np.ravel(learned.model.bias)[0]))
    return (WORSE_TIMES * residual + ANSWER_ROUNDINGS * oracle.roundoff) * size / chosen if chosen > 0 else 0.0


def preferred(head: Attention, X: np.ndarray) -> np.ndarray:
    """What a head adds to the mean of the tokens."""
    return np.asarray(head(X) - X.mean(axis=1) @ head.v)


def unsure(head: Attention, X: np.ndarray, share: float) -> np.ndarray:
    """By how much an answer may move if that share of W and of the key bias is unknown.

    Scores off by at most e move a softmax by `exp(2e) - 1` at most; and by what e leaves of all but the largest weight.
    """
    W, bias = head.W_norm, float(np.linalg.norm(head.key_bias))
    norms = np.linalg.norm(X, axis=2)
    queries = W + bias**2 if W > 0 else 0.0  # a key that never changes is no reading of W, so it has no error
    off = share * norms.max(axis=1) * (queries * norms[:, -1] + bias + np.sqrt(W))
    scores = np.sort(np.einsum("bnd,bd->bn", X, X[:, -1] @ head.W.T + head.key_bias), axis=1)
    others = X.shape[1] * np.exp(np.clip(2 * off - (scores[:, -1] - scores[:, -2]), -700.0, 0.0))
    values = X @ head.v
    half_range = (values.max(axis=1) - values.min(axis=1)) / 2
    return half_range * np.minimum(np.expm1(np.minimum(2 * off, 1.0)), 2 * others)


BLURRED_HEAD = 1e-3  # of what a head shows: its W is known about as well, and worse is no recovery


def check_held_out_outputs(oracle: Oracle, learned: LearnedCombined, rng: np.random.Generator) -> HeldOut:
    """As many queries as for one output. The worst one counts, and is named in the evidence."""
    sizes = typical_tokens(learned, oracle.reach)
    fresh = read_fresh(oracle, sizes, rng)
    promise, largest, checks = learned.promise, float(np.abs(fresh.got).max()), []
    for output, garbage in enumerate(learned.garbage):
        one, bias = replace(learned, model=only(learned.model, output)), float(learned.model.bias[output])
        part = Fresh(fresh.batches, fresh.got[:, output] - bias, fresh.again[:, output] - bias)
        tolerance, others = float(promise.tolerance[output]), largest if garbage else 0.0
        seen = OneOutput(oracle, output, bias, tolerance, promise.rtol, others)
        check = judged_heads(part, one, seen, len(sizes))
        checks.append(replace(check, residual=0.0) if garbage else check)
        if check.evidence is not None:
            law = f"{check.evidence.law}, as output {output} less its bias"
            return replace(check, evidence=replace(check.evidence, law=law))
    refuse_blurred_heads(learned, fresh)
    return max(checks, key=lambda check: check.residual or 0.0)


def refuse_blurred_heads(learned: LearnedCombined, fresh: Fresh) -> None:
    """Refuses where answers are off by more than a head shows in any output: then they say nothing about its W."""
    off = np.abs(fresh.got - fresh.each(learned.model)).max(axis=0)
    for head in learned.model.heads:
        shown = np.abs(fresh.each(partial(head_part, head))).max(axis=0)
        blurred = float(np.divide(off, shown, out=np.full_like(off, np.inf), where=shown > 0).min())
        if blurred > BLURRED_HEAD:
            faint = f"{float(np.linalg.norm(head.v) / np.linalg.norm(learned.model.v)):.1g} of all values"
            raise AccuracyUnreachable(
                f"fresh answers are off by {blurred:.1g} of all that a head with {faint} shows in them, and more than "
                f"{BLURRED_HEAD:g} says too little about its W: the box's numbers have too few digits for it",
                learned,
            )


def head_part(head: Attention, X: np.ndarray) -> np.ndarray:
    """What a head adds to the mean of the tokens; one that takes the mean itself has only that to show."""
    return preferred(head, X) if head.W_norm > 0 or head.has_key_bias else X.mean(axis=1) @ head.v


def only(model: MultiHead, output: int) -> MultiHead:
    """The heads with that output alone, and no bias."""
    return MultiHead([head.with_values(head.v[:, output]) for head in model.heads])
