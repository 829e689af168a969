"""What a result must know to be handed back: refusals where bounds, or answers that are off, say too little about W."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NoReturn

import numpy as np

from .._errors import AccuracyUnreachable
from .._learned import HeldOut, Learned
from .._oracles import Oracle
from .ordinary import SINGLES, SUITED, VOID, Answered, apart

OF_ATTENTION = 0.1  # of what attention adds to the plain mean: a check that allows more passes nearly anything
SEEN = 2.0  # times the error of an answer: what W off by a tenth must change somewhere
FAR, PROVED_FAR = 0.1, 0.5  # of the largest answer, beyond what was promised; though a proved bound excuses it
UNBOUNDED_FAR = 0.05  # of the same, promised or not, where nothing but the answers says how well W is known
PROVED = 0.999  # confidence: bounds that follow from a promise, and from a rank that was discovered
FEWEST = 4  # answers that bounds decide: a box that is another one on half of all sequences would have shown
NEARLY_ALL = 0.9  # of the answers to sequences of a size: a few may be closer to a tie than anything can be known


def refuse_unbounded(oracle: Oracle, learned: Learned, held: HeldOut) -> None:
    """Refuses what knows nothing: a bound that is no smaller than W, or than a tenth of it behind an unknown network;
    for W = 0, one that would not notice a W that moves scores of ordinary tokens by one."""
    if learned.bound is None:
        return
    model: Any = learned.model  # what has a bound has a W
    W = float(np.linalg.norm(model.W))
    longest = min(np.sqrt(oracle.dim), oracle.reach)
    if W > 0 and not learned.bound < W * (1.0 if learned.one_head else OF_ATTENTION):
        refuse(f"a W of norm {W:.2g} was found, within {learned.bound:.2g}, which says nothing", learned, held)
    if W == 0 and not learned.bound * longest**2 <= 1:
        refuse(f"W cannot be told from 0, nor from anything up to {learned.bound:.2g} in norm", learned, held)


def refuse(say: str, learned: Learned, check: HeldOut) -> NoReturn:
    raise AccuracyUnreachable(f"{say}: the answers have too few digits for this box", replace(learned, check=check))


def refuse_undecided(learned: Learned, check: HeldOut, allowed: np.ndarray) -> None:
    """Refuses where bounds leave nearly all answers open, and next to nothing was compared; or all of them, where
    bounds can be measured and answers were held against what is left of these."""
    decided = int(np.isfinite(allowed).sum())
    if decided < (1 if learned.measurable else FEWEST) <= len(allowed):
        refuse(f"bounds leave all but {decided} of {len(allowed)} fresh answers open", learned, check)


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
        refuse(f"answers are off by {share:.0%} of their range", learned, check)
    shares = [float(np.sqrt(np.mean(g.off**2) / np.mean(g.chosen**2))) for g in groups if np.any(g.chosen)]
    if shares and min(shares) > OF_ATTENTION:
        refuse(f"answers are off by {min(shares):.0%} of what attention does to them", learned, check)


def refuse_unseen(learned: Learned, check: HeldOut, groups: list[Answered], rng: np.random.Generator) -> None:
    """Refuses where a head's scores, off by a tenth, would change no answer by more than those of its kind are off
    anyway, each seen by the size of its tokens."""

    def shows(model: Any, group: Answered) -> bool:
        changed, error = apart(model, group.X, group.want), np.maximum(group.off, group.level)
        return bool(np.max(changed / group.kind.sizes) > SEEN * np.sqrt(np.mean((error / group.kind.sizes) ** 2)))

    for h, model in enumerate(learned.hidden(OF_ATTENTION, rng)):
        if not any(shows(model, group) for group in groups):
            refuse(f"one head, number {h + 1} of those found, shows in no answer", learned, check)


def refuse_far(learned: Learned, check: HeldOut, groups: list[Answered]) -> None:
    """Refuses where an answer is off by so much that ten times as much, which a residual leaves open for others, is as
    large as any of them. Bounds may excuse it, by a near tie say, and the box may be another one all the same; bounds
    that were proved say what they leave open, up to half of the largest answer, from where on the residual says that
    next to nothing is known. Of an average of passes those of one size have to do."""
    if learned.bound is None and (share := check.residual or 0.0) > UNBOUNDED_FAR:
        refuse(f"an answer is off by {share:.0%} of the largest, and no bound says how well W is known", learned, check)
    off = [float(np.max(group.off - group.level)) / group.largest for group in groups if group.largest > 0]
    proved = learned.bound is not None and (learned.confidence or 0.0) >= PROVED
    if (furthest := (min if learned.averaged else max)(off, default=0.0)) > (PROVED_FAR if proved else FAR):
        refuse(f"an answer is off by {furthest:.0%} of the largest", learned, check)
