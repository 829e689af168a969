"""Clients that ask a `glasshead serve` all at once for a minute: whether every answer is right, how long it takes, and
whether the server's memory grows."""

from __future__ import annotations

import json
import statistics
import tempfile
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from time import perf_counter, sleep
from typing import Any

import numpy as np
from tests.serve.running import HEADER, Running

import glasshead as gh

Progress = Callable[[int, int, str], None]

CLIENTS, SECONDS = 8, 60
SETTLED = 10  # seconds after which a server has all that it needs
DIM, SEQUENCES, TOKENS = 64, 8, 4
GROWTH = 4.0  # MB from then to the end that are noise: of 20,000 requests, two hundred bytes for each
OPTIONS = ((), ("--watch",))  # of the server


def question(head: gh.Attention, client: int) -> tuple[bytes, dict[str, str], bytes]:
    """What a client asks again and again: a body, its headers, and the numbers that must come back. Every other client
    sends and gets them in binary."""
    X = np.random.default_rng(client).standard_normal((SEQUENCES, TOKENS, DIM))
    entry: dict[str, Any] = {"name": "tokens", "shape": list(X.shape), "datatype": "FP64"}
    own = np.asarray(head(X)).tobytes()
    if client % 2:
        return json.dumps({"inputs": [entry | {"data": X.ravel().tolist()}]}).encode(), {}, own
    entry["parameters"] = {"binary_data_size": X.nbytes}
    start = json.dumps({"inputs": [entry], "parameters": {"binary_data_output": True}}).encode()
    return start + X.tobytes(), {HEADER: str(len(start))}, own


def answers(content: bytes, length: str | None) -> bytes:
    if length is not None:
        return content[int(length) :]
    return np.array(json.loads(content)["outputs"][0]["data"]).tobytes()


def one_client(server: Running, head: gh.Attention, client: int, end: float) -> tuple[list[float], list[str]]:
    """Seconds for each request until `end`, and in words whatever was not as it should be."""
    body, headers, own = question(head, client)
    connection, times, wrong = HTTPConnection("127.0.0.1", server.port, timeout=30), [], []
    try:
        while (start := perf_counter()) < end:
            connection.request("POST", f"{server.path}/infer", body, headers)
            reply = connection.getresponse()
            content = reply.read()
            times.append(perf_counter() - start)
            if reply.status != 200:
                wrong.append(f"{reply.status} {content[:100]!r}")
            elif answers(content, reply.getheader(HEADER)) != own:
                wrong.append("other numbers")
    except (OSError, HTTPException) as error:
        wrong.append(f"{type(error).__name__}: {error}")
    finally:
        connection.close()
    return times, wrong


def resident(process: int) -> float | None:
    """MB in use, where the system says so."""
    status = Path(f"/proc/{process}/status")
    lines = status.read_text().splitlines() if status.is_file() else []
    return next((int(line.split()[1]) * 1024 / 1e6 for line in lines if line.startswith("VmRSS")), None)


def loaded(options: tuple[str, ...]) -> dict[str, Any]:
    """All clients at once; times in milliseconds, memory in MB of 10^6 bytes."""
    with tempfile.TemporaryDirectory() as folder:
        head, path = gh.Attention.random(DIM, seed=1), Path(folder) / "head.safetensors"
        gh.save(head, path)
        with Running(path, *options) as server, ThreadPoolExecutor(CLIENTS) as pool:
            start = perf_counter()
            asked = [pool.submit(one_client, server, head, client, start + SECONDS) for client in range(CLIENTS)]
            sleep(SETTLED)
            before = resident(server.process.pid)
            sleep(max(0.0, start + SECONDS - perf_counter()))
            after = resident(server.process.pid)
            done = [one.result() for one in asked]
    times, wrong = [time for one, _ in done for time in one], [words for _, said in done for words in said]
    return {
        "requests": len(times),
        "errors": len(wrong),
        "first error": wrong[0] if wrong else None,
        "median_ms": 1e3 * statistics.median(times),
        "99%_ms": 1e3 * statistics.quantiles(times, n=100)[98],
        "settled_MB": before,
        "end_MB": after,
    }


def run(progress: Progress) -> dict[str, Any]:
    rows = []
    for done, options in enumerate(OPTIONS):
        words = " ".join(("glasshead serve", *options))
        progress(done, len(OPTIONS), words)
        rows.append({"server": words} | loaded(options))
    asked = {"clients": CLIENTS, "seconds_each": SECONDS, "dim": DIM, "sequences": SEQUENCES, "tokens": TOKENS}
    return asked | {"settled_after": SETTLED, "limits": {"MB": GROWTH}, "rows": rows}


def broken(result: dict[str, Any]) -> Iterable[str]:
    """A sentence for every number that misses its limit."""
    for row in result["rows"]:
        if row["errors"] or not row["requests"]:
            yield f"{row['server']}: {row['errors']} errors in {row['requests']} requests: {row['first error']}"
        if row["settled_MB"] is not None and row["end_MB"] - row["settled_MB"] > GROWTH:
            yield f"{row['server']}: {row['end_MB'] - row['settled_MB']:.1f} MB more at the end > {GROWTH} MB"
