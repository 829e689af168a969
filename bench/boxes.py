"""What it costs to ask a box that is a server: time of the client over the time in the server's request handler."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from tests.boxes.served import Served

import glasshead as gh

Progress = Callable[[int, int, str], None]

DIM, SEQUENCES, TOKENS = 64, 1024, 2
ROUNDS, REQUESTS = 7, 15  # the row is the median of so many rounds of so many requests


def over_http(binary: bool) -> dict[str, Any]:
    """Requests of 1024 sequences of 2 tokens: wall-clock time here, over time in the handler, parsing included."""
    X = np.random.default_rng(0).standard_normal((SEQUENCES, TOKENS, DIM))
    with tempfile.TemporaryDirectory() as folder:
        gh.save(gh.Attention.random(DIM, seed=1), Path(folder) / "head.safetensors")
        with Served(Path(folder) / "head.safetensors", "--whole") as server:
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


# Name, how it is measured, and the most that "times" may be, if that was promised.
ROWS: tuple[tuple[str, Callable[[], dict[str, Any]], float | None], ...] = (
    ("V2, binary", lambda: over_http(True), 2.5),
    ("V2, JSON", lambda: over_http(False), None),
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
