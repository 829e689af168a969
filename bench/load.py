"""A server under load: clients that ask as fast as they are answered, for a minute; errors, latency and memory."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from time import monotonic, perf_counter
from typing import Any

import numpy as np
from tests.serve.fuzz import resident
from tests.serve.running import Running

import glasshead as gh

Progress = Callable[[int, int, str], None]

CLIENTS, SECONDS, WARM = 8, 60, 5
DIM, SEQUENCES, TOKENS = 64, 32, 16  # of a request
MOST_GROWTH = 1.1  # of memory, after the first seconds


def client(url: str, seed: int, end: float, times: list[float], errors: list[str]) -> None:
    """Ask fresh questions until the end; half of the clients in binary."""
    X = np.random.default_rng(seed).standard_normal((SEQUENCES, TOKENS, DIM))
    try:
        oracle = gh.from_http(url, binary=seed % 2 == 0)
        while monotonic() < end:
            start = perf_counter()
            oracle(X)
            times.append(perf_counter() - start)
        if oracle.resent:
            errors.append(f"{oracle.resent} sequences were sent again")
    except gh.GlassheadError as error:
        errors.append(str(error))


def asked_for(url: str, seconds: float) -> tuple[list[float], list[str]]:
    """How long each request of all clients took, and what went wrong."""
    times, errors = [], []
    end = monotonic() + seconds
    threads = [threading.Thread(target=client, args=(url, n, end, times, errors)) for n in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return times, errors


def run(progress: Progress) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "head.safetensors"
        gh.save(gh.Attention.random(DIM, seed=1), path)
        with Running(path, "--watch") as server:
            progress(0, SECONDS + WARM, "warm")
            asked_for(server.url, WARM)
            before = resident(server.process.pid)
            progress(WARM, SECONDS + WARM, f"{CLIENTS} clients")
            times, errors = asked_for(server.url, SECONDS)
            after = resident(server.process.pid)
            failed = sum(line.get("status", 200) != 200 for line in server.lines)
    half, most, longest = (float(1e3 * np.quantile(times, q)) for q in (0.5, 0.99, 1.0))
    sizes = {"clients": CLIENTS, "seconds_each": SECONDS, "dim": DIM, "sequences": SEQUENCES, "tokens": TOKENS}
    latency = {"requests": len(times), "median": half, "99%": most, "longest": longest}
    return sizes | latency | {"errors": len(errors) + failed, "memory": {"before": before, "after": after}}


def broken(result: dict[str, Any]) -> Iterable[str]:
    if result["errors"]:
        yield f"load: {result['errors']} errors"
    if result["memory"]["after"] > MOST_GROWTH * result["memory"]["before"]:
        yield f"load: memory has grown from {result['memory']['before']:.0f} to {result['memory']['after']:.0f} MiB"
