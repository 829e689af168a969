"""NVIDIA's load generator perf_analyzer asks a server many times at once, and compares every answer bit for bit."""

from __future__ import annotations

import base64
import csv
import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

import glasshead as gh

from .environments import CLIENTS, environment
from .servers import say

CLIENT = "perf_analyzer"
REQUESTS, AT_ONCE = 2000, 8
SEQUENCES, TOKENS = 8, 4  # of different questions, each of which is a request of its own
PATIENCE = 120  # seconds for all requests
WRONG = 1e-12  # added to the answers that are expected, to see that they are compared


def rows(folder: Path, url: str, name: str, words: str, head: gh.Attention) -> tuple[list[dict[str, Any]], dict]:
    """Rows of the record for requests in binary, whose answers are compared, and in JSON, where the program rounds what
    it sends and reads, so that it can only count them; and how fast answers came."""
    common = {"client": CLIENT, "version": CLIENTS[CLIENT].partition("==")[2], "box": words}
    X = np.random.default_rng(5).standard_normal((SEQUENCES, TOKENS, head.dim))
    own, found, did = np.concatenate([head(x[None]) for x in X]), [], {}
    for way, expected in (("binary", own), ("json", None)):
        asked = f"{REQUESTS:,} requests, {AT_ONCE} at a time, FP64, {'binary' if way == 'binary' else 'JSON'}"
        most = None if expected is None else 0.0
        filled = common | {"asked": asked, "answers": None, "error": None, "most": most, "refusal": None}
        try:
            did[asked] = generated(folder, url, name, X, expected, way)
            filled |= {"answers": REQUESTS, "error": most}
        except Exception as error:
            filled["refusal"] = f"{type(error).__name__}: {error}"
        say(f"{CLIENT}, {asked}: {did.get(asked)}, {filled['refusal']}")
        found.append(filled)
    try:
        generated(folder, url, name, X, own + WRONG, "binary")
        did["a wrong answer"] = "not noticed"
    except RuntimeError as error:
        did["a wrong answer"] = str(error)
    return found, did


def generated(
    folder: Path, url: str, name: str, X: np.ndarray, expected: np.ndarray | None, way: str
) -> dict[str, float]:
    """Answers in a second and latencies in milliseconds, as the program measures them; RuntimeError says what it does
    not like."""
    data: dict[str, Any] = {"data": [{"tokens": {"content": encoded(x), "shape": list(x.shape)}} for x in X]}
    if expected is not None:
        data["validation_data"] = [{"answers": encoded(answer)} for answer in expected]
    file, table = folder / "perf_analyzer.json", folder / "perf_analyzer.csv"
    file.write_text(json.dumps(data))
    table.unlink(missing_ok=True)
    program = environment(CLIENT, folder).with_name("perf_analyzer")
    command = [program, "-m", name, "-u", url.removeprefix("http://"), "-i", "http", "--input-data", file]
    command += ["--shape", f"tokens:{TOKENS},{X.shape[2]}", "--input-tensor-format", way, "--output-tensor-format", way]
    command += ["--concurrency-range", AT_ONCE, "--request-count", REQUESTS, "--percentile", "99", "-f", table]
    libraries = {"LD_LIBRARY_PATH": str(folder / CLIENT / "libraries")}
    done = subprocess.run(
        [str(each) for each in command], env=libraries, capture_output=True, text=True, timeout=PATIENCE
    )
    if done.returncode or not table.exists():
        said = [line for line in (done.stderr + done.stdout).splitlines() if "rror" in line]
        raise RuntimeError((said or [f"exit status {done.returncode}"])[0][:300])
    [line] = csv.DictReader(table.open())
    return {
        "answers in a second": float(line["Inferences/Second"]),
        "median, ms": float(line["p50 latency"]) / 1e3,
        "99%, ms": float(line["p99 latency"]) / 1e3,
    }


def encoded(x: np.ndarray) -> dict[str, str]:
    """Numbers as the program reads them bit for bit; written out in digits it rounds them."""
    return {"b64": base64.b64encode(np.asarray(x).tobytes()).decode()}
