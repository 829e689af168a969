"""The documented phase transition is the measured one, and the default asks for enough."""

from __future__ import annotations

import json
import re
from pathlib import Path
from statistics import median

import pytest
from sensing_cases import dof, gaussian

from glasshead import sensing

MEASURED = Path(__file__).parents[2] / "bench" / "sensing" / "results" / "phase.json"
CELL = re.compile(r"(\d\.\d\d) \((\d\.\d\d)\)")


def thresholds() -> dict[tuple[int, int], list[float]]:
    found: dict[tuple[int, int], list[float]] = {}
    for name, value in json.loads(MEASURED.read_text())["cells"].items():
        method, dim, rank, _ = name.split()
        if method == "nuclear":
            found.setdefault((int(dim), int(rank)), []).append(value)
    return found


def documented() -> dict[tuple[int, int], tuple[float, float]]:
    rows = re.findall(r"\| (\d+) \|(.*)\|", sensing.measurements_needed.__doc__ or "")
    cells = {int(dim): CELL.findall(rest) for dim, rest in rows}
    return {
        (dim, rank): (float(middle), float(asked))
        for dim, found in cells.items()
        for rank, (middle, asked) in zip((1, 2, 4, 8), found, strict=True)
    }


def test_the_documented_table_is_the_measured_one():
    table = documented()
    assert table.keys() == thresholds().keys()
    for (dim, rank), values in thresholds().items():
        middle, asked = table[dim, rank]
        assert middle == pytest.approx(median(values), abs=0.006)
        assert asked == pytest.approx(sensing.measurements_needed(dim, rank) / dof(dim, dim, rank), abs=0.006)


def test_at_most_one_seed_wanted_more():
    for (dim, rank), values in thresholds().items():
        asked = sensing.measurements_needed(dim, rank) / dof(dim, dim, rank)
        assert 8 <= len(values) <= 40
        assert sum(value > asked for value in values) <= 1


def test_fixed_rank_always_recovered_from_twice_the_degrees_of_freedom_on():
    content = json.loads(MEASURED.read_text())
    cells = [(name.split(), hits) for name, hits in content["cells"].items() if name.startswith("fixed")]
    hits = {(int(d), int(r)): hits for (_, d, r, ratio), hits in cells if float(ratio) >= 2}
    assert hits.keys() == {(d, r) for d in (16, 32, 64) for r in (1, 2, 4, 8)}
    assert set(hits.values()) == {content["trials"]}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("dim", "rank"), [(16, 1), (16, 4), (24, 3)])
def test_it_is_enough(dim, rank, seed):
    case = gaussian(dim, dim, rank, sensing.measurements_needed(dim, rank, success=0.999), seed)
    assert case.error(sensing.nuclear_norm(*case.data).W) < 1e-7


@pytest.mark.parametrize(("dim", "rank"), [(1, 1), (2, 1), (3, 3), (8, 7), (64, 64)])
def test_never_below_the_degrees_of_freedom_nor_above_the_entries(dim, rank):
    for success in (0.01, 0.5, 0.999999):
        assert dof(dim, dim, rank) <= sensing.measurements_needed(dim, rank, success) <= dim * dim


def test_more_certainty_takes_more():
    asked = [sensing.measurements_needed(32, 2, success) for success in (0.5, 0.9, 0.95, 0.99)]
    assert asked == sorted(set(asked))


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ((8, 0), "expected a rank from 1 to dim = 8, got 0"),
        ((8, 9), "expected a rank from 1 to dim = 8, got 9"),
        ((8, 1, 1.0), "expected a probability 0 < success < 1, got 1.0"),
        ((8, 1, 0.0), "expected a probability 0 < success < 1, got 0.0"),
    ],
)
def test_bad_questions(asked, message):
    with pytest.raises(ValueError, match=message):
        sensing.measurements_needed(*asked)
