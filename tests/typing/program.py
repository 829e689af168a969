"""A user's program, as a type checker sees it: `make lint` checks it strictly, tests/typing/test_program.py runs it.

A line that must be an error says so in a comment, and a comment on a line that is none is an error itself.
"""

# pyright: strict, reportUnnecessaryTypeIgnoreComment=true

from __future__ import annotations

from pathlib import Path
from typing import assert_type

import numpy as np
from numpy.typing import NDArray

import glasshead as gh


def box(X: NDArray[np.float64]) -> NDArray[np.float64]:
    """Somebody's endpoint: (B, N, 6) in, B numbers out."""
    return np.asarray(gh.Attention.random(6, seed=1)(X), dtype=np.float64)


def told(done: int, planned: int, what: str) -> None:
    print(f"{what}: {done} of {planned}")


def recovered(folder: Path) -> gh.Recovery:
    oracle = gh.ValueOracle(box, dim=6, tolerance=0.0, max_norm=1e3)
    found = gh.recover(oracle, family="attention", rank=None, accuracy=None, budget=500, seed=3, progress=told)
    assert_type(found.queries, int)
    assert_type(found.limit, int)
    assert_type(found.bound, float | None)
    assert_type(found.confidence, float)
    assert_type(found.reason, str)
    found.save(folder)
    return gh.load_recovery(folder)


def of_signs() -> float:
    head = gh.Attention.random(3, seed=2)
    found = gh.recover(gh.SignOracle(lambda X: head(X) > 0, dim=3), accuracy=1e-3)
    return gh.distance(found.model, head, up_to_scale=True)


def kept(folder: Path) -> int:
    """A model and its answers with two decimals; what is found of it when a thousand decimals are wanted."""
    file = gh.save(gh.Attention.random(4, seed=5), folder / "head.safetensors")
    match gh.load(file):
        case gh.Attention() as head:
            box = gh.defences.rounded(head, decimals=2)
            assert_type(box.tolerance, float | None)
        case gh.TwoLayer() | gh.Placed():
            raise AssertionError("a head was saved")
        case other:
            raise AssertionError(f"a {other.family} of {len(other.heads)} heads")
    try:
        gh.recover(gh.ValueOracle(box, tolerance=0.005, max_norm=1e3), family="attention", accuracy=1e-300)
    except gh.AccuracyUnreachable as error:
        if isinstance(error.best, gh.Recovery):
            assert_type(error.best, gh.Recovery)
            assert_type(error.best.bound, float | None)
            return error.best.queries
    except (gh.TargetMismatch, gh.NotConverged) as error:
        if error.best is not None:
            assert_type(error.best.queries, int)
            assert_type(error.best.residual, float | None)
        if isinstance(error.best, gh.RecoveredNetwork):
            assert_type(error.best.width, int)
    return 0


def of_the_paper() -> gh.Recovery:
    head = gh.Attention.random(3, seed=4)
    assert_type(gh.paper.theorem_4_1(gh.ValueOracle(head)), gh.Recovery)
    return gh.paper.theorem_4_1(head)


def mistakes() -> None:
    """Never called: what a type checker says before a query is spent."""
    gh.recover(gh.ValueOracle(box, dim=6), rank="four")  # pyright: ignore[reportArgumentType]
    gh.recover(gh.ValueOracle(box, dim=6), familly="attention")  # pyright: ignore[reportCallIssue]
    gh.ValueOracle(box, dim="6")  # pyright: ignore[reportArgumentType]
    gh.plan("6")  # pyright: ignore[reportArgumentType]
    gh.load(6)  # pyright: ignore[reportArgumentType]
    gh.equivalent(gh.load("one.safetensors"), gh.load("other.safetensors"))  # pyright: ignore[reportArgumentType]
    gh.paper.theorem_4_1("box")  # pyright: ignore[reportArgumentType]
    gh.defences.rounded(6, decimals=2)  # pyright: ignore[reportArgumentType]
    gh.report(gh.TargetMismatch("refused").best)  # pyright: ignore[reportArgumentType]


def main(folder: Path) -> None:
    found = recovered(folder)
    match found.model:
        case gh.Attention() as head:
            print(head.W.shape, head.factor(rank=2)[0].shape)
            assert_type(gh.equivalent(head, gh.Attention.random(6, seed=1)), bool)
        case gh.MultiHead() as layer:
            print(len(layer.heads))
        case _:
            print(found.family)
    try:
        gh.recover(gh.ValueOracle(box, dim=6), budget=2)
    except gh.BudgetExceeded as error:
        print(error.needed)
    assert_type(gh.plan(6), int)
    assert_type(gh.report(found, folder / "report.html"), Path)
    assert of_signs() < 1e-2
    assert kept(folder) > 0
    assert of_the_paper().queries == 12


if __name__ == "__main__":
    main(Path("found"))
