"""The installed script in a process of its own: exit codes, clean streams, nothing loaded in vain."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import glasshead as gh

WIDTH = 60

LOADED = """
import json, sys
import glasshead
before = set(sys.modules)
from glasshead._cli.app import run
assert run(["--help"]) == 0
new = {name for name in sys.modules if name.startswith(("glasshead", "scipy", "numpy"))} - before
print(json.dumps([name for name in new if not name.startswith("glasshead._cli")]), file=sys.stderr)
"""


def test_from_new_to_compare(process):
    assert process("new", "attention", "--dim", "9", "-o", "box.safetensors").code == 0
    recovered = process("recover", "box.safetensors", "--run", "runs/1", "--json")
    assert (recovered.code, recovered.err) == (0, "")
    assert recovered.json == gh.load_recovery("runs/1").to_dict()
    assert process("compare", "box.safetensors", "runs/1").code == 0


@pytest.mark.parametrize(("box", "code"), [("interrupted", 130), ("raises", 6), ("positional", 4)])
def test_no_traceback(process, box, code):
    result = process("recover", f"boxes:{box}", "--dim", "6")
    assert (result.code, result.out) == (code, "")
    assert result.err
    assert "Traceback" not in result.err


@pytest.mark.parametrize("environment", [{}, {"PYTHONIOENCODING": "ascii"}, {"NO_COLOR": "1", "TERM": "dumb"}])
def test_the_demo_fits_any_screen(process, environment):
    result = process("demo", "--dim", "6", COLUMNS=str(WIDTH), **environment)
    assert result.code == 0
    assert "demo/W.svg" in result.out
    assert "\x1b" not in result.out + result.err
    assert max(map(len, result.out.splitlines())) <= WIDTH
    for model in (gh.load("demo/target.safetensors"), gh.load("demo/recovered/model.safetensors")):
        assert f"{model.W[0, 0]: .16f}" in result.out


def test_help_does_not_load_the_library(folder):
    done = subprocess.run([sys.executable, "-c", LOADED], cwd=folder, capture_output=True, text=True, timeout=60)
    names_only = {"glasshead._version", "glasshead._families"}
    assert set(json.loads(done.stderr)) <= names_only
