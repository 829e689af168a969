"""Run one measurement in a process of its own: nothing warm, nothing left over, the threads that were asked for."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


def measured(call: str, threads: int) -> dict[str, Any]:
    """The dict that `call`, such as `bench.memory.child(16)`, returns in a fresh process."""
    module = call.split("(")[0].rpartition(".")[0]
    code = f"import json, {module}; print(json.dumps({call}))"
    env = os.environ | {name: str(threads) for name in THREADS}
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{call} failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])
