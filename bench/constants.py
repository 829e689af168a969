"""Which constants matter: each is made ten times smaller and larger, and a few boxes are recovered again.

The constants are those of the modules below: every float that stands at the top of one, read from the source with the
comment beside it. Counts are not among them.
"""

from __future__ import annotations

import ast
import signal
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from tests.joint.layers import HIDDEN, hidden
from tests.recorded.__main__ import Listened, result
from tests.recorded.boxes import Case, cases
from tests.relu.relu_cases import gaussian

import glasshead as gh

# The modules of a learner, and the boxes, by their names in `tests.recorded.boxes`, that it is tried on.
PARTS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "a ReLU network": (
        ("_relu.homogeneous",),
        (
            *(f"relu {size} biases={biases}" for size in ("8,16", "16,8", "12,40") for biases in (0, 1)),
            *(f"relu {kind}, biases" for kind in ("parallel", "opposite", "cancelling", "rank 2", "tiny 1e-10")),
            "relu parallel", "relu rank 2", "relu float32", "relu rounded", "relu noisy",
        ),
    ),
    "all heads at once": (
        ("_learners.heads.together.pairs",),
        (*(f"hidden {kind} (8, 3, 2)" for kind in HIDDEN), "hidden rounded", "unsaturated only"),
    ),
    "a head behind an unknown network": (
        tuple(f"_meters.matching.{name}" for name in ("curve", "match", "meter", "crossing", "place")),
        (
            "block d=4 residual=True", "block d=8 residual=False", "block d=8 8 outputs", "block rounded",
            "normalised layer, told", "random block 3", "random block 7", "signs behind a network",
        ),
    ),
    "one head": (
        ("_learners.frames", "_learners.attention"),
        (
            "plain d=8 W=1 v=1 bias=0", "plain d=8 W=30 v=1 bias=1", "plain d=8 W=1000 v=1e-06 bias=10",
            "plain d=17 W=1000 v=1e-06 bias=10", "plain d=8 float32", "rounded 2 d=8", "noisy d=16", "half d=8",
        ),
    ),
}  # fmt: skip
TIMES = {"tenth": 0.1, "tenfold": 10.0}
NEAR_ONE = 1e-3  # a share that near to 1 is varied by what is missing of it
LONGEST = 30.0  # seconds of computing for a run
LEFT = 1e-12  # errors below are rounding
WRONG_TIMES, WRONG = 100.0, 1e-6  # an error so many times what it was, and no smaller than this, is a wrong result

Progress = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Constant:
    module: str
    name: str
    value: float
    why: str

    def times(self, factor: float) -> float:
        return 1 - factor * (1 - self.value) if 0 < 1 - self.value < NEAR_ONE else factor * self.value


def constants(module: str) -> Iterator[Constant]:
    """Every float at the top of a module, in order, with its comment: on the same line, or on the lines above."""
    home = import_module(f"glasshead.{module}")
    lines = Path(str(home.__file__)).read_text().splitlines()
    for statement in ast.parse("\n".join(lines)).body:
        if isinstance(statement, ast.Assign):
            names = [node.id for node in ast.walk(statement.targets[0]) if isinstance(node, ast.Name)]
            for name in names:
                if isinstance(getattr(home, name), float):
                    yield Constant(module, name, getattr(home, name), comment(lines, statement.lineno - 1))


def comment(lines: list[str], at: int) -> str:
    _, _, beside = lines[at].partition("# ")
    above = []
    while not beside and at > 0 and lines[at - 1].startswith("# "):
        at -= 1
        above.insert(0, lines[at].removeprefix("# "))
    return beside or " ".join(above)


@contextmanager
def changed(constant: Constant, value: float) -> Iterator[None]:
    """The constant has another value, wherever it was imported by its name."""
    old = getattr(import_module(f"glasshead.{constant.module}"), constant.name)
    users = [
        module
        for name, module in list(sys.modules.items())
        if name.startswith("glasshead.") and vars(module).get(constant.name) is old
    ]
    for module in users:
        setattr(module, constant.name, value)
    try:
        yield
    finally:
        for module in users:
            setattr(module, constant.name, old)


def boxes(wanted: tuple[str, ...]) -> list[Case]:
    network, heads = gaussian(8, 12, biases=1.0), hidden("dependent values", (8, 3, 2), seed=1)
    more = [
        Case("hidden rounded", gh.defences.rounded(heads, 9), 8, heads, {"tolerance": 5e-10}),
        Case("relu rounded", lambda x: np.round(network(x), 6), 8, kind="relu"),
        Case("relu noisy", lambda x: network(x) + 1e-4 * np.sin(1e6 * x.sum(axis=1)), 8, kind="relu"),
    ]
    return [case for case in [*(case for _, case in cases()), *more] if case.name in wanted]


def too_long(signum: int, frame: Any) -> None:
    raise TimeoutError(f"no result in {LONGEST:g} s")


def outcome(case: Case) -> dict[str, Any]:
    """What a run costs and how far off its result is, or what it is refused with."""
    box = Listened(case.answer)
    signal.signal(signal.SIGVTALRM, too_long)
    signal.setitimer(signal.ITIMER_VIRTUAL, LONGEST)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            error = network_error(case, box) if case.kind == "relu" else result(case, box)["off"]
        return {"queries": box.asked, "error": 0.0 if error is None else float(error)}
    except Exception as error:  # with such a constant anything may happen
        return {"queries": box.asked, "refused": type(error).__name__}
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)


def network_error(case: Case, box: Listened) -> float:
    """The largest error on inputs of lengths over four decades, over the largest answer at each length."""
    found = gh.recover_relu(box, case.dim, **case.arguments)
    errors = []
    for length in (0.1, 1.0, 10.0, 100.0):
        x = length * np.random.default_rng(0).standard_normal((200, case.dim))
        truth = np.asarray(case.answer(x), float)
        errors.append(np.abs(found(x) - truth).max() / max(np.abs(truth).max(), np.finfo(float).tiny))
    return float(max(errors))


def compared(before: list[dict[str, Any]], after: list[dict[str, Any]]) -> dict[str, Any]:
    both = [(a, b) for a, b in zip(before, after, strict=True) if "refused" not in a and "refused" not in b]
    errors = [max(b["error"], LEFT) / max(a["error"], LEFT) for a, b in both]
    return {
        "changed": sum(a != b for a, b in zip(before, after, strict=True)),
        "lost": sum("refused" in b and "refused" not in a for a, b in zip(before, after, strict=True)),
        "gained": sum("refused" in a and "refused" not in b for a, b in zip(before, after, strict=True)),
        "wrong": sum(b["error"] > max(WRONG, WRONG_TIMES * a["error"]) for a, b in both),
        "queries": max((b["queries"] / a["queries"] for a, b in both), default=1.0),
        "error": max(errors, default=1.0),
    }


def run(progress: Progress) -> dict[str, Any]:
    rows, work = [], {part: [*map(list, map(constants, modules))] for part, (modules, _) in PARTS.items()}
    planned, done = sum(len(found) for lists in work.values() for found in lists), 0
    for part, (_, names) in PARTS.items():
        asked = boxes(names)
        before = [outcome(case) for case in asked]
        for constant in (constant for found in work[part] for constant in found):
            progress(done, planned, f"constants: {constant.name}")
            row = {"part": part, "boxes": len(asked), "name": constant.name, "value": constant.value}
            for way, factor in TIMES.items():
                with changed(constant, constant.times(factor)):
                    row[way] = compared(before, [outcome(case) for case in asked])
            rows.append(row)
            done += 1
    return {"rows": rows}


def broken(found: dict[str, Any]) -> Iterable[str]:
    """A sentence for every constant that lets a wrong result pass when it is ten times off."""
    for row in found["rows"]:
        for way in TIMES:
            if row[way]["wrong"]:
                yield f"constants, {row['name']} {way}: {row[way]['wrong']} of {row['boxes']} results are wrong"
