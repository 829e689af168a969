"""The tree keeps its shape, the pages that show it name what exists, and what they say how to add can be added."""

from __future__ import annotations

import ast
import builtins
import dataclasses
import functools
import importlib
import inspect
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest
from bench import tree

import glasshead as gh
from glasshead import _errors

from .asking import Package, says_so
from .extending import SECTIONS, add, blocks, extended, run

ROOT, SOURCE = tree.ROOT, tree.SOURCE
PAGES = {
    name: (ROOT / name).read_text() for name in ("README.md", *(f"docs/{p.name}" for p in ROOT.glob("docs/how-*.md")))
}
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]


def test_few_rooms_at_the_top():
    entries = {path.name for path in SOURCE.iterdir()} - {"__pycache__", "py.typed"}
    assert len({name for name in entries if not name.startswith("__")}) <= 34


def test_hardly_a_name_is_defined_twice():
    """But for what siblings must have, `command` and `EXAMPLES` of the command line."""
    homes: dict[str, set[Path]] = {}
    for path in SOURCE.rglob("*.py"):
        for statement in ast.parse(path.read_text()).body:
            for name in defined(statement):
                homes.setdefault(name, set()).add(path)
    twice = sorted(name for name, paths in homes.items() if len(paths) > 1)
    assert len(twice) <= 30, twice


def defined(statement: ast.stmt) -> list[str]:
    """The names that a statement at the top of a module gives to something."""
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return [statement.name]
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    targets = [statement.target] if isinstance(statement, ast.AnnAssign) else targets
    return [part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name)]


def test_files_are_ideas_of_at_most_250_lines():
    lines = {path: len(path.read_text().splitlines()) for path in SOURCE.rglob("*.py")}
    assert {str(path.relative_to(SOURCE)): count for path, count in lines.items() if count > 250} == {}


def test_laws_are_named_once():
    """What evidence quotes is a name of `_errors`, or begins with one: routes are chosen by comparing these strings."""
    names = {name: value for name, value in vars(_errors).items() if name.isupper() and isinstance(value, str)}
    for path in sorted(set(SOURCE.rglob("*.py")) - {SOURCE / "_errors.py"}):
        parts = list(ast.walk(ast.parse(path.read_text())))
        again = {part.value for part in parts if isinstance(part, ast.Constant)} & set(names.values())
        assert again == set(), f"{path} writes what has a name in _errors"
        for law in (law for part in parts for law in laws_quoted(part)):
            law = law.values[0] if isinstance(law, ast.JoinedStr) else law
            assert not isinstance(law, ast.Constant), f"{path}:{law.lineno} quotes a law that has no name in _errors"
            assert not isinstance(law, ast.Name) or law.id.islower() or law.id in names, f"{path}:{law.lineno} {law.id}"


def laws_quoted(part: ast.AST) -> list[ast.expr]:
    """The laws in `Evidence(law, ..)`, `compared.evidence(law)`, `replace(evidence, law=law)` and `law = ..`."""
    if isinstance(part, ast.Assign):
        return [part.value] if "law" in [getattr(target, "id", "") for target in part.targets] else []
    if not isinstance(part, ast.Call):
        return []
    name = part.func.attr if isinstance(part.func, ast.Attribute) else getattr(part.func, "id", "")
    first = part.args[:1] if name in ("Evidence", "evidence") else []
    return first + [keyword.value for keyword in part.keywords if keyword.arg == "law"]


MIDDLES = re.compile(r"(Also|And|But|Every W|Of|Or|Such|The same|With|Without)\b")


def test_docstrings_stand_alone():
    """None begins in the middle of a sentence, or with what is only clear below the function above it."""
    begun = []
    for path in SOURCE.rglob("*.py"):
        for part in ast.walk(ast.parse(path.read_text())):
            said = ast.get_docstring(part) if isinstance(part, ast.FunctionDef | ast.ClassDef) else None
            if said and MIDDLES.match(said):
                begun.append(f"{path.relative_to(SOURCE)}:{part.lineno} {said.splitlines()[0]}")
    assert begun == []


PROTOCOL = "columns", "full", "low_rank"  # of meters, and the schemes that call it
ANSWERING = "_boxes", "_models", "_serve"  # what is asked: it reads files, servers and its own numbers
UNFOLLOWED = {
    "_oracles.box:BoxOracle._ask": "it calls the user's function",
    "_recover.surroundings:recover_inside": "`_families` names the function that asks",
}


def misnamed(source: Path) -> list[str]:
    """Functions that ask, whose names do not say so; but for public names, the protocol, and adapters to boxes."""
    asking = [one for one in Package(source).asking if not one.name.startswith("__") and not says_so(one.name)]
    modules = gh, gh.paper, gh.baselines
    public = {name for module in modules for name in dir(module) if callable(getattr(module, name))}
    adapters = {one.name for one in asking if one.module.startswith("_boxes.") and one.name.startswith("from_")}
    return sorted(str(one) for one in asking if one.name not in {*public, *PROTOCOL, *adapters})


def test_what_asks_is_named_with_a_verb():
    """The unit of cost is the query, so a name says whether a call spends any."""
    assert misnamed(SOURCE) == []


def test_what_is_named_with_such_a_verb_asks():
    """Itself, or by what it is handed, or by what is named so."""
    package = Package(SOURCE)
    named = [one for one in package.functions if says_so(one.name) and one.module.partition(".")[0] not in ANSWERING]
    idle = [one for one in named if one not in package.asking and not one.called and not any(map(says_so, one.names))]
    assert sorted(map(str, idle)) == sorted(UNFOLLOWED)


BOX = """
class Oracle:
    def __call__(self, X): ...

class View:
    def __init__(self, oracle: Oracle):
        self.inner = oracle

    def __call__(self, X):
        return self.inner(-X)

class Meter:
    oracle: Oracle

    def {name}(self, X):
        return {question}

def apply(f, X):
    return f(X)

def shape(oracle: Oracle, X):
    return oracle.dim, X.shape
"""


@pytest.mark.parametrize(
    "question",
    [
        "self.oracle(X)",
        "View(self.oracle)(X)",
        "apply(self.oracle, X)",
        "apply(lambda x: self.oracle(x), X)",
        "[self.read(x) for x in X]",
    ],
)
def test_a_participle_that_asks_is_noticed(question, tmp_path):
    for name, said in [("tuned", ["box:Meter.tuned"]), ("read_tuned", []), ("__call__", [])]:
        more = "\n    def read(self, x):\n        return self.oracle(x)\n" if "read" in question else ""
        code = BOX.format(name=name, question=question)
        (tmp_path / "box.py").write_text(code.replace("\ndef apply", f"{more}\ndef apply"))
        assert misnamed(tmp_path) == said


@pytest.mark.parametrize("quiet", ["shape(self.oracle, X)", "apply(abs, X)", "self.oracle.dim"])
def test_a_participle_that_calculates_is_none_that_asks(quiet, tmp_path):
    (tmp_path / "box.py").write_text(BOX.format(name="tuned", question=quiet))
    assert misnamed(tmp_path) == []


NAME = re.compile(r"`([A-Za-z_]\w{2,})(?:\[[^`\]]*\])?`")  # alone, or with an index: not a formula
SUBSCRIPTED = re.compile(r"[A-Za-z]_\w$")  # k_h, B_h


@functools.cache
def modules() -> list[ModuleType]:
    paths = [path for path in sorted(SOURCE.rglob("*.py")) if not path.stem.startswith("__")]
    names = [path.relative_to(SOURCE).with_suffix("").parts for path in paths]
    return [importlib.import_module(".".join(("glasshead", *parts))) for parts in names]


def test_docstrings_of_dataclasses_name_their_fields():
    """A name in backticks is one of the class, of its module, a class or a constant of any, or of Python's."""
    elsewhere = {name for module in modules() for name in vars(module) if name[0].isupper()} | set(dir(builtins))
    unknown = []
    for module in modules():
        for each in vars(module).values():
            if not (inspect.isclass(each) and dataclasses.is_dataclass(each) and each.__module__ == module.__name__):
                continue
            fields = {field.name for field in dataclasses.fields(each)}
            known = fields | set(dir(each)) | set(vars(module)) | elsewhere
            named = set(NAME.findall(each.__doc__ or "")) - known
            unknown += [f"{module.__name__}.{each.__name__} {x}" for x in sorted(named) if not SUBSCRIPTED.match(x)]
    assert unknown == []


def test_docstrings_name_constants_and_classes_that_exist():
    """Constants in any formula of any docstring, and what the docstring of a module says about a class."""
    everywhere = {name for module in modules() for name in vars(module)}
    unknown = []
    for module in modules():
        assert module.__file__
        tree = ast.parse(Path(module.__file__).read_text())
        said = [ast.get_docstring(part) for part in ast.walk(tree) if isinstance(part, ast.FunctionDef | ast.ClassDef)]
        code = [code for text in (module.__doc__, *said) for code in re.findall(r"`([^`]*)`", text or "")]
        constants = {name for each in code for name in re.findall(r"(?<![\w.])[A-Z][A-Z0-9][A-Z_0-9]{2,}(?!\w)", each)}
        classes = set(re.findall(r"`((?:[A-Z][a-z]+){2,})`", module.__doc__ or "")) - set(vars(module))
        unknown += [f"{module.__name__} {name}" for name in sorted(constants - everywhere)]
        unknown += [f"{module.__name__} {name}" for name in sorted(classes)]
    assert unknown == []


def test_every_package_is_closed():
    """One contract for each: only its own modules import from inside it."""
    packages = {".".join(("glasshead", *init.parent.relative_to(SOURCE).parts)) for init in SOURCE.rglob("__init__.py")}
    closed = [contract["allowed_importers"] for contract in CONTRACTS if contract["type"] == "protected"]
    assert sorted(closed) == sorted([name] for name in packages - {"glasshead"})


@pytest.mark.parametrize("page", PAGES)
def test_pages_name_files_that_exist(page):
    """`_meters/value.py`, `_checks/`, and with the source in front: `src/glasshead/_plan.py`."""
    named = set(re.findall(r"`(?:src/glasshead/)?([a-z_0-9/]+(?:\.py|/))`", PAGES[page]))
    named -= {"src/glasshead/", *re.findall(r"`((?:docs|tests|bench|examples)/[a-z_0-9/.]*)`", PAGES[page])}
    assert named
    assert [name for name in sorted(named) if not (SOURCE / name).exists()] == []


def test_a_sentence_is_whole():
    said = {file.stem: tree.sentence(file) for file in (SOURCE / "paper").glob("theorem_*.py")}
    assert said["theorem_5_1"].endswith("Gaussian rank-one measurements and the nuclear norm.")
    assert tree.sentence(SOURCE / "_models") == "What a box may be: parameters and a forward pass."
    assert "(x_i . (W x_N + key_bias))" in tree.sentence(SOURCE / "_learners/attention.py")
    assert [line for line in tree.index().splitlines() if line.count("`") % 2] == []


ADDING = [section for section in SECTIONS if blocks(section)[1]]


@pytest.mark.parametrize("section", ADDING, ids=lambda section: section.partition("\n")[0])
def test_what_can_be_added_works(section, tmp_path):
    """On a copy of the library: code that begins with a file's name goes into that file, the rest is run."""
    shutil.copytree(SOURCE, tmp_path / "glasshead", ignore=shutil.ignore_patterns("__pycache__"))
    added, examples = blocks(section)
    assert added
    for name, code, inside in added:
        add(tmp_path / name, code, inside)
    for code in examples:
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", code],
            cwd=tmp_path,
            env={"PYTHONPATH": str(tmp_path)},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr


HELD = ("test_families", "test_house", "test_public", "test_pages")  # tests that a new file may offend


@pytest.mark.slow
def test_what_is_added_passes_the_tests_of_the_house(tmp_path):
    """All of it in one copy, after `make tables`, as the page says to run; `make lint` runs the linters on one."""
    folder = extended(tmp_path)
    made = run(folder, sys.executable, "-m", "bench.pages")
    assert made.returncode == 0, made.stderr
    assert "mean.py" in (folder / "docs/how-it-is-built.md").read_text()
    chosen = [f"tests/{name}.py" for name in HELD]
    left_out = "not what_can_be_added and not what_is_added and not promise and not example"
    done = run(folder, sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-n", "0", *chosen, "-k", left_out)
    assert done.returncode == 0, done.stdout
