"""README.md says what was measured, its example runs, and every number is within its limit."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys

import pytest
from bench import readme
from bench.accuracy import Case, measure
from bench.run import BENCHES

TEXT = readme.README.read_text()
BLOCKS = [block.partition("\n")[::2] for block in TEXT.split("```")[1::2]]  # (language, code)


def test_is_short():
    assert len(TEXT.splitlines()) < 100


def test_says_what_was_measured():
    found = readme.results()
    assert set(found) >= set(BENCHES)
    assert set(re.findall(r"numbers:(\w+)", TEXT)) == set(readme.BLOCKS)
    assert readme.filled(TEXT, found) == TEXT, "README.md is out of date: run `make readme`"


@pytest.mark.parametrize("name", BENCHES)
def test_every_limit_is_met(name):
    """But one, which the README marks: with both biases at their largest one box in thousands ends above 1e-10."""
    missed = list(BENCHES[name].broken(readme.results()[name]))
    assert [
        sentence for sentence in missed if not re.match(r"biased, d = \d+: error [12](\.\d+)?e-10 ", sentence)
    ] == []
    assert not missed or "(missed)" in readme.README.read_text()


def test_results_name_no_machine():
    assert set(readme.results()["accuracy"]["machine"]) == {"glasshead", "python", "numpy", "system", "cpus"}


def test_the_example_runs(capsys):
    (code,) = (code for language, code in BLOCKS if language == "python")
    exec(compile(code, "README.md", "exec"), {})
    assert "information limit" in capsys.readouterr().out


def test_the_commands_run(tmp_path):
    commands = [line for _, code in BLOCKS for line in code.splitlines() if line.startswith("glasshead ")]
    assert len(commands) == 3
    for command in commands:
        run = [sys.executable, "-m", *shlex.split(command, comments=True)]
        shown = os.environ | {"BROWSER": "true"}  # what --open calls: a command that does nothing, well
        done = subprocess.run(run, cwd=tmp_path, env=shown, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"


def test_the_picture_is_drawn(tmp_path):
    readme.draw_picture(tmp_path / "W.svg")
    assert (tmp_path / "W.svg").read_text().startswith("<svg")
    assert readme.PICTURE.is_file(), "docs/W.svg is missing: run `make readme`"


@pytest.mark.parametrize("case", [Case(3, W_scale=30.0, half_zero=True), Case(3, key_bias=1.0, bias=1.0)])
def test_the_benchmark_still_measures(case):
    measured = measure(case)
    assert measured.error < 1e-10
    assert measured.bound_holds
    assert measured.extra <= 104
