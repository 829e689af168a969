"""The numbers in docs/low-rank.md are the measured ones, and the ones the project promises hold."""

from pathlib import Path

from bench.sensing.instances import load
from bench.sensing.table import page

ROOT = Path(__file__).parent.parent


def test_the_page_is_in_sync_with_the_measurements():
    assert (ROOT / "docs" / "low-rank.md").read_text() == page()


def test_the_promised_numbers_hold():
    for row in load("against_cvxpy")["rows"]:
        assert row["times_faster"] >= 20
        assert row["times_less_memory"] >= 5
        assert row["ours"]["error"] <= row["theirs"]["error"]
    assert load("against_cvxpy")["alone"]["error"] <= 1e-6
    for row in load("against_pymanopt")["rows"]:
        assert row["times_faster"] > 1
        assert row["error"] <= 1e-10
    for row in load("recovery")["rows"]:
        assert row["W_error"] <= 1e-12
        assert row["queries"] <= 1.03 * row["limit"] + 104
