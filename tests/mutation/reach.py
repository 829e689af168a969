"""Which test runs which function of the library, and how long it takes: a plugin of pytest that hears all calls."""

from __future__ import annotations

import ast
import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from .mutants import SOURCE, Mutant

ROOT = SOURCE.parents[1]
KEPT = ROOT / ".mutation" / "reach.json"  # not committed: it takes one run of the tests to make
EARLY = "ignore::pytest.PytestAssertRewriteWarning"  # plugins are loaded before pytest starts


class Listening:
    """Hears every call of a function of the library while a test runs."""

    def __init__(self) -> None:
        self.heard: set[Any] = set()
        self.tests: dict[str, tuple[float, list[str]]] = {}
        self.failed: set[str] = set()

    def _call(self, frame: Any, event: str, argument: Any) -> None:
        self.heard.add(frame.f_code)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item):
        self.heard.clear()
        start = time.process_time()
        sys.settrace(self._call)
        try:
            return (yield)
        finally:
            sys.settrace(None)
            names = {name for code in self.heard if (name := function_name(code)) is not None}
            self.tests[item.nodeid] = (round(time.process_time() - start, 3), sorted(names))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not report.passed:
            self.failed.add(report.nodeid)


def function_name(code: Any) -> str | None:
    """`module.py:Class.method`, for code of the library."""
    path = Path(code.co_filename)
    if not path.is_relative_to(SOURCE):
        return None
    return f"{path.relative_to(SOURCE)}:{code.co_qualname.split('.<locals>')[0]}"


def load_everything() -> None:
    """Imports the library before pytest does, so that the hook which checks shapes has nothing to do: it is slow."""
    import importlib
    import pkgutil

    import glasshead

    for found in pkgutil.walk_packages(glasshead.__path__, "glasshead."):
        if not found.name.endswith("__main__"):
            importlib.import_module(found.name)


def record(arguments: list[str]) -> None:
    load_everything()
    listening = Listening()
    pytest.main(
        ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-m", "not slow", "-W", EARLY, *arguments], [listening]
    )
    tests = {name: seen for name, seen in listening.tests.items() if name not in listening.failed}
    before = json.loads(KEPT.read_text()) if KEPT.exists() and arguments else {}
    KEPT.parent.mkdir(exist_ok=True)
    KEPT.write_text(json.dumps(before | tests))


def names_that_depend_on(constant: str, trees: dict[str, ast.Module]) -> set[str]:
    """A name at the top of a module, and those at the top of any that are made from it."""
    names: set[str] = {constant}
    while True:
        more = {
            target.id
            for tree in trees.values()
            for statement in tree.body
            if isinstance(statement, ast.Assign) and uses(statement.value, names)
            for target in ast.walk(statement)
            if isinstance(target, ast.Name) and isinstance(target.ctx, ast.Store)
        }
        if more <= names:
            return names
        names |= more


def uses(node: ast.AST, names: set[str]) -> bool:
    return any(isinstance(part, ast.Name) and part.id in names for part in ast.walk(node))


class Reach:
    """Tests by what they run."""

    def __init__(self) -> None:
        self.tests: dict[str, tuple[float, list[str]]] = json.loads(KEPT.read_text())
        self.by_function: dict[str, set[str]] = {}
        for test, (_, functions) in self.tests.items():
            for function in functions:
                self.by_function.setdefault(function, set()).add(test)
        self.trees = {str(path.relative_to(SOURCE)): ast.parse(path.read_text()) for path in SOURCE.rglob("*.py")}

    def of(self, mutant: Mutant) -> list[str]:
        """The tests that run what was changed, the quickest first."""
        home = f"{mutant.module}:{mutant.function}"
        functions = {home} if home in self.by_function else self._inside(mutant) or self._users(mutant)
        tests = set().union(*(self.by_function.get(name, set()) for name in functions))
        return sorted(tests, key=lambda test: self.tests[test][0])

    def of_module(self, module: str) -> list[str]:
        tests = {t for name, tests in self.by_function.items() if name.startswith(f"{module}:") for t in tests}
        return sorted(tests, key=lambda test: self.tests[test][0])

    def _inside(self, mutant: Mutant) -> set[str]:
        """The methods of a class whose own lines are changed; where it has none, the functions beside it."""
        if not mutant.function:
            return set()
        own = {name for name in self.by_function if name.startswith(f"{mutant.module}:{mutant.function}.")}
        return own or {name for name in self.by_function if name.startswith(f"{mutant.module}:")}

    def _users(self, mutant: Mutant) -> set[str]:
        """Functions that use what a line at the top of a module defines."""
        statement = ast.parse(mutant.line.split("#")[0].strip().rstrip("(,") or "pass") if parses(mutant.line) else None
        named = {n.id for n in ast.walk(statement) if isinstance(n, ast.Name)} if statement else set()
        names = set().union(*(names_that_depend_on(name, self.trees) for name in named))
        found = set()
        for path, tree in self.trees.items():
            for name, node in functions_of(tree, ""):
                if uses(node, names):
                    found.add(f"{path}:{name}")
        return found or {name for name in self.by_function if name.startswith(f"{mutant.module}:{mutant.function}")}


def parses(line: str) -> bool:
    try:
        ast.parse(line.split("#")[0].strip().rstrip("(,") or "pass")
    except SyntaxError:
        return False
    return True


def functions_of(node: ast.AST, prefix: str):
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef):
            yield f"{prefix}{child.name}", child
        elif isinstance(child, ast.ClassDef):
            yield from functions_of(child, f"{prefix}{child.name}.")


if __name__ == "__main__":
    record(sys.argv[1:])
