"""The tree of src/glasshead as docs/how-it-is-built.md shows it: rooms in the order of the layers, a sentence for each.

The order comes from the contracts in pyproject.toml, the sentences from the modules themselves.
"""

from __future__ import annotations

import ast
import re
import textwrap
import tomllib
from pathlib import Path

from .fresh import ROOT

SOURCE = ROOT / "src" / "glasshead"
PAGE = ROOT / "docs" / "how-it-is-built.md"
WIDTH, INDENT = 120, 20


def layers() -> list[list[str]]:
    """The lowest first; what stands on one line of the contract is one layer."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    lines = next(contract["layers"] for contract in contracts if contract.get("id") == "layers")
    split = [[name.strip(" ()") for name in re.split(r"[|:]", line)] for line in reversed(lines)]
    return [names for names in split if names != ["__main__"]]


def sentence(module: Path) -> str:
    """The first sentence of its docstring: up to a dot outside of code that no abbreviation, with a dot inside, ends
    in."""
    text = ast.get_docstring(ast.parse((module / "__init__.py" if module.is_dir() else module).read_text())) or ""
    words = " ".join(text.split("\n\n")[0].split())
    ends = [dot.end() for dot in re.finditer(r"(?<!\.\w)\.(?=\s)", words)]
    return next((words[:end] for end in ends if words.count("`", 0, end) % 2 == 0), words)


def here(folder: Path) -> list[Path]:
    """The files of a package, private ones last."""
    return sorted(folder.glob("[!_]*.py")) + sorted(folder.glob("_[!_]*.py"))


def packages(folder: Path) -> list[Path]:
    return sorted(init.parent for init in folder.glob("*/__init__.py"))


def files(module: Path) -> list[Path]:
    """A module, or the files of a package and of those in it."""
    if not module.is_dir():
        return [module]
    return here(module) + [file for package in packages(module) for file in files(package)]


def escaped(text: str) -> str:
    return text.replace("|", "\\|")


def home(name: str) -> Path:
    return SOURCE / name if (SOURCE / name).is_dir() else SOURCE / f"{name}.py"


def line(start: str, text: str) -> str:
    return textwrap.fill(text, WIDTH, initial_indent=f"{start:<{INDENT}} ", subsequent_indent=" " * (INDENT + 1))


def room(module: Path, start: str, depth: int = 0) -> list[str]:
    """A module with its sentence; of a package the names of its files, and the packages in it."""
    name = "  " * depth + module.stem + "/" * module.is_dir()
    said = [line(f"{start:>2}  {name}", sentence(module))]
    if module.is_dir():
        said.append(line("", f"[{', '.join(file.stem for file in here(module))}]"))
        for inner in packages(module):
            said += room(inner, "", depth + 1)
    return said


def picture() -> str:
    said = ["src/glasshead/"]
    for number, names in enumerate(layers()):
        for place, name in enumerate(names):
            said += room(home(name), "" if place else str(number))
    return "```\n" + "\n".join(said) + "\n```"


def index() -> str:
    """Every file with its sentence."""
    rows = ["| file | what it holds |", "|---|---|"]
    for name in (name for names in layers() for name in names):
        rows += [f"| `{file.relative_to(SOURCE)}` | {escaped(sentence(file))} |" for file in files(home(name))]
    return "\n".join(rows)


def page() -> str:
    """The page as it is, with both lists made anew."""
    text = PAGE.read_text()
    for name, made in (("tree", picture()), ("files", index())):
        before, opened, rest = text.partition(f"<!-- {name} -->\n")
        _, closed, after = rest.partition(f"<!-- /{name} -->")
        assert closed, f"expected <!-- {name} --> and <!-- /{name} --> in {PAGE.name}"
        text = f"{before}{opened}{made}\n{closed}{after}"
    return text
