"""The judge: is what was found what the box does, where users look? One rule for every family, after its own check.

Ordinary sequences are asked, of 1 to 64 tokens: of the size that users send, of the size at which the scores found
neither vanish nor saturate, and of larger ones. A result stands if every answer is as predicted within a small part of
the range of answers, beyond what was promised about them and what the bounds leave open: an error level that does not
depend on the misfit. Answers further off than 5% of their range, or than a tenth of what attention does to them, say
too little about W whatever the reason, and the result is refused as `AccuracyUnreachable`. So is one that knows
nothing: a bound no smaller than W, a head that shows in no answer, or, unless bounds are proved, an answer that is off
by a tenth of the largest.

The error of the box's arithmetic is measured, not guessed from the format of its answers: where answers are typically
further off than bounds allow, the bounds are widened by as much, and are statistical from then on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np

from .._errors import ALSO_ELSEWHERE, EVERYWHERE, AccuracyUnreachable, NotConverged
from .._learned import HeldOut, Learned
from .._limits import PROVED
from .._models import Block, FrontHead
from .._oracles import Oracle
from .answered import OF_RANGE, VOID, Answered, apart, ask_by_length, read_groups, with_doubts
from .bounds import (
    check_law_of_odds,
    check_promise,
    read_more_of_users,
    strayed,
    with_bounds_behind,
    with_bounds_of_residual,
    with_bounds_of_users,
    with_true_bounds,
)
from .compared import Compared
from .held_out import CHECKING, with_sequences
from .ordinary import JUDGED_LENGTHS, SINGLES, SUITED, USERS, gaussian_sequences, ordinary_sequences, with_doubted
from .signs import check_sides_everywhere

OF_ATTENTION = 0.1  # of what attention adds to the plain mean: a check that allows more passes nearly anything
SEEN_CHANGE = 2.0  # times the error of an answer: what W off by a tenth must change somewhere
# Of the largest answer, beyond what was promised; the latter though a proved bound excuses it.
MOST_OFF, MOST_OFF_PROVED = 0.1, 0.5
# Of the same, promised or not, where nothing but the answers says how well W is known; where fresh tokens do.
UNBOUNDED_FAR, READ_AGAIN_FAR = 0.02, 0.05
SPREADS = 6.0  # times typical noise, over the root of their number: what it makes of the middle
FEWEST_DECIDED = 4  # answers that bounds decide: a box that is another one on half of all sequences would have shown
TOO_FEW_DIGITS = "the answers have too few digits for this box"
NEARLY_ALL = 0.9  # of the answers to sequences of a size: a few may be closer to a tie than anything can be known


def check_everywhere(
    oracle: Oracle,
    learned: Learned,
    held: HeldOut,
    rng: np.random.Generator,
    doubted: Sequence[np.ndarray] = (),
) -> tuple[Learned, HeldOut]:
    """What is found, with bounds that hold, and what fresh queries say of it. An oracle that averages asks each again
    and again; but for that the queries are

    - `JUDGE_QUERIES` ordinary sequences, 46 or, where answers are yes and no, 130, where they are narrow 102, and those
      that are `doubted`, by another family or by the check before;
    - where answers are averages, all of these once more without;
    - where predictions ask the box, no single tokens: of a block the other 42, three times each, as they are, without
      attention and as the model has it; of a head in front of a network twice;
    - of a head alone `ODDS_QUERIES` = 8, as 2 probes of 4; where it is in doubt 32, as 8 of 4, or 48, as 8 of 6, where
      its arithmetic is measured; 96, as 16 of 6, where its answers are narrow, too, and 288 more, as 48 of 6, where
      these misfit;
    - of a head in front of a network, where it is in doubt, 72, as 8 probes of 9, and 16 more without a promise;
    - of a promise that bounds follow from, 8 answers at most again, and 39 more where it is doubted, or 84 where
      an answer is by far not as promised;
    - where answers are yes and no, instead of all these what `check_sides_everywhere` asks.
    """
    oracle.stage = CHECKING
    refuse_unbounded(oracle, learned, held)
    kinds = with_doubted(ordinary_sequences(oracle, learned, rng), oracle, learned, (*held.left, *doubted))
    if oracle.answers == "sign":
        return learned, check_sides_everywhere(oracle, learned, held, kinds, rng)
    groups = read_groups(oracle, learned, held, kinds, rng)
    if (broken := check_law_of_odds(oracle, learned, groups, rng)) is not None:
        return learned, replace(held, evidence=broken)
    if learned.measurable and not oracle.exact:
        if (broken := check_promise(oracle, learned, held, groups, rng)) is not None:
            return learned, replace(held, evidence=broken)
        groups = read_more_of_users(oracle, learned, held, groups, rng)
    elif learned.measurable:
        if (found := with_true_bounds(learned, groups)) is not learned:
            learned, groups = found, with_doubts(groups, found, held, rng)
            refuse_unbounded(oracle, learned, held)
    elif learned.bound is not None:
        seen = with_bounds_behind(learned, groups)
        groups = with_doubts(groups, seen, held, rng)
        learned = max(learned, seen, key=lambda each: each.bound or 0.0)
        refuse_unbounded(oracle, learned, held)
    # Where answers are averages, users get single ones: these count, too, within the noise that was measured.
    once = [] if oracle.once is None else read_groups(oracle.once, learned, held, kinds, rng)
    compared = [group.compared for group in (*groups, *once)]
    allowed = np.concatenate([group.allowed_share for group in groups] or [[]])
    residual = max((group.compared.residual(group.largest) for group in (*groups, *once)), default=0.0)
    check = with_sequences(held, allowed[np.isfinite(allowed)], residual, compared[: len(groups)])
    law = ALSO_ELSEWHERE if oracle.exact and not oracle.narrow else EVERYWHERE
    evidence = next((found for each in compared if (found := each.evidence(law)) is not None), None)
    if evidence is None and learned.measurable:
        evidence = strayed(learned, held, groups, rng)
    if evidence is not None:
        return learned, replace(check, evidence=evidence, checked=None)
    if not learned.measurable:
        learned = with_bounds_of_residual(learned, residual)
    else:
        learned = with_bounds_of_users(oracle, learned, groups)
    refuse_unbounded(oracle, learned, held)
    refuse_undecided(learned, check, allowed)
    beyond = () if learned.averaged else beyond_users(oracle, learned)
    refuse_void(learned, check, [group for group in groups if group.kind.name not in beyond])
    refuse_unseen(learned, check, groups, rng)
    refuse_far(learned, check, groups)
    refuse_shifted(learned, check, groups)
    return learned, check


A_FEW = 2, 3, 5, 8  # the lengths of a first look


def check_a_few(oracle: Oracle, learned: Learned, rng: np.random.Generator) -> bool:
    """Whether a few sequences of users' size are answered as predicted: a first look, for learners that can go on."""
    X = gaussian_sequences(oracle, A_FEW, np.ones(len(A_FEW)), rng)
    got, want = ask_by_length(oracle, X), ask_by_length(learned.model, X)
    level = oracle.tolerance + (oracle.rtol + OF_RANGE) * np.abs(got).max()
    return bool(np.abs(got - want).max() <= level)


LONGER_SEQUENCES = 6  # of more tokens than the judge asks about


def check_longer(oracle: Oracle, model: Any, most: int, rng: np.random.Generator) -> Compared:
    """Answers to ordinary sequences of more tokens than that, up to so many, and what the model predicts, if it does:
    within 1% of their range, as the judge has it."""
    lengths = np.ceil(np.linspace(most, JUDGED_LENGTHS[-1], LONGER_SEQUENCES, endpoint=False)).astype(int).tolist()
    X = [x for x in gaussian_sequences(oracle, lengths, np.ones(LONGER_SEQUENCES), rng) if is_told(oracle, model, x)]
    if not X:
        raise NotConverged(f"what was found predicts no answer to more than {JUDGED_LENGTHS[-1]} tokens")
    got, want = ask_by_length(oracle, X), ask_by_length(model, X)
    return Compared(X, got, want, oracle.tolerance + OF_RANGE * float(np.ptp(got, axis=0).max()))


def is_told(oracle: Oracle, model: Any, x: np.ndarray) -> bool:
    """Whether the model predicts the answer to x: what it asks instead, if it does, has to be sent."""
    if isinstance(model, FrontHead):
        return model.can_shorten(x)
    return not isinstance(model, Block) or bool(np.linalg.norm(model.single_token(x)) <= oracle.reach)


def refuse_unbounded(oracle: Oracle, learned: Learned, held: HeldOut) -> None:
    """Refuses what knows nothing: a bound that is no smaller than W, or than a tenth of it behind an unknown network;
    for W = 0, one that would not notice a W that moves scores of ordinary tokens by one."""
    if learned.bound is None:
        return
    model: Any = learned.model  # what has a bound has a W
    W = float(np.linalg.norm(model.W))
    longest = min(np.sqrt(oracle.dim), oracle.reach)
    if W > 0 and not learned.bound < W * (1.0 if learned.one_head else OF_ATTENTION):
        refuse_few_digits(
            f"a W of norm {W:.2g} was found, within {learned.bound:.2g}, which says nothing", learned, held
        )
    if W == 0 and not learned.bound * longest**2 <= 1:
        refuse_few_digits(
            f"W cannot be told from 0, nor from anything up to {learned.bound:.2g} in norm", learned, held
        )


def refuse_few_digits(say: str, learned: Learned, check: HeldOut) -> NoReturn:
    raise AccuracyUnreachable(f"{say}: {TOO_FEW_DIGITS}", replace(learned, check=check))


def refuse_undecided(learned: Learned, check: HeldOut, allowed: np.ndarray) -> None:
    """Refuses where bounds leave nearly all answers open, and next to nothing was compared; or all of them, where
    bounds can be measured and answers were held against what is left of these."""
    decided = int(np.isfinite(allowed).sum())
    if decided < (1 if learned.measurable else FEWEST_DECIDED) <= len(allowed):
        refuse_few_digits(f"bounds leave all but {decided} of {len(allowed)} fresh answers open", learned, check)


def beyond_users(oracle: Oracle, learned: Learned) -> tuple[str, ...]:
    """Whose sequences say nothing about how answers to those of users are off: single tokens, and longer keys."""
    return (SINGLES, SUITED) if learned.levers(oracle)[0] > 1 else (SINGLES,)


def refuse_void(learned: Learned, check: HeldOut, groups: list[Answered]) -> None:
    """Refuses where answers are off by too large a share of their range, for tokens of a size at which bounds leave
    less open than that, or else for those of every size; or by too large a share of what attention does to them. An
    average of passes is known better than answers are, so that those of one size have to do."""
    known = [group for group in groups if np.median(group.allowed) < np.inf or not learned.measurable]
    known = [] if learned.averaged else known
    shares = [float(np.quantile(group.share, NEARLY_ALL)) for group in known or groups]
    share = (max if known else min)(shares, default=1.0)
    if share > VOID:
        refuse_few_digits(f"answers are off by {share:.0%} of their range", learned, check)
    shares = [float(np.sqrt(np.mean(g.off**2) / np.mean(g.chosen**2))) for g in groups if np.any(g.chosen)]
    if shares and min(shares) > OF_ATTENTION:
        refuse_few_digits(f"answers are off by {min(shares):.0%} of what attention does to them", learned, check)


def refuse_unseen(learned: Learned, check: HeldOut, groups: list[Answered], rng: np.random.Generator) -> None:
    """Refuses where a head's scores, off by a tenth, would change no answer by more than those of its kind are off
    anyway, each seen by the size of its tokens."""

    def shows(model: Any, group: Answered) -> bool:
        changed, error = apart(model, group.X, group.want), np.maximum(group.off, group.level)
        return bool(
            np.max(changed / group.kind.sizes) > SEEN_CHANGE * np.sqrt(np.mean((error / group.kind.sizes) ** 2))
        )

    for h, model in enumerate(learned.hidden(OF_ATTENTION, rng)):
        if not any(shows(model, group) for group in groups):
            refuse_few_digits(f"one head, number {h + 1} of those found, shows in no answer", learned, check)


def refuse_far(learned: Learned, check: HeldOut, groups: list[Answered]) -> None:
    """Refuses where an answer is off by so much that ten times as much, which a residual leaves open for others, is as
    large as any of them. Bounds may excuse it, by a near tie say, and the box may be another one all the same; bounds
    that were proved say what they leave open, up to half of the largest answer, from where on the residual says that
    next to nothing is known. Of an average of passes those of one size have to do."""
    most = READ_AGAIN_FAR if learned.read_again else UNBOUNDED_FAR
    if learned.bound is None and (share := check.residual or 0.0) > most:
        refuse_few_digits(
            f"an answer is off by {share:.0%} of the largest, and no bound says how well W is known", learned, check
        )
    off = [float(np.max(group.off - group.level)) / group.largest for group in groups if group.largest > 0]
    proved = learned.bound is not None and (learned.confidence or 0.0) >= PROVED
    if proved and not learned.averaged:  # that is what the residual says to those who read it
        off.append(check.residual or 0.0)
    if (furthest := (min if learned.averaged else max)(off, default=0.0)) > (MOST_OFF_PROVED if proved else MOST_OFF):
        refuse_few_digits(f"an answer is off by {furthest:.0%} of the largest", learned, check)


def refuse_shifted(learned: Learned, check: HeldOut, groups: list[Answered]) -> None:
    """Refuses an average of passes by which all answers to users are off the same way, beyond what their noise makes of
    the middle one, by half of their range: a wrong answer now and then moves the bias, and hardly W."""
    for group in groups if learned.averaged else ():
        off = group.got - group.want
        shift = np.median(off, axis=0)
        unsure = SPREADS * np.median(np.abs(off - shift), axis=0) / np.sqrt(len(off))
        share = float(np.max((np.abs(shift) - unsure) / np.maximum(np.ptp(group.want, axis=0), np.finfo(float).tiny)))
        if group.kind.name == USERS and share > MOST_OFF_PROVED:
            refuse_few_digits(f"all answers are off the same way, by {share:.0%} of their range", learned, check)
