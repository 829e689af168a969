"""What docs/report.md tells people to type works."""

from __future__ import annotations

import re
import shlex

from bench.fresh import ROOT

from glasshead._cli.app import run


def test_the_commands_and_the_example_work(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs" / "report.md").read_text()
    commands = re.findall(r"^glasshead (.*)$", text, re.MULTILINE)
    assert len(commands) == 3
    for command in commands:
        assert run(shlex.split(command.removesuffix(" --open"))) == 0
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    exec(compile(code, "report.md", "exec"), {})
    for file in ("runs/first/report.html", "report.html", "W.svg"):
        assert (tmp_path / file).is_file()
