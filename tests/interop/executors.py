"""Executors that nobody here wrote, as replicas of a box: `gh.from_executor` on Dask and on mpi4py."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import glasshead as gh

from .ask_executor import WORKERS
from .environments import EXECUTORS, environment
from .servers import HERE, say

PATIENCE = 200  # seconds for all that is tried on one executor
MPI = "mpiexec", "-n", str(WORKERS + 1)  # one process more, which is the one that recovers


def rows(folder: Path) -> list[dict[str, Any]]:
    """A row of the record for each executor: what came of a recovery on it, or why there was none."""
    return [one(folder, name) for name in EXECUTORS]


def one(folder: Path, name: str) -> dict[str, Any]:
    packages = EXECUTORS[name]
    row = {"executor": name, "packages": packages, "found": None, "same": None, "refusal": None}
    try:
        python = environment(name, folder)
        program = [python, HERE / "ask_executor.py", name]
        if name == "mpi4py":
            program = [python.with_name(MPI[0]), *MPI[1:], python, "-m", "mpi4py.futures", *program[1:]]
        path = os.pathsep.join([str(Path(gh.__file__).parents[1]), str(HERE.parents[1])])
        more = {"PYTHONPATH": path, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(
            list(map(str, program)), env=os.environ | more, capture_output=True, text=True, timeout=PATIENCE, cwd=folder
        )
        if done.returncode:
            raise RuntimeError((done.stderr.strip().splitlines() or ["nothing said"])[-1][:300])
        row |= json.loads(done.stdout)
    except Exception as error:
        row["refusal"] = f"not run: {type(error).__name__}: {error}"
    say(f"{name}: {row}")
    return row


def broken(rows: list[dict[str, Any]]) -> list[str]:
    """A sentence for each executor on which a recovery is not that of one process."""
    return [
        f"{row['executor']}: expected the recovery of one process, got {row['refusal'] or row['found']}"
        for row in rows
        if row["refusal"] is not None or not row["same"] or not row["asked twice, answered twice"]
    ]
