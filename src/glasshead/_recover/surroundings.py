"""What stands around the heads that were found: the network behind them, if it is asked for, and position vectors in
front of them, without which a box is recovered and with which it is handed back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from .._errors import AccuracyUnreachable, BudgetExceeded, GlassheadError, NotConverged, NotIdentifiable, TargetMismatch
from .._families import resolve
from .._learned import STAYS_A_BOX, WRONG, would_pass
from .._models import Placed
from .._oracles import Oracle, Unplaced, find_places
from .._recovery import Recovery
from .arguments import Wanted


def find_unplaced(box: Oracle, wanted: Wanted) -> Unplaced | None:
    """The box without position vectors, where these are what makes the order of its tokens matter. Nothing bounds how
    far off they are, so that no `accuracy` may be asked for."""
    if wanted.accuracy is not None or box.answers != "value" or not box.exact:
        return None
    box.stage = "finding positions"
    found = find_places(box, np.random.default_rng(wanted.seed), wanted.places)
    return None if found is not None and found.one_head and wanted.family not in ("auto", "attention") else found


def without_places(
    attempt: Callable[[Oracle, Wanted], tuple[Recovery, str]], box: Unplaced, wanted: Wanted, refusal: GlassheadError
) -> tuple[Recovery, str]:
    """What is found behind them; where nothing is, the first refusal says that, too."""
    try:
        family = "attention" if box.one_head else wanted.family
        return attempt(box, wanted._replace(box=Unplaced(wanted.box, box.positions, box.one_head), family=family))
    except (TargetMismatch, NotConverged, NotIdentifiable, AccuracyUnreachable) as error:
        refusal.args = (f"{refusal.args[0]}; without vectors of each place, which were found: {error}",)
        raise refusal from error


def with_places(found: Recovery, box: Unplaced) -> Recovery:
    """A recovery behind position vectors with these in front, which count as what had to be found, and which nothing
    bounds. So nothing bounds W of one head alone, where answers depend on them; behind a norm fresh tokens were long,
    and hide them."""
    outputs = np.size(box(np.zeros((1, 1, box.dim)))[0])
    sure = 0.0 if found.checked is None else 1 - (1 - WRONG) ** found.checked.sequences
    unbounded = {"bound": None, "bound_v": None, "confidence": sure} if box.one_head else {}
    return replace(
        found,
        model=Placed(found.model, box.positions),
        queries=box.sent,
        limit=found.limit + -(-box.positions.size // outputs),
        **unbounded,
        reason=f"{found.reason}; vectors of {len(box.positions)} places are added to tokens in front"
        + f", which nothing bounds; {would_pass(sure)}" * box.one_head,
    )


def recover_inside(box: Oracle, found: Recovery, wanted: Wanted) -> Recovery:
    """What was found, with the network of the block; a refusal has the heads as the best that is known."""
    try:
        read = resolve("_learners.block:with_network")
        whole, words, residual = read(box, found.model, np.random.default_rng(wanted.seed))
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
