"""The held-out check, output by output: each is judged by its own size, on the same fresh queries."""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from dataclasses import replace

import numpy as np

from .._errors import AccuracyUnreachable
from .._learned import HeldOut, LearnedCombined
from .._models import Attention, MultiHead, with_values
from .._oracles import Oracle, Wrapper
from .heads import check_held_out_heads

BLURRED = 1e-3  # of what a head shows: its W is known about as well, and worse is no recovery


class AskedOnce(Wrapper):
    """Answers the same batches in the same order, again and again, for those of the first time."""

    def __init__(self, inner: Oracle):
        super().__init__(inner)
        self.seen: list[tuple[np.ndarray, np.ndarray]] = []
        self.turn = 0

    def __call__(self, X):
        if self.turn == len(self.seen):
            self.seen.append((X, np.asarray(self.inner(X))))
        self.turn += 1
        return self.seen[self.turn - 1][1]

    @property
    def largest(self) -> float:
        return max(float(np.abs(answers).max()) for _, answers in self.seen)


class OneOutput(Wrapper):
    """What one output has beyond its bias, which would drown it. Rounding of the bias is left to allow for, and of the
    other outputs where this one may consist of nothing else."""

    rtol = 0.0  # type: ignore[assignment]

    def __init__(self, inner: AskedOnce, learned: LearnedCombined, output: int):
        super().__init__(inner)
        inner.turn = 0
        self.once, self.output, self.garbage = inner, output, learned.garbage[output]
        self.bias, self.rtol = float(learned.model.bias[output]), learned.promise.rtol
        self.promised = float(learned.promise.tolerance[output])

    @property
    def exact(self) -> bool:
        return self.inner.exact

    @property
    def tolerance(self) -> float:  # type: ignore[override]
        others = self.once.largest if self.garbage else 0.0
        return self.promised + (self.roundoff + self.rtol) * abs(self.bias) + self.roundoff * others

    def __call__(self, X):
        return self.inner(X)[:, self.output] - self.bias


def check_held_out_outputs(oracle: Oracle, learned: LearnedCombined, rng: np.random.Generator) -> HeldOut:
    """As many queries as for one output. The worst one counts, and is named in the evidence."""
    once, checks = AskedOnce(oracle), []
    for output, garbage in enumerate(learned.garbage):
        one = replace(learned, model=only(learned.model, output))
        check = check_held_out_heads(OneOutput(once, learned, output), one, deepcopy(rng))
        checks.append(replace(check, residual=0.0) if garbage else check)
        if check.evidence is not None:
            law = f"{check.evidence.law}, as output {output} less its bias"
            return replace(check, evidence=replace(check.evidence, law=law))
    check_every_head(learned, once)
    return max(checks, key=lambda check: check.residual)


def check_every_head(learned: LearnedCombined, once: AskedOnce) -> None:
    """Refuses where answers are off by more than a head shows in any output: then they say nothing about its W."""
    off = largest(np.abs(answers - learned.model(X)) for X, answers in once.seen)
    for head in learned.model.heads:
        shown = largest(np.abs(shows(head, X)) for X, _ in once.seen)
        blurred = float(np.divide(off, shown, out=np.full_like(off, np.inf), where=shown > 0).min())
        if blurred > BLURRED:
            faint = f"{float(np.linalg.norm(head.v) / np.linalg.norm(learned.model.v)):.1g} of all values"
            raise AccuracyUnreachable(
                f"fresh answers are off by {blurred:.1g} of all that a head with {faint} shows in them, and more than "
                f"{BLURRED:g} says too little about its W: the box's numbers have too few digits for it",
                learned,
            )


def shows(head: Attention, X: np.ndarray) -> np.ndarray:
    """What a head adds to the mean of the tokens; one that takes the mean itself has only that to show."""
    mean = X.mean(axis=1) @ head.v
    return head(X) - mean if head.W_norm > 0 or head.has_key_bias else mean


def largest(parts: Iterable[np.ndarray]) -> np.ndarray:
    return np.max([part.max(axis=0) for part in parts], axis=0)


def only(model: MultiHead, output: int) -> MultiHead:
    """The heads with that output alone, and no bias."""
    return MultiHead([with_values(head.score_tensors(), head.v[:, output]) for head in model.heads])
