"""The tool that puts faults in, on small modules of its own; and the record, which must be about faults that exist."""

from __future__ import annotations

import pytest

from .__main__ import read_record, sampled, table
from .mutants import BY_HAND, Module, modules


def changes(text: str) -> set[str]:
    module = Module("_meters/some.py", text)
    for mutant in module.places:
        module.code(mutant)  # all of them compile
    return {f"{mutant.was} -> {mutant.now}" for mutant in module.places}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x = a < b", {"a < b -> a >= b"}),
        ("x = not a", {"not a -> a"}),
        ("x = a + b", {"a + b -> a - b", "a + b -> a", "a + b -> b"}),
        ("x = a - b", {"a - b -> a + b", "a - b -> a"}),
        ("x = a and b", {"a and b -> a or b", "a and b -> a", "a and b -> b"}),
        ("x = 2.5", {"2.5 -> 25.0", "2.5 -> 0.25"}),
        ("x = 2.0**-3", {"2.0 ** (-3) -> 1.25", "2.0 ** (-3) -> 0.0125"}),
        ("x = 6", {"6 -> 60", "6 -> 1"}),
        ("x = a if b else c", {"a if b else c -> a", "a if b else c -> c"}),
        ("x = max(a, b)", {"max(a, b) -> min(a, b)", "max(a, b) -> a", "max(a, b) -> b"}),
        ("x = np.abs(a)", {"np.abs(a) -> a"}),
        ("x = a.any()", {"a.any() -> a.all()"}),
        ("check(a)", {"check(a) -> pass"}),
        ("x = -a", {"-a -> a"}),
        # What is for readers, and what counts axes, stays.
        ('"""Two words."""', set()),
        ("x: int = f'{2 + 3}'", set()),
        ("x = a[2]", set()),
        ("x = a.sum(axis=2)", set()),
        ("x = 0", set()),
    ],
)
def test_every_fault_is_made(text, expected):
    assert changes(text) == expected


def test_refusals_and_branches_are_dropped():
    made = changes("def f(x):\n    if x:\n        raise ValueError('no ' + 'good')\n    return 1.5")
    assert "raise ValueError('no ' + 'good') -> pass" in made
    assert "if x: raise ValueError('no ' + 'good') -> if False: raise ValueError('no ' + 'good')" in made
    assert len(made) == 4


def test_names_say_where():
    module = Module(
        "_meters/some.py", "class A:\n    def f(self):\n        g = lambda: 2.5\n        return g\n\nB = 3.5"
    )
    assert sorted({mutant.function for mutant in module.places}) == ["", "A.f"]
    assert len({mutant.name for mutant in module.places}) == len(module.places) == 4


def test_samples_depend_on_nothing_but_the_mutants():
    small, large = (dict.fromkeys(mutant.name for _, mutant in sampled(1, share, "")) for share in (0.002, 0.004))
    assert 0 < len(small) < len(large)
    assert all(name in large for name in small)


def test_those_made_by_hand_are_still_possible():
    for hand in BY_HAND:
        hand.code()
    assert sum(len(module.places) for module in modules()) > 5000


def test_of_the_sample_on_record_the_tests_notice_85_percent_and_the_rest_is_explained():
    mutants = read_record()["mutants"]
    survivors = {name: seen["survived"] for name, seen in mutants.items() if "survived" in seen}
    assert len(mutants) > 100
    assert len(survivors) <= 0.15 * len(mutants)
    assert all(len(why) > 20 for why in survivors.values())
    assert all("killed" in mutants[f"by hand: {hand.name}"] for hand in BY_HAND)


def test_the_record_is_about_the_mutants_of_today():
    """But for some, which may have been renamed since; `python -m tests.mutation --new` tries those."""
    record = read_record()
    today = {mutant.name for _, mutant in sampled(record["seed"], record["share"], "")}
    assert len(today & record["mutants"].keys()) >= 0.75 * len(today)


def test_the_table_adds_up():
    seen = {
        "a/b.py: x": {"killed": "tests/a.py::t"},
        "a/c.py: y": {"killed": "tests/recorded/t"},
        "a/c.py: z": {"survived": ""},
    }
    lines = table({"mutants": seen}).splitlines()
    assert lines[-1].split() == ["all", "3", "2", "1", "1", "67%"]
