"""One head with whatever behind it: is there a normalisation before it, and then from values or from yes and no."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Literal

import numpy as np

from .._errors import BudgetExceeded, NotIdentifiable, TargetMismatch
from .._models.norm import Norm
from .._oracle import Oracle
from .layer_norm import normalisation
from .learned_front import Goal, LearnedFront
from .normalised_oracle import Normalised
from .ordinary_tokens import holds_for_ordinary_tokens
from .sign_any_network import learn_from_signs
from .value_any_network import learn_from_values


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
        if norm != "auto":
            return learn(oracle, rng, goal, known) if norm is None else behind_norm(oracle, norm, 0.0, rng, goal, known)
        oracle.stage = "looking for a normalisation"
        found, error = (None, 0.0) if oracle.answers == "sign" else normalisation(oracle, rng)
        if found is not None:
            with suppress(NotIdentifiable, TargetMismatch):
                learned = behind_norm(oracle, found, error, rng, goal, known)
                if holds_for_ordinary_tokens(oracle, learned.model, rng):
                    return learned
            # It only looked like a normalisation.
        return learn(oracle, rng, goal, known)
    except BudgetExceeded as error:
        error.known = known | error.known
        raise


def learn(oracle: Oracle, rng: np.random.Generator, goal: Goal, known: dict) -> LearnedFront:
    return (learn_from_signs if oracle.answers == "sign" else learn_from_values)(oracle, rng, goal, known)


def behind_norm(
    oracle: Oracle, norm: Norm, eps_error: float, rng: np.random.Generator, goal: Goal, known: dict
) -> LearnedFront:
    """The same from behind the normalisation, and the result for tokens in front of it."""
    seen = Normalised(oracle, norm, eps_error)
    learned = learn(seen, rng, goal.within(seen.dim), known)
    evidence = learned.check.evidence
    if evidence is not None:
        evidence = replace(evidence, query=seen.tokens(evidence.query))
    model = learned.model.within(seen.basis, norm, oracle)
    # Lengths of normalised tokens are off by half the error of eps, and W multiplies two of them.
    bound = learned.bound + eps_error * model.W_norm
    bound_key_bias = learned.bound_key_bias + eps_error * float(np.linalg.norm(model.key_bias))
    check = replace(learned.check, evidence=evidence)
    return replace(learned, model=model, bound=bound, bound_key_bias=bound_key_bias, check=check)
