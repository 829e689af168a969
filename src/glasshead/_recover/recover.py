"""`gh.recover`, from its arguments to a result: as one family, or as one after the other that answers suggest."""

from __future__ import annotations

import warnings
from contextlib import nullcontext
from dataclasses import replace
from os import PathLike

import numpy as np

from .._checks import find_cause_of, find_rounded_tokens, find_unsteady
from .._errors import HeadsMerged, NotConverged, NotIdentifiable, TargetMismatch, Tried
from .._families import FAMILIES, SINGLE_HEAD
from .._journal import journalled
from .._models import Norm
from .._oracles import (
    Answering,
    Oracle,
    Report,
    Unplaced,
    as_oracle,
    bar,
    guarded,
    read_first_answers,
)
from .._recognise import (
    LAST_RESORT,
    Failure,
    Tries,
    find_families,
    find_next,
    raised_instead,
    raised_nevertheless,
)
from .._recovery import Recovery
from .._types import no_type_check
from .arguments import (
    Wanted,
    expected_queries,
    family_without_look,
    require_arguments,
    require_network_choice,
    settings,
)
from .one_family import Outcome, recover_as
from .refusal import add_notes, within_plan
from .surroundings import check_with_places, find_unplaced, recover_inside, recover_without_places


@no_type_check
def recover(
    oracle: Oracle | Answering,
    *,
    family: str = "auto",
    rank: int | None = None,
    accuracy: float | None = None,
    budget: int | None = None,
    journal: str | PathLike[str] | None = None,
    norm: Norm | str | None = "auto",
    residual_map: str | None = "identity",
    network: bool = False,
    places: int | None = None,
    seed: int = 0,
    progress: Report | bool | None = None,
) -> Recovery:
    """Recover the model behind `oracle` from queries alone.

    >>> import glasshead as gh
    >>> target = gh.Attention.random(16, seed=1)
    >>> found = gh.recover(gh.ValueOracle(target))
    >>> gh.distance(found.model, target) < 1e-13, found.queries <= gh.plan(16)
    (True, True)

    `oracle` is a `gh.Oracle`, or a `gh` model to be wrapped in one. Every result was checked on fresh queries, of 1 to
    64 tokens, or 2 to 8 where a network behind the head stays unknown; a box that is not of the family raises
    `TargetMismatch` with the evidence, one that hides its parameters `NotIdentifiable`. `family="auto"` finds out what
    the box is: "attention", "multi-head" (a sum of heads), "transformer" (a two-layer ReLU network behind the head) or
    "any-network" (anything behind it), or "block" (several heads and a residual connection with anything behind them,
    from answers of as many numbers as a token has). `rank` is discovered unless given; `accuracy` is the largest
    acceptable `||W_hat - W||_F`, which can save queries where W is nearly of low rank; `budget` is the most queries to
    ask; `journal` is the path of a file that keeps every answer before it is used: the same call again resumes a run
    that was stopped; `progress` is True for a bar or a callable `(done, planned, what)`. The same seed asks the same
    queries. Where the box normalises its tokens before the head, "any-network" finds that out, eps included, unless
    `norm` says it: a `gh.Norm`, or None for no normalisation. Of the residual connection of a "block" it is assumed
    that it adds the last token as it is, unless `residual_map=None`: value maps are then known up to one invertible
    map. With `network=True` the network inside a block is recovered after its heads, where norms stand in front of
    both or behind both: `found.model.network` is a `gh.TwoLayer`, and the block, or a language model of one block,
    answers by itself. Position vectors that are added to tokens in front of a block with a norm are found at 64 places,
    or as many as `places` says, which also has them looked for in front of one head: the model is a `gh.Placed`.

    From a `gh.SignOracle`, which says only yes or no, v and the bias are found up to a positive factor, v with norm 1,
    and "auto" means "attention". It takes as many queries per free parameter as `accuracy` asks for bits, or 40.
    """
    wanted = Wanted(as_oracle(oracle), family, rank, accuracy, norm, residual_map, seed, places)
    require_arguments(wanted, budget, journal, progress)
    require_network_choice(network, family)
    kept = nullcontext((wanted.box, None)) if journal is None else journalled(wanted.box, journal, settings(wanted))
    with bar() if progress is True else nullcontext(progress or None) as report, kept as (asked, file):
        with guarded(asked, budget, report) as box:
            box.expect(expected_queries(wanted, FAMILIES.get(family, SINGLE_HEAD)))
            found, warning, seen = recover_or_say(box, wanted)
            inside = FAMILIES[found.family].inside if network else None
            found = recover_inside(inside, seen, found, wanted) if inside else found
            found = check_with_places(found, seen, wanted) if isinstance(seen, Unplaced) else found
        if file is not None and file.said:
            found = replace(found, reason=f"{found.reason}; {file.said}")
    if warning:
        warnings.warn(warning, HeadsMerged, stacklevel=2)
    return found


def recover_or_say(box: Oracle, wanted: Wanted) -> tuple[Recovery, str, Oracle]:
    """What was found, what to warn of, and the box it was found of: tried once more where it turns out that the box
    rounds its tokens, and without position vectors where these are what makes the order matter. A refusal says why, if
    that can be found out."""
    tried = Tried.of(recover_once, box, wanted)
    refusal = tried.refusal
    if isinstance(refusal, NotIdentifiable):
        find_unsteady(refusal, box, wanted.seed)
    elif isinstance(refusal, TargetMismatch | NotConverged):
        if find_rounded_tokens(box):
            return *recover_again(box, wanted, refusal), box
        if find_cause_of(refusal, box, wanted.seed):
            unplaced = find_unplaced(box, wanted, refusal)
            return *recover_without_places(recover_once, unplaced, wanted, refusal), unplaced
    return *tried.result(), box


def recover_again(box: Oracle, wanted: Wanted, first: TargetMismatch | NotConverged) -> Outcome:
    """What is found once it is known that tokens are rounded. The box may round its answers instead: then what was seen
    `first` counts."""
    tried = Tried.of(recover_once, box, wanted)
    if isinstance(tried.refusal, TargetMismatch | NotConverged):
        find_cause_of(first, box, wanted.seed)
        raise first from tried.refusal
    return tried.result()


def recover_once(box: Oracle, wanted: Wanted) -> Outcome:
    family = family_without_look(wanted)
    return recover_recognised(box, wanted) if family is None else recover_as(box, wanted, family)


def recover_recognised(oracle: Oracle, wanted: Wanted) -> Outcome:
    """Try what a few answers suggest; where a family does not fit, what its failure suggests."""
    start = oracle.queries
    opening = read_first_answers(oracle, np.random.default_rng(wanted.seed))
    guess = find_families(oracle, opening, wanted.seed, wanted.rank is None and wanted.accuracy is None)
    tries = Tries()
    while True:
        family = guess.families[0]
        try:
            with within_plan(oracle, family, guess is LAST_RESORT, opening.outputs, start) as asked:
                found, warning = recover_as(asked, wanted, family, opening, guess.words, tries.doubted)
        except (TargetMismatch, NotIdentifiable, NotConverged) as error:
            tries = tries.then(Failure(guess, error, any_rank=wanted.rank is None))
            opening = replace(opening, known=tries.known)
            guess = find_next(oracle, tries, opening, wanted.seed)
            if guess.families:
                continue
            if (earlier := raised_instead(tries)) is not None:
                raise earlier from error
            add_notes(error, tries.families, wanted.rank, oracle.dim, opening.outputs)
            raise
        if (earlier := raised_nevertheless(tries, guess, oracle, found)) is not None:
            raise earlier
        return found, warning
