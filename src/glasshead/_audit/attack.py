"""The attack on one setting: by somebody who reads, with `gh.recover`, and by somebody who fits."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from .._errors import BudgetExceeded, GlassheadError, HeadsMerged, JournalError, OracleError
from .._models import Attention
from .._oracles import Oracle, SignOracle, ValueOracle
from .._plan import plan
from .._recover import recover
from .copies import FITTING, Copy, Finding, Judge
from .fit import learn_by_fit
from .honest import Honest, RememberingBox, read_answers
from .settings import Setting

SHORT_TOKENS = 1e3  # over the longest honest token: what is sent to a box that overflows at longer ones
ROUGH_SHARE = 0.1  # of ||W||: what is asked for where noise leaves no more within the budget
RETOLD = 13  # times as many queries where some signs are wrong (`gh.plan`)
KEPT_ANSWERS = 8  # defended answers that are kept with a finding, by which it is known again
WIDEST = 64.0  # bits of a number that nothing was done to


@dataclass(frozen=True)
class Attack:
    """What every setting of an audit has in common. Each of the two attackers may ask the whole budget, and is content
    with a copy whose error is below the threshold."""

    family: str
    truth: Any | None
    honest: Honest
    threshold: float
    budget: int
    seed: int

    def find_copy(self, box: Oracle, setting: Setting, journals: Path | None = None) -> tuple[Finding, Any | None]:
        """What the setting gave away, and the copy, if it answers without the box."""
        begun, before = time.monotonic(), box.queries
        defended = read_answers(setting.around(RememberingBox(box, self.honest)), self.honest.X)
        looked = box.queries - before  # a defence that changes tokens is asked what honest users have not
        setting = as_signs(setting, defended)
        judge = Judge(self.truth, self.honest)
        most = self.budget if setting.budget is None else min(self.budget, setting.budget)
        read, errors = self.read(box, setting, judge, most, journals)
        best = min(read, key=self.worth)
        fits, more = ([], 0) if best.error < self.threshold else self.learn_fits(box, setting, judge, most)
        best = min([best, *fits], key=self.worth)
        finding = Finding(
            name=setting.name,
            group=setting.group,
            defence=setting.defence,
            mitigations=setting.mitigations,
            answers=setting.answers,
            limit=setting.budget,
            attack=best.attack,
            fitted=bool(fits),
            family=getattr(best.model, "family", None),
            queries=best.queries,
            asked=looked + read[-1].queries + more,
            bits=best.queries * self.honest.outputs * self.bits(setting),
            plan=None if best.returned else self.planned(errors, setting),
            copy=best.model is not None,
            returned=best.returned,
            error_W=best.error_W,
            error_v=best.error_v,
            function_error=best.function_error,
            bound=best.bound,
            distortion=self.honest.distortion(defended, setting.answers == "sign"),
            probe=tuple(defended.ravel()[:KEPT_ANSWERS].tolist()),
            reason=best.reason if best.returned else f"reading ended so: {errors[0]}" if errors else "",
            seconds=round(time.monotonic() - begun, 3),
        )
        return finding, best.model if best.function_error is not None else None

    def worth(self, copy: Copy) -> tuple[bool, float, float]:
        """What a copy is worth to the attacker, the best first: of those that are good enough the one that took the
        fewest queries, else the least wrong."""
        enough = copy.error < self.threshold
        return copy.model is None, copy.queries if enough else math.inf, copy.error

    def read(
        self, box: Oracle, setting: Setting, judge: Judge, most: int, journals: Path | None
    ) -> tuple[list[Copy], list[GlassheadError]]:
        """All attempts together may ask the budget; the first whose result `gh.recover` stands by ends them. Every copy
        has the queries up to then."""
        copies: list[Copy] = []
        errors: list[GlassheadError] = []
        spent, signs = 0, setting.answers == "sign"
        for k, (oracle, options) in enumerate(self.attempts(box, setting, errors)):
            options |= {} if journals is None else {"journal": journals / f"attempt-{k + 1}.sqlite"}
            found: Any = None
            returned = False
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", HeadsMerged)
                    found = recover(oracle, family=self.family, budget=most - spent, seed=self.seed, **options)
                returned = True
            except BudgetExceeded as error:
                found = error.known.get("unchecked")
                errors.append(error)
            except GlassheadError as error:
                if isinstance(error, JournalError) or (isinstance(error, OracleError) and error.__cause__ is not None):
                    raise  # a box that is out of order, or a full disk, is no defence
                found = getattr(error, "best", None)
                errors.append(error)
            spent += oracle.queries
            copies.append(judge.recovered(found, returned, spent, signs))
            if returned or spent >= most:
                break
        return copies, errors

    def attempts(self, box: Oracle, setting: Setting, errors: list) -> Iterator[tuple[Oracle, dict[str, Any]]]:
        """What to try: told what the defence promises; told nothing; with shorter tokens if the box overflowed; for a
        rough copy if the budget was spent. Each begins with a fresh defence, as a new client would find it."""
        told = ["flips"] if setting.answers == "sign" else ["tolerance", "rtol"]
        first = self.asked(box, setting, told)
        yield first, {}
        if setting.answers == "sign":
            return
        if first.tolerance or first.rtol:
            yield self.asked(box, setting), {}
        if any(isinstance(error, OracleError) for error in errors):
            yield self.asked(box, setting, longest=SHORT_TOKENS * self.honest.longest), {}
        if isinstance(self.truth, Attention) and any(isinstance(error, BudgetExceeded) for error in errors):
            yield self.asked(box, setting), {"accuracy": ROUGH_SHARE * float(np.linalg.norm(self.truth.W))}

    def asked(self, box: Oracle, setting: Setting, told: Sequence[str] = (), longest: float = math.inf) -> Oracle:
        """The box behind the setting's defence, with these of its promises told."""
        defended = setting.around(box)
        limits = [box.max_norm, getattr(defended, "max_norm", None), longest if longest < math.inf else None]
        max_norm = min((limit for limit in limits if limit is not None), default=None)
        if setting.answers == "sign":
            return SignOracle(defended, box.dim, max_norm=max_norm, flips=setting.flips if "flips" in told else 0.0)
        promise = {name: getattr(box, name) + (getattr(defended, name, None) or 0.0) for name in told}
        return ValueOracle(defended, box.dim, max_norm=max_norm, **promise)

    def learn_fits(self, box: Oracle, setting: Setting, judge: Judge, most: int) -> tuple[list[Copy], int]:
        """Copies by the other attacker, each from more answers than the last, of a box that may be one head and answers
        with one number, and the queries of all of them. An attacker would see from fresh answers when to stop; here
        honest ones say it."""
        if self.honest.outputs > 1 or not (self.truth is None or isinstance(self.truth, Attention)):
            return [], 0
        oracle, copies = self.asked(box, setting, ("flips",) if setting.flips else ()), []
        try:
            for fit in learn_by_fit(oracle, min(self.honest.longest, oracle.reach), most, self.seed):
                copies.append(judge.judged(fit.model, setting.answers == "sign", fit.queries, FITTING))
                if copies[-1].error < self.threshold:
                    break
        except OracleError as error:
            if error.__cause__ is not None:
                raise
        return copies, oracle.queries

    def bits(self, setting: Setting) -> float:
        """How many bits one number of an answer has, at most."""
        if setting.answers == "sign":
            return 1.0
        if any(name in ("half", "bfloat16") for name, _ in setting.calls):
            return 16.0
        given = dict(pair for _, numbers in setting.calls for pair in numbers.items())
        if "sigma" in given:
            return math.log2(1 + (self.honest.spread / given["sigma"]) ** 2) / 2
        step = 10.0 ** -given["decimals"] if "decimals" in given else 2 * given.get("tolerance", 0.0)
        return min(WIDEST, math.log2(1 + self.honest.range / step)) if step else WIDEST

    def planned(self, errors: list[GlassheadError], setting: Setting) -> int | None:
        """What reading would take at least, where the budget ended it: what it asked for, or what `gh.plan` says."""
        spent = [error.budget + error.needed for error in errors if isinstance(error, BudgetExceeded)]
        if not spent or not isinstance(self.truth, Attention) or any("sigma" in given for _, given in setting.calls):
            return max(spent, default=None)
        rank = int(np.linalg.matrix_rank(self.truth.W)) or None
        times = RETOLD if setting.flips else 1
        return max(*spent, times * plan(self.truth.dim, rank=rank, answers=setting.answers))


def as_signs(setting: Setting, defended: np.ndarray) -> Setting:
    """A defence of somebody's own may leave nothing but yes and no: it is attacked as such."""
    values = np.unique(defended)
    if setting.answers == "sign" or len(values) != 2 or not values[0] <= 0 < values[1]:
        return setting
    given = dict(pair for _, numbers in setting.calls for pair in numbers.items())
    return replace(setting, answers="sign", flips=given.get("probability", 0.0))
