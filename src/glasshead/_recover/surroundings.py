"""What stands around the heads that were found: the network behind them, if it is asked for, and position vectors in
front of them, without which a box is recovered and with which it is handed back."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np

from .._checks import check_longer
from .._errors import (
    EVERYWHERE,
    AccuracyUnreachable,
    BudgetExceeded,
    GlassheadError,
    NotConverged,
    NotIdentifiable,
    TargetMismatch,
)
from .._families import AUTO, SINGLE_HEAD, resolve
from .._learned import STAYS_A_BOX
from .._limits import confidence_of, would_pass
from .._models import Placed
from .._oracles import PLACES, Oracle, Unplaced, find_places
from .._recognise import half_the_digits
from .._recovery import Recovery
from .arguments import Wanted


def find_unplaced(box: Oracle, wanted: Wanted, refusal: GlassheadError) -> Unplaced:
    """The box without position vectors, where these are what makes the order of its tokens matter; or the first
    refusal, which then also says why there are none."""
    box.stage = "finding positions"
    try:
        if wanted.accuracy is not None:
            raise NotConverged("nothing bounds how far off they would be: leave accuracy= out")
        if not box.exact:
            raise NotConverged("they are looked for in answers without tolerance= and rtol= only")
        found = find_places(box, np.random.default_rng(wanted.seed), wanted.places)
        if found.one_head and wanted.family not in (AUTO, SINGLE_HEAD.name):
            raise NotConverged(f"they stand in front of one head, not of family {wanted.family!r}")
        return found
    except (TargetMismatch, NotConverged, NotIdentifiable) as error:
        refusal.args = (f"{refusal.args[0]}; no vectors in front were found: {error}",)
        raise refusal from error


def recover_without_places(
    recover_once: Callable[[Oracle, Wanted], tuple[Recovery, str]],
    box: Unplaced,
    wanted: Wanted,
    refusal: GlassheadError,
) -> tuple[Recovery, str]:
    """What is found behind them; where nothing is, the first refusal says that, too."""
    try:
        family = SINGLE_HEAD.name if box.one_head else wanted.family
        asked = Unplaced(wanted.box, box.positions, box.outputs, box.one_head)
        found, warning = recover_once(box, wanted._replace(box=asked, family=family))
        # What is allowed beside vectors hides a softly capped head.
        if box.one_head and not half_the_digits(box, found):
            raise NotConverged(f"one head predicts answers to {found.residual or 0.0:.1g} of the largest only")
        return found, warning
    except (TargetMismatch, NotConverged, NotIdentifiable, AccuracyUnreachable) as error:
        refusal.args = (f"{refusal.args[0]}; without vectors of each place, which were found: {error}",)
        raise refusal from error


def check_with_places(found: Recovery, box: Unplaced, wanted: Wanted) -> Recovery:
    """A recovery behind position vectors with these in front, which count as what had to be found, and which nothing
    bounds. So nothing bounds W of one head alone, where answers depend on them; behind a norm fresh tokens were long,
    and hide them."""
    sure = 0.0 if found.checked is None else confidence_of(found.checked.sequences)
    unbounded = {"bound": None, "bound_v": None, "confidence": sure} if box.one_head else {}
    model = Placed(found.model, box.positions)
    counted: Any = copy(found.model)
    placed = replace(
        found,
        model=model,
        queries=box.sent,
        limit=found.limit + -(-box.positions.size // box.outputs),
        **unbounded,
        reason=f"{found.reason}; vectors of {len(box.positions)} places are added to tokens in front"
        + f", which nothing bounds; {would_pass(sure)}" * box.one_head,
    )
    if isinstance(getattr(counted, "behind", None), Unplaced):
        counted.behind = box
        model.ask(wanted.box)
    return placed if len(box.positions) <= PLACES else check_all_places(placed, counted, box, wanted)


def check_all_places(placed: Recovery, model: Any, box: Unplaced, wanted: Wanted) -> Recovery:
    """The recovery with position vectors, after ordinary sequences of more tokens than the judge asks about, up to all
    places: the model answers them without position vectors, and asks the box that counts."""
    try:
        longer = check_longer(box, model, len(box.positions), np.random.default_rng([wanted.seed, PLACES]))
    except BudgetExceeded as error:
        error.known["unchecked"], error.family = placed, placed.family
        raise
    if (evidence := longer.evidence(EVERYWHERE)) is not None:
        say = f"the box is, beyond {PLACES} tokens, not what it is up to there"
        raise TargetMismatch(say, evidence, placed)
    residual = max(placed.residual or 0.0, longer.residual())
    words = f"{placed.reason}; {len(longer.X)} sequences of up to {len(box.positions)} tokens agree to {residual:.1e}"
    return replace(placed, queries=box.sent, residual=residual, reason=words)


def recover_inside(inside: str, box: Oracle, found: Recovery, wanted: Wanted) -> Recovery:
    """What was found, with the network of the block, which `inside` names how to read; a refusal has the heads as the
    best that is known."""
    try:
        whole, words, residual = resolve(inside)(box, found.model, np.random.default_rng(wanted.seed))
    except BudgetExceeded as error:
        error.known["heads"] = found
        raise
    except (NotConverged, TargetMismatch, AccuracyUnreachable) as error:
        error.best = found
        raise
    known = whole.network.parameters + (0 if whole.unembedding is None else whole.unembedding.size)
    more = -(-known // (whole.dim if whole.unembedding is None else whole.unembedding.shape[1]))
    return replace(
        found,
        model=whole,
        queries=box.sent,
        limit=found.limit + more,
        residual=max(found.residual or 0.0, residual),
        reason=found.reason.replace(STAYS_A_BOX, words),
    )
