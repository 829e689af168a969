"""The audit: its default grid on a head, killed on the way and gone on with; and what logits of a small language model
give away."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

import glasshead as gh
from glasshead._audit import find_leak

Progress = Callable[[int, int, str], None]

DIM, RANK, SEED = 64, 8, 0
LEAST_SETTINGS = 25
KILLED_AFTER = 12  # settings
KEPT = ("name", "outcome", "verdict", "distortion", "queries", "asked", "error_W", "error_v", "function_error", "kept")
VOCABULARY, WIDTH = 400, 48  # of the language model


def logits(X: np.ndarray) -> np.ndarray:
    """A language model of one block that takes vectors: a head, a residual connection, a network, an unembedding."""
    rng = np.random.default_rng(0)
    head = gh.Attention(*rng.standard_normal((2, WIDTH, WIDTH)) / WIDTH)
    inside, out = rng.standard_normal((2, WIDTH, WIDTH)) / np.sqrt(WIDTH)
    hidden = X[:, -1] + head(X)
    hidden = hidden + np.tanh(hidden @ inside) @ out
    return hidden @ rng.standard_normal((WIDTH, VOCABULARY))


def run(progress: Progress) -> dict[str, Any]:
    leak = find_leak(logits, WIDTH, np.sqrt(WIDTH))
    assert leak is not None
    with tempfile.TemporaryDirectory() as folder:
        gh.save(gh.Attention.random(DIM, rank=RANK, seed=SEED), Path(folder) / "target.safetensors")
        line = [sys.executable, "-m", "glasshead", "audit", "target.safetensors", "--run", "run", "--json"]
        settings = Path(folder) / "run" / "settings"
        with subprocess.Popen(line, cwd=folder, stdout=subprocess.DEVNULL, start_new_session=True) as process:
            while len(list(settings.glob("*.json"))) < KILLED_AFTER and process.poll() is None:
                time.sleep(0.05)
            os.killpg(process.pid, signal.SIGKILL)
        before = written(settings)
        progress(len(before), 35, "killed, and gone on with")
        done = subprocess.run(line, cwd=folder, capture_output=True, text=True, check=True)
        after = written(settings)
        found = json.loads(done.stdout)
    rows = [{name: row[name] for name in KEPT} for row in found["settings"]]
    return {
        "dim": DIM,
        "rank": RANK,
        "parameters": found["parameters"],
        "threshold": found["threshold"],
        "budget": found["budget"],
        "queries": found["queries"],
        "finished_before_the_kill": len(before),
        "repeated": sum(before[name] != after[name] for name in before),
        "recommendation": found["recommendation"],
        "ranking": found["ranking"],
        "rows": rows,
        "leak": {
            "outputs": leak.outputs,
            "width": WIDTH,
            "queries": leak.queries,
            "rows": [{"answers": row.answers, "width": row.width} for row in leak.rows],
        },
        "limits": {"settings": LEAST_SETTINGS},
    }


def written(settings: Path) -> dict[str, int]:
    """When each finding was written."""
    return {path.name: path.stat().st_mtime_ns for path in settings.glob("*.json")}


def broken(result: dict[str, Any]) -> Iterable[str]:
    """A sentence for every number that misses its limit."""
    if len(result["rows"]) < LEAST_SETTINGS:
        yield f"{len(result['rows'])} settings < {LEAST_SETTINGS}"
    if result["repeated"] or not 0 < result["finished_before_the_kill"] < len(result["rows"]):
        yield f"{result['repeated']} of {result['finished_before_the_kill']} finished settings were tried again"
    if result["leak"]["rows"][0]["width"] != result["leak"]["width"]:
        yield f"the width {result['leak']['width']} was seen as {result['leak']['rows'][0]['width']}"
