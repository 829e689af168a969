"""Mutants, tried one after the other: each in a fork of a process in which all tests are collected and ready to run."""

from __future__ import annotations

import gc
import inspect
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

from .reach import EARLY, ROOT, load_everything

STARTING = 2.0  # seconds of computing that a test may take beside what it takes without the change
TIMES_SLOWER = 4.0  # than without the change: a mutant that makes tests slower than that is noticed
WALL = 20.0  # times as much by the clock, should it wait instead of computing
# Tests of single parts come first,
NEAREST = (
    "tests/meters/",
    "tests/schemes/",
    "tests/checks/",
    "tests/joint/test_joint_parts.py",
    "tests/vector/test_parts",
)
RECORDED = "tests/recorded/"  # and those that compare runs with what they were last
TOO_LONG, NOT_LOADED = "it takes too long", "the module does not load"


@dataclass(frozen=True)
class Job:
    """A mutant by its name, the module and its code with the change, and the tests to try, in order, with the seconds
    that each takes without it."""

    name: str
    module: str
    code: CodeType | None
    tests: dict[str, float]


def chosen(tests: Iterable[str], seen: dict[str, tuple[float, list[str]]], limit: float) -> dict[str, float]:
    """The first tests that take no longer than the limit together, with their seconds."""
    ordered = sorted(tests, key=lambda test: (not test.startswith(NEAREST), test.startswith(RECORDED)))
    kept: dict[str, float] = {}
    for test in ordered:
        if kept and sum(kept.values()) + seen[test][0] > limit:
            break
        kept[test] = seen[test][0]
    return kept


def run_all(jobs: Iterable[Job], done: Callable[[Job, str], None]) -> None:
    """Says for each job which test fails, or what else goes wrong; "" where all pass."""
    load_everything()
    quiet = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-s", "--hypothesis-seed=0", "-W", EARLY]
    status = pytest.main([*quiet, f"--rootdir={ROOT}", str(ROOT / "tests")], [Loop(jobs, done)])
    if status not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        raise RuntimeError(f"tests could not be collected, pytest says {status!r}")


class Loop:
    """Instead of running its tests, pytest tries the jobs."""

    def __init__(self, jobs: Iterable[Job], done: Callable[[Job, str], None]):
        self.jobs, self.done = jobs, done

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        if session.testsfailed:
            raise RuntimeError(f"{session.testsfailed} errors while tests were collected")
        items = {item.nodeid: item for item in session.items}
        gc.collect()
        gc.freeze()  # forks share what is there, and would copy all of it to look for garbage
        for job in self.jobs:
            self.done(job, tried(job, {items[test]: seconds for test, seconds in job.tests.items() if test in items}))
        return True


def tried(job: Job, items: dict[pytest.Item, float]) -> str:
    told, tell = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(told)
        try:
            os.write(tell, first_failure(job, items).encode())
        finally:
            os._exit(0)
    os.close(tell)
    deadline = time.monotonic() + WALL * (STARTING + TIMES_SLOWER * sum(items.values()))
    while not (ended := os.waitpid(child, os.WNOHANG))[0]:
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
        time.sleep(0.02)
    with os.fdopen(told) as pipe:
        said = pipe.read()
    if os.WIFSIGNALED(ended[1]):
        return TOO_LONG
    if not said.startswith("="):
        raise RuntimeError(f"no answer about {job.name}")
    return said[1:]


def first_failure(job: Job, items: dict[pytest.Item, float]) -> str:
    """In the fork, after a "=": the test that fails."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1), os.dup2(nowhere, 2)
    allow(0.0)
    if job.code is not None:
        try:
            transplant(job.module, job.code)
        except Exception:
            return f"={NOT_LOADED}"
    for item, seconds in items.items():
        allow(seconds)
        if any(report.failed for report in runtestprotocol(item, log=False, nextitem=None)):
            return f"={item.nodeid}"
    return "="


def allow(seconds: float) -> None:
    """Ends this process where what comes next takes far longer than it should."""
    _, most = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time() + STARTING + TIMES_SLOWER * seconds) + 1, most))


def transplant(module: str, code: CodeType) -> None:
    """Puts the changed module in place of the one that everybody has imported already.

    Functions and classes stay the objects they are, and get the code of the changed ones; everything else is put in
    place of the old value wherever that goes by the same name.
    """
    name = "glasshead." + str(Path(module).with_suffix("")).replace("/", ".")
    live, fresh = sys.modules[name], ModuleType(name)
    fresh.__dict__.update({key: live.__dict__[key] for key in ("__file__", "__package__", "__spec__", "__loader__")})
    exec(code, fresh.__dict__)
    for key, new in list(fresh.__dict__.items()):
        old = live.__dict__.get(key)
        if key.startswith("__") or old is new:  # as everything is that it imports
            continue
        if isinstance(old, FunctionType) and isinstance(new, FunctionType):
            graft(old, new)
        elif inspect.isclass(old) and inspect.isclass(new):
            graft_class(old, new)
        else:
            put_everywhere(key, old, new)


def graft(old: FunctionType, new: FunctionType) -> None:
    old.__code__, old.__defaults__, old.__kwdefaults__ = new.__code__, new.__defaults__, new.__kwdefaults__


def graft_class(old: type, new: type) -> None:
    for key, part in vars(new).items():
        before = vars(old).get(key)
        if isinstance(part, FunctionType) and isinstance(before, FunctionType):
            if part.__code__.co_filename == "<string>":  # made by dataclass, with its defaults inside
                setattr(old, key, part)
            else:
                graft(before, part)
        elif isinstance(part, property) and isinstance(before, property):
            graft(before.fget, part.fget)  # type: ignore[arg-type]
        elif isinstance(part, classmethod | staticmethod):
            graft(before.__func__, part.__func__)  # type: ignore[union-attr]
        elif not key.startswith("__") and key != "_abc_impl":
            setattr(old, key, part)


def put_everywhere(key: str, old: Any, new: Any) -> None:
    for module in list(sys.modules.values()):
        space = getattr(module, "__dict__", {})
        if getattr(module, "__name__", "").startswith(("glasshead", "tests")) and space.get(key) is old:
            space[key] = new
