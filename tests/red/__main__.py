"""Tries to break the promise: a right model with a true bound, or a refusal.

    python -m tests.red --boxes 15000                 # a fresh seed, printed
    python -m tests.red --boxes 500 --only positions  # kinds or classes whose name has that in it
    python -m tests.red --case last-tokens@bfloat16/none:17
    python -m tests.red --cases                       # what once went wrong
    python -m tests.red --list

Every wrong answer and every crash is printed with the command that repeats it. Exit status 1 if there is any.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # each box has one of the processes to itself

import numpy as np

from .box import BASES, boxes, build, kinds, matching
from .cases import CASES
from .run import FAILURES, LIMIT, run, run_all

OUTCOMES = ("right", "missed", "refused", "accepted", "empty", "wrong", "crash", "slow", "unjudged")
MEANING = (
    "right: in a family, returned and true; missed: in a family with digits enough, refused; refused: where that is "
    "right or fair;\naccepted: outside, returned, and not wrong by the definition; empty: returned, knowing nothing; "
    "slow: over two minutes"
)
EVERY = 250


def table(records: list[dict], by: Callable[[dict], str], title: str) -> str:
    counts: dict[str, Counter] = {}
    for record in records:
        counts.setdefault(by(record), Counter())[record["outcome"]] += 1
    shown = [outcome for outcome in OUTCOMES if any(count[outcome] for count in counts.values())]
    total = sum(counts.values(), Counter())
    rows = [f"| {title} | boxes | " + " | ".join(shown) + " |", "|---" * (len(shown) + 2) + "|"]
    for label, count in [*sorted(counts.items()), ("all", total)]:
        cells = " | ".join(str(count[outcome] or "") for outcome in shown)
        rows.append(f"| {label} | {count.total()} | {cells} |")
    return "\n".join(rows)


def recovered(records: list[dict]) -> str:
    wanted = [record for record in records if record.get("expect") == "recover"]
    right = sum(record["outcome"] == "right" for record in wanted)
    return f"in a family, with digits enough: {right} of {len(wanted)} recovered ({right / max(1, len(wanted)):.1%})"


def line(record: dict) -> str:
    numbers = {key: record[key] for key in ("family", "heads", "bound", "confidence", "residual") if key in record}
    shown = ", ".join(f"{k}={v:.2g}" if isinstance(v, float) else f"{k}={v}" for k, v in numbers.items())
    return f"{record['outcome'].upper()} {record['kind']}:{record['seed']}  {record['why']}" + f"  ({shown})" * bool(
        shown
    )


def summary(records: list[dict]) -> str:
    by_variant = (
        ("class", lambda r: r["group"]),
        ("format", lambda r: r["kind"].split("@")[1].split("/")[0]),
        ("promise", lambda r: r["kind"].split("/")[-1]),
    )
    tables = [table(records, by, title) for title, by in by_variant]
    slowest = sorted(records, key=lambda r: -r.get("seconds", 0.0))[:3]
    slow = "slowest: " + ", ".join(f"{r['kind']}:{r['seed']} {r.get('seconds', 0):.0f} s" for r in slowest)
    return "\n\n".join([*tables, MEANING, recovered(records), slow])


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.red", description=__doc__.splitlines()[0])
    parser.add_argument("--boxes", type=int, default=1000, help="how many")
    parser.add_argument("--seed", type=int, help="of the run; fresh unless given")
    parser.add_argument("--only", metavar="KIND", help="kinds or classes whose name contains this")
    parser.add_argument("--workers", type=int, default=2, help="processes")
    parser.add_argument("--limit", type=float, default=LIMIT, help="seconds of the processor for one box")
    parser.add_argument("--case", metavar="KIND:SEED", action="append", help="repeat that box, here, with its words")
    parser.add_argument("--cases", action="store_true", help="the boxes of tests/red/cases.py")
    parser.add_argument("--out", type=Path, help="a JSON file for all records")
    parser.add_argument("--all", action="store_true", help="print every record, not only what failed")
    parser.add_argument("--strict", action="store_true", help="empty results fail, too")
    parser.add_argument("--list", action="store_true", help="name classes and kinds, and stop")
    return parser.parse_args()


def repeated(case: str, limit: float) -> dict:
    """One box in this process, where a debugger can follow."""
    name, seed = case.rsplit(":", 1)
    box = build(name, int(seed))
    print(f"{case}: dim={box.dim}, expect={box.expect}, heads={box.heads}, promise={box.promise}, {box.arguments}")
    record = run(name, int(seed), limit)
    print(line(record))
    return record


def main() -> int:
    options = parsed()
    if options.list:
        for group, names in matching(options.only).items():
            print(f"{group}: {', '.join(sorted({name.split('@')[0] for name in names}))} ({len(names)} kinds)")
        print(f"{len(BASES)} makers, {sum(1 for _ in kinds())} kinds")
        return 0
    if options.case:
        records = [repeated(case, options.limit) for case in options.case]
    else:
        records = streamed(options)
        print("\n" + summary(records))
    if options.out:
        options.out.write_text(json.dumps(records, indent=1, default=float) + "\n")
    failing = (*FAILURES, "unjudged", *["empty"] * options.strict)
    return int(any(record["outcome"] in failing for record in records))


def streamed(options: argparse.Namespace) -> list[dict]:
    seed = int(np.random.SeedSequence().generate_state(1)[0]) if options.seed is None else options.seed
    if not matching(options.only):
        raise SystemExit(f"no kind or class has {options.only!r} in its name; --list names them")
    tasks = list(CASES.values()) if options.cases else boxes(options.boxes, seed, options.only)
    print(f"seed {seed}" if not options.cases else f"{len(CASES)} cases", flush=True)
    records, start = [], time.monotonic()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with contextlib.suppress(KeyboardInterrupt):  # what is known by then is shown and kept
        for record in run_all(tasks, options.workers, options.limit):
            records.append(record)
            if options.all or record["outcome"] in (*FAILURES, "unjudged", "empty"):
                print(line(record), flush=True)
            if len(records) % EVERY == 0:
                counts = Counter(each["outcome"] for each in records)
                done = ", ".join(f"{counts[outcome]} {outcome}" for outcome in OUTCOMES if counts[outcome])
                print(f"-- {len(records)} boxes, {time.monotonic() - start:.0f} s: {done}", flush=True)
    return records


if __name__ == "__main__":
    sys.exit(main())
