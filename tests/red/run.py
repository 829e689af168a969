"""One box: asked, judged, never waited for longer than allowed; and many of them in processes that may be killed."""

from __future__ import annotations

import multiprocessing
import os
import re
import resource
import signal
import time
import traceback
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait

import glasshead as gh

from . import broken, cases, inside, layers, lengths, nearly, networks, others, outputs, scores, tokens, unsteady  # noqa: F401
from .box import Box, build, group_of, oracle
from .judge import Verdict, judge

LIMIT = 120.0  # seconds of the processor for one recovery
GRACE = 10.0  # times that much time on the clock, then the process is killed: the machine may be busy
MEMORY = 8 * 2**30  # bytes of address space: a box of a billion dimensions must be refused, not tried
FAILURES = ("wrong", "crash", "slow")
BAD = (*FAILURES, "empty")
INSIDE = "a calculation inside glasshead failed"  # the library's last line of defence, which no box should reach
ADVICE = re.compile(r"(?<=promise )(tolerance|rtol)=([0-9]+\.?[0-9]*(?:e[+-]?[0-9]+)?)")
REFUSED_QUESTION = "the oracle raised ValueError"  # a token longer than max_norm, say, which the library must not send
# BLAS raises these in lanes it only pads with, as pyproject.toml has it; heads that may be one are said with a warning.
HARMLESS = ("encountered in matmul",)


LOADED = gh.recover, gh.canonical  # here, once, and not in every process


class TimeUp(BaseException):
    """Not an Exception, so that nothing on the way takes it for one of its own."""


def time_up(*_):
    raise TimeUp


def inner_warnings(caught: list) -> list[str]:
    return [
        f"{entry.category.__name__}: {entry.message} ({os.path.basename(entry.filename)}:{entry.lineno})"
        for entry in caught
        if not issubclass(entry.category, gh.HeadsMerged) and not any(words in str(entry.message) for words in HARMLESS)
    ]


def where(error: BaseException) -> str:
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "glasshead" in f.filename]
    return f" at {os.path.basename(frames[-1].filename)}:{frames[-1].lineno}" if frames else ""


def run(name: str, seed: int, limit: float = LIMIT) -> dict:
    """What came of that box: its `outcome`, why in words, and numbers."""
    record: dict = {"kind": name, "seed": seed, "group": group_of(name)}
    start = time.process_time()
    try:
        signal.signal(signal.SIGPROF, time_up)
        signal.setitimer(signal.ITIMER_PROF, limit)
        try:
            box = build(name, seed)
            record["expect"] = box.expect
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                outcome = attempt(box, seed, record)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
    except TimeUp:
        outcome, caught = ("slow", f"over {limit:g} seconds"), []
    if outcome[0] not in FAILURES and (inner := inner_warnings(caught)):
        outcome = "crash", f"{outcome[0]}, with a warning from inside: {inner[0]}"
    return record | {"outcome": outcome[0], "why": outcome[1], "seconds": round(time.process_time() - start, 2)}


def attempt(box: Box, seed: int, record: dict, advised: str = "") -> tuple[str, str]:
    """One recovery, judged. Where a refusal advises a promise, that is followed, once: it must not lead to a lie."""
    try:
        asked = oracle(box)
    except (ValueError, TypeError) as error:
        words = f"{type(error).__name__} at construction: {error}"
        return ("crash", f"advice that cannot be followed, {advised}: {words}") if advised else ("refused", words)
    try:
        found = gh.recover(asked, **box.arguments)
    except gh.GlassheadError as error:
        record["error"] = type(error).__name__
        if INSIDE in str(error) or REFUSED_QUESTION in str(error):
            return "crash", f"{str(error)[:160]}{where(error.__cause__ or error)}"
        words = f"{type(error).__name__}: {str(error)[:160]}"
        outcome = "missed" if box.expect == "recover" else "refused", words
        promise = ADVICE.search(str(error))
        if promise is None or advised or box.yes_no:
            return outcome
        again = replace(box, promise=box.promise | {promise[1]: float(promise[2])}, expect="either")
        numbers: dict = {}
        followed = attempt(again, seed, numbers, promise[0])
        record |= numbers if followed[0] in BAD else {}
        return (followed[0], f"following the advice {promise[0]!r}: {followed[1]}") if followed[0] in BAD else outcome
    except Exception as error:
        if isinstance(error, ValueError) and asked.queries == 0:
            return "refused", f"ValueError before the first question: {error}"
        return "crash", f"{type(error).__name__}{where(error)}: {str(error)[:160]}"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        verdict = judge(box, found, seed)
    record |= verdict.numbers | {
        "queries": found.queries, "family": found.family, "heads": found.heads, "bound": found.bound,
        "confidence": found.confidence, "residual": found.residual,
        "sequences": 0 if found.checked is None else found.checked.sequences,
    }  # fmt: skip
    return outcome_of(box, verdict)


def outcome_of(box: Box, verdict: Verdict) -> tuple[str, str]:
    if verdict.why:
        return "wrong", verdict.why + (f" [and empty: {verdict.empty}]" if verdict.empty else "")
    if verdict.empty:
        return "empty", verdict.empty
    return ("accepted" if box.expect == "refuse" else "right"), ""


def serve(pipe: Connection, limit: float) -> None:
    """A worker: boxes by name and seed come in, records go out."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    parent = os.getppid()
    while os.getppid() == parent:  # other workers hold the pipe open, too: its end says nothing
        if not pipe.poll(1.0):
            continue
        task = pipe.recv()
        try:
            pipe.send(run(*task, limit))
        except Exception as error:  # the red team's own
            words = f"{type(error).__name__}: {error}\n{traceback.format_exc()}"
            pipe.send(
                {"kind": task[0], "seed": task[1], "outcome": "unjudged", "why": words, "group": group_of(task[0])}
            )


@dataclass
class Worker:
    limit: float
    task: tuple[str, int] | None = None
    since: float = 0.0

    def __post_init__(self):
        context = multiprocessing.get_context("fork")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=serve, args=(theirs, self.limit), daemon=True)
        self.process.start()
        theirs.close()

    def give(self, task: tuple[str, int]) -> None:
        self.task, self.since = task, time.monotonic()
        self.pipe.send(task)

    def late(self) -> bool:
        return self.task is not None and time.monotonic() - self.since > self.patience

    @property
    def patience(self) -> float:
        return GRACE * max(self.limit, LIMIT)

    def end(self) -> None:
        self.process.kill()
        self.process.join()
        self.pipe.close()


def run_all(tasks: Iterable[tuple[str, int]], workers: int, limit: float = LIMIT) -> Iterator[dict]:
    """Records as they come, in no particular order."""
    todo, team = iter(tasks), [Worker(limit) for _ in range(workers)]
    try:
        for worker in team:
            if (task := next(todo, None)) is not None:
                worker.give(task)
        while any(worker.task for worker in team):
            ready = wait([worker.pipe for worker in team if worker.task], timeout=1.0)
            for place, worker in enumerate(team):
                record = None
                if worker.pipe in ready:
                    record = received(worker)
                elif worker.late():
                    record = lost(worker, "slow", f"killed after {worker.patience:g} seconds")
                if record is None:
                    continue
                yield record
                if not worker.process.is_alive() or record.get("killed"):
                    worker.end()
                    worker = team[place] = Worker(limit)
                worker.task = None
                if (task := next(todo, None)) is not None:
                    worker.give(task)
    finally:
        for worker in team:
            worker.end()


def received(worker: Worker) -> dict:
    try:
        return worker.pipe.recv()
    except EOFError:
        return lost(worker, "crash", "the process died")


def lost(worker: Worker, outcome: str, why: str) -> dict:
    name, seed = worker.task or ("", 0)
    return {"kind": name, "seed": seed, "group": group_of(name), "outcome": outcome, "why": why, "killed": True}
