"""docs/your-model.md: every example runs, against real files and real servers, and every law has a row."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys

import pytest
from bench.fresh import ROOT
from bench.your_model_page import LAWS

import glasshead as gh
from glasshead import _errors
from glasshead._cli.app import run
from tests.boxes.local import head_file
from tests.boxes.served import Served

PAGE = (ROOT / "docs" / "your-model.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
COMMANDS = re.findall(r"^glasshead recover .*$", PAGE, re.MULTILINE)


@pytest.fixture
def there(tmp_path, monkeypatch):
    """A folder with a file, and servers; what stands for them on the page, and where they are."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    head_file("model.onnx", gh.Attention.random(8, seed=3))
    gh.save(gh.Attention.random(8, seed=1), "head.safetensors")
    (tmp_path / "mymodule.py").write_text("import torch\nlayer = torch.nn.MultiheadAttention(64, 4).double().eval()\n")
    command = [sys.executable, "-m", "tests.boxes.completions_server"]
    with (
        Served(tmp_path / "head.safetensors") as served,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as prompted,
    ):
        port = prompted.stdout.readline().strip()
        yield {
            "127.0.0.1:8000": f"127.0.0.1:{served.port}",
            "127.0.0.1:8001": f"127.0.0.1:{port}",
            "tiny-llama": "float32",
        }
        prompted.stdin.close()


def with_real_addresses(text, there):
    for shown, real in there.items():
        text = text.replace(shown, real)
    return text


def test_there_is_an_example_for_each_kind_of_box():
    for name in ("ValueOracle", "from_torch", "from_transformers", "from_onnx", "from_http", "from_completions"):
        assert sum(f"gh.{name}(" in block for block in BLOCKS) == 1


@pytest.mark.parametrize("code", BLOCKS, ids=lambda code: code.split("gh.")[1].split("(")[0])
def test_examples_run_and_are_short(code, there):
    assert len([line for line in code.splitlines() if line and not line.startswith("import")]) <= 8
    exec(compile(with_real_addresses(code, there), "your-model.md", "exec"), {})


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.split()[2])
def test_commands_run(command, there):
    assert run(shlex.split(with_real_addresses(command, there))[1:]) == 0


def test_every_law_has_a_row():
    laws = {value for name, value in vars(_errors).items() if name.isupper() and isinstance(value, str)}
    assert laws - {_errors.NOT_HEADS, _errors.NOT_BLOCK, _errors.NOT_FRONT_HEAD, _errors.OR_NOISY} <= set(LAWS)
    assert all(law in PAGE for law in LAWS)
