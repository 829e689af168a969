"""The head in front of an unknown network: W and key bias, whatever the network does with the attention output.

Sequences with the same last token and the same attention output are answered alike. Finding such pairs shows scores
(`_meters.matching`); what the network makes of the attention output is never learned. Tokens may be normalised before
they reach the head (`normalisation`); then W is for normalised tokens.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Literal

import numpy as np

from ..._checks import check_ordinary_tokens
from ..._errors import BudgetExceeded, NotIdentifiable, TargetMismatch
from ..._learned import LearnedFront
from ..._limits import Goal
from ..._models import Norm
from ..._oracles import Normalised, Oracle
from .normalisation import find_norm, read_eps_again
from .signs import learn_from_signs
from .values import learn_from_values

ROUGH = 1e-4  # of eps: if it may be off by more it is read again, where the head says what shows it


def learn_any_network(
    oracle: Oracle,
    rng: np.random.Generator,
    rank: int | None = None,
    accuracy: float | None = None,
    norm: Norm | Literal["auto"] | None = "auto",
    bits: int | None = None,
) -> LearnedFront:
    """Recover W and key bias of the head in front of an unknown network: about seven queries for each score.

    `norm` says how the box normalises its tokens before the head, if it does; "auto" finds out, eps included, but not
    from yes and no. There each score takes two bisections of `bits` queries, 40 by default or as many as `accuracy`
    asks for. The result was checked on fresh queries: `check.evidence` is None where it passed.
    """
    goal, known = Goal(rank, accuracy, bits), {}
    try:
        learned = learn_through_norm(oracle, rng, goal, norm, known)
    except BudgetExceeded as error:
        error.known = known | error.known
        raise
    return learned


def learn_through_norm(
    oracle: Oracle, rng: np.random.Generator, goal: Goal, norm: Norm | Literal["auto"] | None, known: dict
) -> LearnedFront:
    """The head and what it is behind: the norm that is given, one that is found, or none."""
    if norm is None:
        return learn_front(oracle, rng, goal, known)
    if norm != "auto":
        return learn_behind_norm(oracle, norm, 0.0, rng, goal, known)
    oracle.stage = "looking for a normalisation"
    found, error = (None, 0.0) if oracle.answers == "sign" else find_norm(oracle, rng)
    if found is not None:
        with suppress(NotIdentifiable, TargetMismatch):
            learned = learn_behind_norm(oracle, found, error, rng, goal, known)
            if check_ordinary_tokens(oracle, learned.model, rng):
                return learned
        # It only looked like a normalisation.
    return learn_front(oracle, rng, goal, known)


def learn_front(oracle: Oracle, rng: np.random.Generator, goal: Goal, known: dict) -> LearnedFront:
    return (learn_from_signs if oracle.answers == "sign" else learn_from_values)(oracle, rng, goal, known)


def learn_behind_norm(
    oracle: Oracle, norm: Norm, eps_error: float, rng: np.random.Generator, goal: Goal, known: dict
) -> LearnedFront:
    """The head as seen from behind the normalisation, with W for normalised tokens and a model for those in front."""
    rough = eps_error > ROUGH
    seen = Normalised(oracle, norm, 0.0 if rough else eps_error)
    learned = learn_front(seen, rng, goal.within(seen.dim), known)
    if rough:
        eps_error = min(eps_error, read_eps_again(seen, learned, rng))
    evidence = learned.check.evidence
    if evidence is not None:
        evidence = replace(evidence, query=seen.tokens(evidence.query))
    model = learned.model.within(seen.basis, norm, oracle)
    # Lengths of normalised tokens are off by half the error of eps, and W multiplies two of them.
    bound = learned.bound + eps_error * model.W_norm
    bound_key_bias = learned.bound_key_bias + eps_error * float(np.linalg.norm(model.key_bias))
    check = replace(learned.check, evidence=evidence)
    return replace(learned, model=model, bound=bound, bound_key_bias=bound_key_bias, check=check)
