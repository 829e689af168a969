"""What an attacker holds in the end, and how far from the truth it is; and what one setting of an audit gave away."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .._identify import distance
from .._models import Attention
from .._recovery import Recovery
from .honest import Honest, read_answers

READING, FITTING = "reading", "fitting"  # the attackers: `gh.recover`, and a fit to many answers


@dataclass(frozen=True)
class Finding:
    """What one setting gave away. Errors are relative: of W and v to their norms, of answers to their spread among
    honest ones, which `distortion` is a share of, too; None is not known. `attack` has led to the best copy, after so
    many `queries`, whose answers hold about so many `bits` if they are as large as honest ones; `asked` are those of
    all attempts, `limit` the most that the setting allows, if that is its defence. `plan` is what reading would take,
    where the budget did not suffice. `copy` says whether the attacker holds a model, of which `family`, and `returned`
    whether `gh.recover` stands by it; `fitted` whether a fit was tried; `probe` are some defended answers."""

    name: str
    group: str
    defence: str
    mitigations: tuple[str, ...]
    answers: str
    limit: int | None
    attack: str
    fitted: bool
    family: str | None
    queries: int
    asked: int
    bits: float
    plan: int | None
    copy: bool
    returned: bool
    error_W: float | None
    error_v: float | None
    function_error: float | None
    bound: float | None
    distortion: float
    probe: tuple[float, ...]
    reason: str
    seconds: float

    @property
    def error(self) -> float | None:
        """How wrong the copy is: what it answers or, where it cannot answer without the box, its W."""
        return self.function_error if self.function_error is not None else self.error_W


@dataclass(frozen=True)
class Copy:
    """A model in the attacker's hands, from so many queries, or none."""

    model: Any | None
    queries: int
    attack: str = READING
    returned: bool = False
    reason: str = ""
    error_W: float | None = None
    error_v: float | None = None
    function_error: float | None = None
    bound: float | None = None

    @property
    def error(self) -> float:
        known = self.function_error if self.function_error is not None else self.error_W
        return math.inf if known is None else known


@dataclass(frozen=True)
class Judge:
    """Compares copies with the truth, where it is known, and with honest answers."""

    truth: Any | None
    honest: Honest

    def recovered(self, found: Any, returned: bool, queries: int, signs: bool) -> Copy:
        """A copy that is a recovery; anything else is none."""
        if not isinstance(found, Recovery):
            return Copy(None, queries)
        norm = float(np.linalg.norm(found.model.W)) if isinstance(found.model, Attention) else 0.0
        bound = finite_or_none(found.bound / norm) if found.bound is not None and norm > 0 else None
        copy = self.judged(found.model, signs, queries, READING)
        return replace(copy, returned=returned, reason=found.reason, bound=bound)

    def judged(self, model: Any, signs: bool, queries: int, attack: str) -> Copy:
        """The factor that signs leave open is not held against a copy."""
        alone = getattr(model, "behind", None) is None  # else it answers with the box's help
        misfit = self.honest.misfit(read_answers(model, self.honest.X), signs) if alone else None
        error_W, error_v = (None, None) if self.truth is None else errors_of(model, self.truth, signs)
        errors = finite_or_none(error_W), finite_or_none(error_v), finite_or_none(misfit)
        return Copy(model, queries, attack, False, "", *errors)


def errors_of(model: Any, truth: Any, up_to_scale: bool) -> tuple[float | None, float | None]:
    """The errors of W with the key bias and of v with the bias; for several heads or a network that of everything."""
    if isinstance(model, Attention) and isinstance(truth, Attention):
        same_v = Attention(model.W, truth.v, key_bias=model.key_bias, bias=truth.bias)
        same_W = Attention(truth.W, model.v, key_bias=truth.key_bias, bias=model.bias)
        return distance(same_v, truth), distance(same_W, truth, up_to_scale=up_to_scale)
    try:
        return distance(model, truth), None
    except TypeError:
        return None, None


def finite_or_none(x: float | None) -> float | None:
    return x if x is not None and math.isfinite(x) else None
