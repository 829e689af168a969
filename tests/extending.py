"""What docs/how-to-extend.md adds, put into a copy: `python -m tests.extending` looks at it as `make lint` does.

A block of code that begins with a file's name goes into that file, and what the page says of `pyproject.toml` is done;
all the other blocks are run by tests/test_house.py.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
PARTS = "src", "docs", "bench", "examples", "tests", "pyproject.toml", "README.md"
PAGE = ROOT / "docs/how-to-extend.md"
SECTIONS = re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE)[1:]
LAYER = re.compile(r'`("[^"`]*) \| (\w+)"`')  # siblings, and the one to be put beside them


def blocks(section: str) -> tuple[list[tuple[str, str, str | None]], list[str]]:
    """Additions, each as a file of src/, what is put there and into which table; and the code to run."""
    added, run = [], []
    for code in re.findall(r"```python\n(.*?)```", section, re.DOTALL):
        where = re.match(r"# src/(glasshead/[\w/]+\.py)(, in (\w+))?\n", code)
        if where:
            added.append((where[1], code[where.end() :], where[3]))
        else:
            run.append(code)
    return added, run


def add(file: Path, code: str, inside: str | None) -> None:
    """At the end of the file, which may be new; or as the first entry of the table with that name."""
    text = file.read_text() if file.exists() else ""
    if inside:
        before, table, after = re.split(rf"(^{inside}\b.*?\((?=\n))", text, maxsplit=1, flags=re.MULTILINE | re.DOTALL)
        text = f"{before}{table}\n{code}{after}"
    file.write_text(text if inside else text + "\n" + code)


def extended(folder: Path) -> Path:
    """A copy of the tree with everything that the page adds."""
    for part in PARTS:
        if (ROOT / part).is_dir():
            shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / part, folder / part)
    for section in SECTIONS:
        for name, code, inside in blocks(section)[0]:
            add(folder / "src" / name, code, inside)
        for siblings, new in LAYER.findall(section):
            settings = (folder / "pyproject.toml").read_text()
            assert settings.count(f'{siblings}"') == 1, f"expected {siblings} once in pyproject.toml"
            (folder / "pyproject.toml").write_text(settings.replace(f'{siblings}"', f'{siblings} | {new}"'))
    return folder


BIN = Path(sys.executable).parent
ADDED = [f"src/{name}" for section in SECTIONS for name, *_ in blocks(section)[0]]
LINTERS = (
    ["ruff", "check", "--fix", "."],  # with the next one `make format`, which the page says to run
    ["ruff", "format", "."],
    ["pyright", "--pythonpath", sys.executable, "--project", "pyproject.toml", *ADDED],
    ["pyright", "--pythonpath", sys.executable, "--verifytypes", "glasshead", "--ignoreexternal"],
    ["lint-imports", "--no-logo", "--no-cache"],
)


def run(folder: Path, *command: str | Path) -> subprocess.CompletedProcess[str]:
    """A command of this environment, on the copy."""
    paths = os.environ | {"PYTHONPATH": os.pathsep.join([str(folder / "src"), str(folder)])}
    return subprocess.run([*map(str, command)], cwd=folder, env=paths, capture_output=True, text=True)


def main() -> int:
    with tempfile.TemporaryDirectory() as made:
        folder = extended(Path(made))
        for linter, *arguments in LINTERS:
            done = run(folder, BIN / linter, *arguments)
            if done.returncode:
                print(f"docs/how-to-extend.md: {linter} refuses what it adds\n{done.stdout}{done.stderr}")
                return 1
    print("docs/how-to-extend.md: what it adds passes the linters, too")
    return 0


if __name__ == "__main__":
    sys.exit(main())
