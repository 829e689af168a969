"""The held-out check, output by output: each is judged by its own size, on the same fresh queries."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from .._errors import AccuracyUnreachable
from .._learned import HeldOut, LearnedCombined
from .._models import Attention, MultiHead
from .._oracles import OneOutput, Oracle
from .heads import judged_heads, typical_tokens
from .held_out import Fresh, read_fresh

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
    mean = X.mean(axis=1) @ head.v
    return head(X) - mean if head.W_norm > 0 or head.has_key_bias else mean


def only(model: MultiHead, output: int) -> MultiHead:
    """The heads with that output alone, and no bias."""
    return MultiHead([head.with_values(head.v[:, output]) for head in model.heads])
