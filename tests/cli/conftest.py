"""A folder of its own for every test, with boxes in it, and two ways to run a command line there."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import glasshead as gh
from glasshead._cli.app import run

BOXES = """
import os, signal
import numpy as np
import glasshead as gh

one, other = gh.Attention.random(6, seed=1), gh.Attention.random(6, seed=2)

def head(X): return one(X)
def biased(X): return gh.Attention(one.W, one.v, key_bias=np.ones(6), bias=0.5)(X)
def wide(X): return gh.Attention(np.eye(16), np.ones(16), key_bias=np.ones(16), bias=0.5)(X)
def chatty(X): print("a box may print"); return one(X)
def rounded(X): return np.round(one(X), 3)
def silent(X): return gh.Attention(one.W, np.zeros(6))(X)
def two(X): return one(X) + other(X)
def pooled(X): return np.tanh(X.mean(axis=1)).sum(axis=1)
def positional(X): return one(X + 0.1 * np.arange(X.shape[1])[:, None])
def raises(X): raise RuntimeError("out of cheese")
def leaves(X): raise SystemExit(9)
def nan(X): return np.full(len(X), np.nan)
flipped = gh.defences.flipped(one, 0.05)
def interrupted(X): os.kill(os.getpid(), signal.SIGINT); return one(X)
number = 3
"""


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """stdout as one strict JSON object."""

        def refuse(constant: str) -> None:
            raise ValueError(f"{constant} is not JSON")

        fields = json.loads(self.out, parse_constant=refuse)
        assert isinstance(fields, dict)
        return fields

    @property
    def words(self) -> str:
        """Everything printed, with line breaks and repeated blanks taken out."""
        return " ".join((self.out + " " + self.err).split())


Run = Callable[..., Result]


@pytest.fixture(autouse=True)
def interruptible():
    """Ctrl-C works here and in processes started here, also where the tests run under a parent that ignores it, as a
    job in the background of a script does: a signal that is ignored stays ignored in every child."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)
    Path("boxes.py").write_text(BOXES)
    Path("needs.py").write_text("import a_module_nobody_has")
    Path("broken.py").write_text("def f(:")
    Path("junk.safetensors").write_text("these are not tensors")
    Path("file").write_text("")
    gh.save(gh.Attention.random(6, seed=1), "target.safetensors")
    yield tmp_path
    for name in ("boxes", "needs", "broken", "mybox"):
        if name not in before:
            sys.modules.pop(name, None)


@pytest.fixture
def cli(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """In this process: what `main` does, less the exit."""
    monkeypatch.setenv("COLUMNS", "100")

    def call(*arguments: str) -> Result:
        capsys.readouterr()
        code = run([str(argument) for argument in arguments])
        return Result(code, *capsys.readouterr())

    return call


@pytest.fixture
def process(folder: Path) -> Run:
    """The installed console script in a process of its own."""
    script = Path(sysconfig.get_path("scripts")) / "glasshead"

    def call(*arguments: str, **environment: str) -> Result:
        done = subprocess.run(
            [script, *arguments], cwd=folder, env=os.environ | environment, capture_output=True, text=True, timeout=60
        )
        return Result(done.returncode, done.stdout, done.stderr)

    return call
