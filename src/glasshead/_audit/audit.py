"""`gh.audit`: a box under a grid of defences, what each gives away, and which to take."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from .._families import AUTO, FAMILIES, named
from .._limits import information_limit
from .._oracles import Report
from .._types import no_type_check
from .._validate import positive, real, whole
from .._version import __version__
from .attack import Attack
from .copies import Finding
from .folder import AuditFolder
from .honest import Honest, given_sequences, read_answers, usual_sequences
from .leak import Leak, find_leak
from .settings import MITIGATIONS, grid, settings_of
from .source import TargetSource, count_parameters, name_of, open_box
from .tries import find_copies
from .verdict import held, outcome, ranked, recommendation, verdict

AUDIT_FORMAT = "glasshead audit 1"
THREAT = (
    "the attacker sends vectors of their choice and sees values, rounded values, noisy ones or signs; endpoints that "
    "show only a label among many, or the best few answers, say less, and are not attacked here"
)
TECHNIQUE = "AML.T0024.002"
THRESHOLD = 0.1  # of the spread of answers
BUDGET_OF_ONE = 100_000  # queries for each setting


@dataclass(frozen=True)
class Audit:
    """The result of `gh.audit`: a finding for each setting, and what follows."""

    target: str
    family: str
    dim: int
    parameters: int
    outputs: int
    threshold: float
    budget: int
    findings: tuple[Finding, ...]
    leak: Leak | None
    honest_queries: int
    price_per_query: float | None = None
    command: str = ""

    @property
    def ranking(self) -> list[Finding]:
        """The settings that held, the cheapest for honest users first."""
        return ranked(self.findings, self.threshold, self.fewest)

    @property
    def queries(self) -> int:
        """All that were asked of the box: by both attackers in every setting, for honest users, and for the leak."""
        leak = 0 if self.leak is None else self.leak.queries
        return self.honest_queries + leak + sum(found.asked for found in self.findings)

    @property
    def recommendation(self) -> str:
        width = None if self.leak is None else self.leak.rows[0].width
        return recommendation(self.findings, self.threshold, self.budget, self.fewest, width)

    @property
    def fewest(self) -> int:
        """Queries without which not all parameters can be known, each answer fixing one for each of its numbers."""
        return -(-self.parameters // self.outputs)

    def verdict(self, name: str) -> str:
        """What became of the setting of that name, in a sentence."""
        found = next((found for found in self.findings if found.name == name), None)
        if found is None:
            raise KeyError(f"expected one of {[found.name for found in self.findings]}, got {name!r}")
        return verdict(found, self.threshold)

    def to_dict(self) -> dict[str, Any]:
        """What `audit.json` holds."""
        return {
            "format": AUDIT_FORMAT,
            "version": __version__,
            "command": self.command,
            "target": self.target,
            "family": self.family,
            "dim": self.dim,
            "parameters": self.parameters,
            "threshold": self.threshold,
            "budget": self.budget,
            "queries": self.queries,
            "price_per_query": self.price_per_query,
            "threat": THREAT,
            "technique": TECHNIQUE,
            "mitigations": MITIGATIONS,
            "leak": None if self.leak is None else self.leak.to_dict(),
            "settings": [self.row(found) for found in self.findings],
            "ranking": [found.name for found in self.ranking],
            "recommendation": self.recommendation,
        }

    def row(self, found: Finding) -> dict[str, Any]:
        cost = None if self.price_per_query is None else self.price_per_query * found.queries
        more = {"outcome": outcome(found, self.threshold), "verdict": verdict(found, self.threshold)}
        first = found.mitigations[0] if found.mitigations else None
        return asdict(found) | more | {"mitigation": first, "kept": held(found, self.threshold), "cost": cost}

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Write `audit.json` into the folder."""
        return AuditFolder(Path(folder)).write("audit.json", self.to_dict())

    def __str__(self) -> str:
        lines = [f"{found.name}: {verdict(found, self.threshold)}" for found in self.findings]
        return "\n".join([*lines, self.recommendation])


@no_type_check
def audit(
    target: Any,
    dim: int | None = None,
    *,
    defences: Mapping[str, Callable[[Any], Any]] | None = None,
    threshold: float = THRESHOLD,
    folder: str | os.PathLike[str] | None = None,
    budget: int = BUDGET_OF_ONE,
    honest: Any = None,
    family: str | None = None,
    price_per_query: float | None = None,
    seed: int = 0,
    progress: Report | None = None,
    executor: Executor | None = None,
) -> Audit:
    """What a box gives away under each of a grid of defences, and the cheapest defence that would stop it.

    >>> found = gh.audit(gh.Attention.random(4, seed=1), budget=2000)
    >>> found.verdict("as it is")
    'recovered to 14 digits with 99 queries'

    `target` is a `gh` model, the path of one, an oracle, or a callable with `dim`. The errors of copies are measured
    against the model where it is one of ours, and on the answers of `honest` sequences, an array `(B, N, d)` or a list
    of arrays `(N, d)`; by default Gaussian tokens. A defence holds where the copy's error stays at `threshold` or above
    it, a share of the spread of these answers. `defences` maps names to what wraps a box and gives a box, such as
    `{"two decimals": partial(gh.defences.rounded, decimals=2)}`; by default a grid of some thirty settings is tried.

    Two attackers try every setting, each with `budget` queries: one reads, with `gh.recover`, knowing the defence; if
    that gives no copy below the threshold, the other fits a head to as many answers as it takes. Finished settings are
    kept in `folder`, and the same call goes on with those that are missing; `audit.json` is written there in the end.
    With an `executor` settings are tried in parallel: the target and the defences have to be picklable then.
    """
    source = (
        target if isinstance(target, TargetSource) else TargetSource(partial(open_box, target, dim), name_of(target))
    )
    limit, most = positive(threshold, "threshold"), whole(budget, "budget", least=1)
    seed = whole(seed, "seed", least=0)
    if price_per_query is not None:
        real(price_per_query, "price_per_query", "a number >= 0", lambda x: x >= 0)
    require_defences(defences)
    box, truth = source.make()
    X = usual_sequences(box.dim, box.reach, seed) if honest is None else given_sequences(honest, box.dim)
    asked = Honest(X, read_answers(box, X), box.answers == "sign")
    parameters = information_limit(box.dim) if truth is None else count_parameters(truth)
    kind = family or (AUTO if truth is None or truth.family not in FAMILIES else truth.family)
    if defences is None:
        declared = named(kind)
        signs = declared is None or "sign" in declared.methods
        settings = grid(asked, box.answers, -(-parameters // asked.outputs), most, signs)
    else:
        settings = settings_of(defences, box.answers)
    attack = Attack(kind, truth, asked, limit, most, seed)
    kept = None if folder is None else AuditFolder(Path(folder))
    if kept is not None:
        promise = {"answers_of": box.answers, "max_norm": box.max_norm}
        kept.begin(asked, {"dim": box.dim, "family": kind, "threshold": limit, "budget": most, "seed": seed} | promise)
    leak = find_leak(box, box.dim, asked.longest, seed) if asked.outputs > 1 else None
    findings = tuple(find_copies(source, attack, settings, kept, progress, executor))
    result = Audit(
        source.name,
        kind,
        box.dim,
        parameters,
        asked.outputs,
        limit,
        most,
        findings,
        leak,
        asked.queries,
        price_per_query,
    )
    if kept is not None:
        result.save(kept.path)
    return result


def require_defences(own: Any) -> None:
    words = 'names with callables that wrap a box, such as {"two decimals": partial(gh.defences.rounded, decimals=2)}'
    named: Any = own
    if own is not None and (not isinstance(own, Mapping) or not all(map(callable, named.values()))):
        raise TypeError(f"expected defences= to map {words}, got {own!r}")
    if own is not None and "as it is" in own:
        raise ValueError('expected other names than "as it is" in defences=: that is the box without any')
