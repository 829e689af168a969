"""Boxes that are servers: what it costs to ask them, over the time in the server's request handler, and whether a
recovery is the same, bit for bit, where requests fail or the server is killed and started again in the middle."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from tests.boxes.served import Served

import glasshead as gh

Progress = Callable[[int, int, str], None]

DIM, SEQUENCES, TOKENS = 64, 1024, 2
ROUNDS, REQUESTS = 7, 15  # a cost is the median of so many rounds of so many requests
SMALL = 16  # the dimension of a head whose server fails
SEEDS = 10  # recoveries in which a fifth of all requests fails
KILLS = 50  # of a server, in as many recoveries as it takes


@contextmanager
def served(dim: int, *options: Any) -> Generator[tuple[gh.Attention, Served]]:
    """A head, and a server of it."""
    with tempfile.TemporaryDirectory() as folder:
        head, path = gh.Attention.random(dim, seed=1), Path(folder) / "head.safetensors"
        gh.save(head, path)
        with Served(path, *options) as server:
            yield head, server


def over_http(binary: bool) -> dict[str, Any]:
    """Requests of 1024 sequences of 2 tokens: wall-clock time here, over time in the handler, parsing included."""
    X = np.random.default_rng(0).standard_normal((SEQUENCES, TOKENS, DIM))
    with served(DIM, "--whole") as (_, server):
        oracle = gh.from_http(server.url, binary=binary)
        rounds = [one_round(oracle, server, X) for _ in range(ROUNDS)]
    here, there = (statistics.median(times) for times in zip(*rounds, strict=True))
    return {"milliseconds": 1e3 * here, "handler": 1e3 * there, "times": statistics.median(a / b for a, b in rounds)}


def one_round(oracle: gh.Oracle, server: Served, X: np.ndarray) -> tuple[float, float]:
    """Seconds for a request, here and in the handler."""
    before, start = server.stats()["seconds"], perf_counter()
    for _ in range(REQUESTS):
        oracle(X)
    here = perf_counter() - start
    return here / REQUESTS, (server.stats()["seconds"] - before) / REQUESTS


def same(found: gh.Recovery, local: gh.Recovery) -> bool:
    equal = all(np.array_equal(getattr(found.model, name), getattr(local.model, name)) for name in ("W", "v"))
    return equal and (found.bound, found.reason) == (local.bound, local.reason)


def undisturbed(head: gh.Attention) -> gh.Recovery:
    """What is found without a server in between, each sequence on its own as the server has it."""
    return gh.recover(gh.ValueOracle(lambda X: np.array([head(np.array(x)) for x in X]), head.dim))


def with_faults() -> dict[str, Any]:
    """A fifth of all requests is answered 503 or 429, dropped before or after it was read, late or truncated."""
    runs, right, failed, resent = 0, 0, 0, 0
    with served(SMALL) as (head, server):
        local = undisturbed(head)
        for seed in range(SEEDS):
            server.change(faults=0.2, seed=seed, late=0.5)
            oracle = gh.from_http(server.url, timeout=0.3)
            found, runs = gh.recover(oracle), runs + 1
            right += same(found, local) and found.queries >= server.stats()["received"]
            failed += sum(server.stats()[kind] for kind in ("busy", "limit", "unread", "dropped", "late", "truncated"))
            resent += oracle.resent
    return {"runs": runs, "same": right, "failed": failed, "resent": resent}


def with_kills() -> dict[str, Any]:
    """The server is killed at random moments and started again."""
    runs, right, kills, resent = 0, 0, 0, 0
    with served(SMALL, "--sleep", 0.002) as (head, server):
        local = undisturbed(head)
        while kills < KILLS:
            oracle = gh.from_http(server.url, batch=64)
            with server.killed_now_and_then(runs, 0.05, 0.4) as times:
                found = gh.recover(oracle)
            runs, right, kills, resent = (
                runs + 1,
                right + same(found, local),
                kills + len(times),
                resent + oracle.resent,
            )
    return {"runs": runs, "same": right, "failed": kills, "resent": resent}


# Name, how it is measured, and the most that "times" may be, where that was promised.
ROWS: tuple[tuple[str, Callable[[], dict[str, Any]], float | None], ...] = (
    ("V2, binary", lambda: over_http(True), 2.5),
    ("V2, JSON", lambda: over_http(False), None),
    ("a fifth of all requests fails", with_faults, None),
    ("the server is killed", with_kills, None),
)


def run(progress: Progress) -> dict[str, Any]:
    rows = []
    for done, (name, measure, most) in enumerate(ROWS):
        progress(done, len(ROWS), name)
        rows.append({"box": name, "most": most} | measure())
    return {"dim": DIM, "sequences": SEQUENCES, "tokens": TOKENS, "rows": rows}


def broken(result: dict[str, Any]) -> Iterable[str]:
    for row in result["rows"]:
        if row["most"] is not None and row["times"] > row["most"]:
            yield f"{row['box']}: {row['times']:.2f} times, more than {row['most']}"
        if row.get("same") != row.get("runs"):
            yield f"{row['box']}: {row['same']} of {row['runs']} recoveries are the same"
