"""Asks servers of others, and has clients of others ask `glasshead serve`, each in an environment of its own; writes
what came of it to bench/results/interop.json:

    python -m tests.interop --folder .interop
    python -m tests.interop --folder .interop --only KServe    # the rows of the others stay as they are
    python -m tests.interop --folder .interop --only clients

Exit status 1 where a served head was not recovered, where answers of a language model are not the model's own, where
those that a client got from `glasshead serve` are not, or where a recovery on an executor is not that of one process.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

from bench.run import RESULTS, machine

from . import clients, executors, inference, language
from .servers import kserve, mlserver

RECORD = RESULTS / "interop.json"
SERVERS = {
    "MLServer": lambda folder: inference.rows(folder, "MLServer", mlserver),
    "KServe": lambda folder: inference.rows(folder, "KServe", kserve),
    language.SERVER: language.rows,
}
CLIENTS, EXECUTORS = "clients", "executors"  # the keys of their rows in the record


def broken(rows: list[dict[str, Any]]) -> list[str]:
    """A sentence for each row that is not what was asked for."""
    missed = [row for row in rows if row["most"] is not None and (row["error"] is None or row["error"] > row["most"])]
    expected = "expected an error of at most"
    return [
        f"{row['server']}, {row['box']}: {expected} {row['most']:g}, got {row['refusal'] or row['error']}"
        for row in missed
    ]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.interop", description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path(".interop"), help="of environments, models and logs")
    parser.add_argument(
        "--only", choices=[*SERVERS, CLIENTS, EXECUTORS], help="this one; the rows of the others stay as they are"
    )
    options = parser.parse_args()
    folder, start = options.folder.resolve(), time.perf_counter()
    folder.mkdir(parents=True, exist_ok=True)
    record = json.loads(RECORD.read_text()) if options.only else {"rows": [], "servers": {}}
    for name, ask in SERVERS.items():
        if options.only in (None, name):
            rows, does = ask(folder)
            record["rows"] = [row for row in record["rows"] if row["server"] != name] + rows
            record["servers"][name] = does
    if options.only in (None, CLIENTS):
        record[CLIENTS] = clients.rows(folder)
    if options.only in (None, EXECUTORS):
        record[EXECUTORS] = executors.rows(folder)
    record = {"machine": machine(), "seconds": round(time.perf_counter() - start), **record}
    RECORD.write_text(json.dumps(record, indent=1, allow_nan=False) + "\n")
    missed = broken(record["rows"]) + clients.broken(record[CLIENTS]["rows"]) + executors.broken(record[EXECUTORS])
    print("\n".join(missed) or f"all as asked: {RECORD}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
