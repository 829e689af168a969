"""`gh.audit`: a box under a grid of defences, what each gives away, and which to take."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .._boxes import as_finished
from .._models import Attention, Model, load
from .._oracles import Oracle, Report, ValueOracle
from .._plan import information_limit
from .._validate import positive, whole
from .._version import __version__
from .attack import Attack
from .copies import Finding
from .folder import AuditFolder
from .honest import Honest, answered, given_sequences, usual_sequences
from .leak import Leak, find_leak
from .settings import MITIGATIONS, Setting, grid, settings_of
from .verdict import held, outcome, ranked, recommendation, verdict

AUDIT_FORMAT = "glasshead audit 1"
THREAT = "the attacker sends vectors of their choice and sees values, rounded values, noisy ones or signs"
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
        return ranked(self.findings, self.threshold)

    @property
    def queries(self) -> int:
        """All that were asked of the box: by both attackers in every setting, for honest users, and for the leak."""
        leak = 0 if self.leak is None else self.leak.queries
        return self.honest_queries + leak + sum(found.asked for found in self.findings)

    @property
    def recommendation(self) -> str:
        return recommendation(self.findings, self.threshold, self.budget)

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
    box, truth = source.make()
    limit, most = positive(threshold, "threshold"), whole(budget, "budget", least=1)
    X = usual_sequences(box.dim, box.reach, seed) if honest is None else given_sequences(honest, box.dim)
    asked = Honest(X, answered(box, X), box.answers == "sign")
    parameters = information_limit(box.dim) if truth is None else count_parameters(truth)
    settings = grid(asked, box.answers, parameters) if defences is None else settings_of(defences, box.answers)
    kind = family or ("auto" if truth is None else truth.family)
    attack = Attack(kind, truth, asked, limit, most, whole(seed, "seed", least=0))
    kept = None if folder is None else AuditFolder(Path(folder))
    if kept is not None:
        kept.begin(asked, {"dim": box.dim, "family": kind, "threshold": limit, "budget": most, "seed": seed})
    leak = find_leak(box, box.dim, asked.longest, seed) if asked.outputs > 1 else None
    findings = tuple(run_all(source, attack, settings, kept, progress, executor))
    result = Audit(source.name, kind, box.dim, parameters, limit, most, findings, leak, asked.queries, price_per_query)
    if kept is not None:
        result.save(kept.path)
    return result


class TargetSource(NamedTuple):
    """How to come by the box, in this process or another: `make()` gives an oracle, and the model where it is known."""

    make: Callable[[], tuple[Oracle, Any]]
    name: str


def open_box(target: Any, dim: int | None) -> tuple[Oracle, Any]:
    """The target as an oracle, and its parameters where it is one of our models."""
    if isinstance(target, str | os.PathLike):
        target = load(target)
    if isinstance(target, Oracle):
        return target, None
    return ValueOracle(target, dim), target if isinstance(target, Model) else None


def name_of(target: Any) -> str:
    return os.fspath(target) if isinstance(target, str | os.PathLike) else repr(target)


def count_parameters(model: Any) -> int:
    """The free parameters of the heads of a model of ours, or of one head of that dimension."""
    heads = getattr(model, "heads", [model] if isinstance(model, Attention) else [])
    ranks = [max(1, int(np.linalg.matrix_rank(head.W))) for head in heads]
    each = zip(heads, ranks, strict=True)
    total = sum(information_limit(head.dim, rank, key_bias=head.has_key_bias) for head, rank in each)
    return total or information_limit(model.dim)


def run_all(
    source: TargetSource,
    attack: Attack,
    settings: list[Setting],
    kept: AuditFolder | None,
    progress: Report | None,
    executor: Executor | None,
) -> list[Finding]:
    """A finding for each setting: those in the folder as they are, the others tried, here or by the executor."""
    found: list[Finding | None] = [None if kept is None else kept.finding(k, each) for k, each in enumerate(settings)]

    missing = [k for k, each in enumerate(found) if each is None]
    tries = [(k, source, attack, settings[k], journals(kept, k, settings[k], attack)) for k in missing]
    for (k, *_), (finding, copy) in as_finished(run_one, tries, executor):
        found[k] = finding
        if kept is not None:
            kept.keep(k, finding, copy)
        if progress is not None:
            progress(sum(each is not None for each in found), len(found), finding.name)
    return [each for each in found if each is not None]


def run_one(
    k: int, source: TargetSource, attack: Attack, setting: Setting, journals: Path | None
) -> tuple[Finding, Any | None]:
    return attack.run(source.make()[0], setting, journals)


def journals(kept: AuditFolder | None, k: int, setting: Setting, attack: Attack) -> Path | None:
    """Where the answers of a box that is not ours are kept, so that no query is paid for twice."""
    return None if kept is None or attack.truth is not None else kept.place(k, setting.name)
