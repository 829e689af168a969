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


def mistakes() -> None:
    """Never called: what a type checker says before a query is spent."""
    gh.recover(gh.ValueOracle(box, dim=6), rank="four")  # pyright: ignore[reportArgumentType]
    gh.recover(gh.ValueOracle(box, dim=6), familly="attention")  # pyright: ignore[reportCallIssue]
    gh.ValueOracle(box, dim="6")  # pyright: ignore[reportArgumentType]
    gh.plan("6")  # pyright: ignore[reportArgumentType]


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


if __name__ == "__main__":
    main(Path("found"))
