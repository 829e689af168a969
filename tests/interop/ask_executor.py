"""Recovers a head on the workers of an executor of others; run inside its environment, on Dask with processes of its
own, on mpi4py with those that MPI has started:

python ask_executor.py Dask
mpiexec -n 4 python -m mpi4py.futures ask_executor.py mpi4py
"""

from __future__ import annotations

import json
import sys
from concurrent.futures import Executor
from typing import Any

import numpy as np

import glasshead as gh
from tests.boxes.replicated import one_by_one, raises, same, with_fresh_noise

WORKERS, DIM = 3, 8


def tried(executor: Executor) -> dict[str, Any]:
    alone = gh.recover(gh.ValueOracle(one_by_one, DIM))
    oracle = gh.from_executor(executor, one_by_one, DIM, replicas=WORKERS, batch=16)
    found = gh.recover(oracle)
    fresh, X = gh.from_executor(executor, with_fresh_noise, DIM, replicas=1), np.ones((1, 2, DIM))
    return {
        "found": found.family,
        "queries": oracle.queries - oracle.looked,
        "alone": alone.queries,
        "same": same(found, alone),
        "workers": gh.from_executor(executor, one_by_one, DIM).notes[0],
        "a box that raises": refused(executor, raises),
        "a lambda": refused(executor, lambda X: one_by_one(X)),
        "asked twice, answered twice": bool(fresh(X)[0] != fresh(X)[0]),
    }


def refused(executor: Executor, box: Any) -> str:
    try:
        gh.from_executor(executor, box, DIM, replicas=1)
    except (gh.OracleError, TypeError) as error:
        return f"{type(error).__name__}: {error}"
    return "answered"


def on_dask() -> dict[str, Any]:
    from distributed import Client

    with Client(n_workers=WORKERS, threads_per_worker=1, dashboard_address=None, host="127.0.0.1") as client:
        return tried(client.get_executor())


def on_mpi() -> dict[str, Any]:
    from mpi4py.futures import MPIPoolExecutor

    with MPIPoolExecutor() as executor:
        return tried(executor)


if __name__ == "__main__":
    print(json.dumps({"Dask": on_dask, "mpi4py": on_mpi}[sys.argv[1]]()))
