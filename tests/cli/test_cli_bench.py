"""`glasshead bench`: every family that there is, measured as the library would, and what was not recovered."""

from __future__ import annotations

import pytest

import glasshead as gh
from glasshead._cli import bench
from glasshead._families import ANSWERS, FAMILIES

NUMBERS = {"queries", "limit", "plan", "distance", "seconds", "box_seconds", "overhead"}


def test_every_family_is_recovered_as_planned(cli):
    fields = cli("bench", "--dim", "12", "--json").json
    assert [row["family"] for row in fields["rows"]] == list(FAMILIES)
    for row in fields["rows"]:
        assert row.keys() >= NUMBERS | {"dim", "rank"}
        assert row["limit"] <= row["queries"] <= row["plan"]
        assert 0 <= row["distance"] < 1e-7
        assert row["overhead"] == row["seconds"] / row["box_seconds"] > 1


def test_it_measures_what_the_library_does(cli):
    given = ("--family", "multi-head", "--heads", "3", "--rank", "2", "--dim", "7", "--seed", "5")
    (row,) = cli("bench", *given, "--json").json["rows"]
    model = gh.MultiHead.random(7, heads=3, rank=2, seed=5)
    found = gh.recover(gh.ValueOracle(model), family="multi-head", seed=6)
    assert (row["dim"], row["rank"], row["heads"]) == (7, 2, 3)
    assert (row["queries"], row["limit"], row["distance"]) == (
        found.queries,
        found.limit,
        gh.distance(found.model, model),
    )
    assert row["plan"] == gh.plan(7, family="multi-head", heads=3, rank=2)


@pytest.mark.parametrize("answers", ANSWERS)
def test_a_line_for_each_family_and_size(cli, answers):
    result = cli("bench", "--dim", "4", "--dim", "5", "--answers", answers, "--family", "attention")
    lines = [line.split() for line in result.out.splitlines() if line.startswith("attention")]
    assert result.code == 0
    assert [line[1] for line in lines] == ["4", "5"]
    assert [line[4] for line in lines] == [f"{gh.plan(dim, answers=answers):,}" for dim in (4, 5)]
    assert all(part in result.words for part in ("limit: the information limit", "error: gh.distance"))


def test_signs_are_for_families_that_can_be_read_from_them(cli):
    rows = cli("bench", "--dim", "4", "--answers", "sign", "--json").json["rows"]
    assert [row["family"] for row in rows] == [name for name, family in FAMILIES.items() if "sign" in family.methods]
    assert all(row["distance"] < 1e-7 for row in rows)


def test_what_is_not_recovered_does_not_stop_the_others(cli):
    given = ("bench", "--family", "block", "--family", "attention", "--dim", "8")
    block = gh.Block.random(8, heads=bench.HEADS)
    with pytest.raises(gh.NotConverged) as failed:
        gh.recover(gh.ValueOracle(block), family="block", seed=1)
    result = cli(*given, "--json")
    first, second = result.json["rows"]
    assert result.code == 7
    assert (first["error"], first["message"]) == ("NotConverged", str(failed.value))
    assert "distance" not in first
    assert second["distance"] < 1e-12
    shown = cli(*given)
    assert shown.code == 7
    assert "failed" in shown.words
    assert f"block, d = 8, 2 heads: NotConverged: {failed.value}" in shown.words


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (("--family", "nonsense"), "expected --family to be one of: attention"),
        (("--family", "auto"), "got 'auto'"),
        (("--answers", "maybe"), "expected --answers to be one of"),
        (("--family", "attention", "--heads", "2"), "expected no --heads for attention"),
        (("--family", "block", "--answers", "sign"), "expected value answers for family 'block'"),
        (("--dim", "4", "--rank", "5"), "expected a rank from 1 to dim = 4"),
        (("--dim", "0"), "--dim"),
    ],
)
def test_what_cannot_be_measured_is_refused_first(cli, given, words, monkeypatch):
    monkeypatch.setattr(bench, "find_cost", None)
    result = cli("bench", *given)
    assert (result.code, result.out) == (2, "")
    assert words in result.words


def test_progress_is_that_of_all_boxes():
    seen = []
    chosen = bench.tasks(["attention", "transformer"], [4, 5], None, "value", {})
    bench.find_costs(chosen, 0, lambda *reported: seen.append(reported))
    done, planned, words = zip(*seen, strict=True)
    assert list(done) == sorted(done)
    assert set(planned) == {sum(each.plan for each in chosen)}
    assert max(done) <= planned[0]
    assert {text.partition(":")[0] for text in words} == {f"{each.family}, {each.words}" for each in chosen}


def test_help_offers_every_family(cli):
    assert all(name in cli("bench", "--help").words for name in (*FAMILIES, *ANSWERS))
