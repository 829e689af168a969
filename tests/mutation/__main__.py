"""Tries a sample of all mutants and keeps the record.

    make mutation                                      # the sample that the record is about
    python -m tests.mutation --only _checks/judge      # a part of it
    python -m tests.mutation --survivors               # those again that survived
    python -m tests.mutation --table                   # what the record says

The sample of a seed is every mutant whose own hash is below the share: it does not change where code does not. In the
record every survivor has a line that says why nobody notices; write it there by hand, it is kept.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import CodeType

from .mutants import BY_HAND, Module, Mutant, modules
from .reach import KEPT, ROOT, Reach
from .run import RECORDED, Job, chosen, run_all

RECORD = Path(__file__).with_name("record.json")
SEED, SHARE = 13, 0.02
LIMIT = 6.0  # seconds of tests for each mutant, as they take without it


def read_record() -> dict:
    return json.loads(RECORD.read_text()) if RECORD.exists() else {"mutants": {}}


def sampled(seed: int, share: float, only: str) -> list[tuple[Module, Mutant]]:
    every = [(module, mutant) for module in modules() for mutant in module.places]
    return [(module, mutant) for module, mutant in every if mutant.drawn(seed) < share and only in mutant.name]


def written(record: dict) -> str:
    """One line for each mutant, so that a difference shows which."""
    lines = [f"    {json.dumps(name)}: {json.dumps(seen)}" for name, seen in sorted(record["mutants"].items())]
    head = json.dumps({key: value for key, value in record.items() if key != "mutants"})[1:-1]
    return "{\n  " + head + ',\n  "mutants": {\n' + ",\n".join(lines) + "\n  }\n}\n"


def table(record: dict) -> str:
    rows: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    for name, seen in record["mutants"].items():
        file = name.split(":")[0]
        kind = 2 if "survived" in seen else 1 if seen["killed"].startswith(RECORDED) else 0
        for row in dict.fromkeys((file, file.split("/")[0], "all")):
            rows[row][kind] += 1
    lines = [f"{'':32}{'mutants':>8}{'killed':>8}{'by recorded runs':>18}{'survived':>10}{'share killed':>14}"]
    for row, (tests, recorded, survived) in sorted(rows.items(), key=lambda item: (item[0] == "all", item[0])):
        count = tests + recorded + survived
        share = (tests + recorded) / count
        lines.append(f"{row:32}{count:8}{tests + recorded:8}{recorded:18}{survived:10}{share:14.0%}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation")
    parser.add_argument("--share", type=float, default=SHARE, help="of all mutants")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--only", default="", help="mutants whose names have this in them")
    parser.add_argument("--limit", type=float, default=LIMIT, help="seconds of tests for each mutant")
    parser.add_argument("--survivors", action="store_true", help="only those that survived, or are new to the record")
    parser.add_argument("--new", action="store_true", help="only those that are new to the record")
    parser.add_argument("--table", action="store_true", help="show the record and do nothing else")
    options = parser.parse_args()
    record = read_record()
    if not options.table:
        if not KEPT.exists():
            subprocess.run([sys.executable, "-m", "tests.mutation.reach"], cwd=ROOT, check=True)
        try_all(record, options)
    print(table(record))
    for name, seen in sorted(record["mutants"].items()):
        if "survived" in seen:
            print(f"{name}\n    {seen['survived'] or 'NOT EXPLAINED'}")


def try_all(record: dict, options: argparse.Namespace) -> None:
    reach, before = Reach(), record["mutants"]
    sample = sampled(options.seed, options.share, options.only)
    if not options.only:  # what is no longer in the sample goes
        names = {mutant.name for _, mutant in sample} | {f"by hand: {hand.name}" for hand in BY_HAND}
        record["mutants"] = before = {name: seen for name, seen in before.items() if name in names}
    record |= {"seed": options.seed, "share": options.share, "limit": options.limit}

    def known(name: str) -> bool:
        return name in before and (options.new or (options.survivors and "survived" not in before[name]))

    def job(name: str, module: str, code: CodeType, tests: list[str]) -> Job:
        return Job(name, module, code, chosen(tests, reach.tests, options.limit))

    def done(job: Job, by: str) -> None:
        if job.code is None:
            if by:
                raise RuntimeError(f"{by} fails without any change, so what it killed may be alive")
            return
        print(f"{'killed  ' if by else 'SURVIVED'} {job.name}\n         {by or f'{len(job.tests)} tests'}", flush=True)
        why = before.get(job.name, {}).get("survived", "")
        record["mutants"][job.name] = {"killed": by} if by else {"survived": why}
        RECORD.write_text(written(record))

    def jobs() -> Iterator[Job]:
        for name, hand in hands.items():
            if not known(name):
                yield job(name, hand.module, hand.code(), reach.of_module(hand.module))
        for home, mutant in sample:
            if not known(mutant.name):
                yield job(mutant.name, home.name, home.code(mutant), reach.of(mutant))
        killers = {seen.get("killed", "") for seen in record["mutants"].values()}
        yield Job("no change", "", None, {test: reach.tests[test][0] for test in killers if test in reach.tests})

    hands = {f"by hand: {hand.name}": hand for hand in BY_HAND if options.only in hand.name}
    run_all(jobs(), done)


if __name__ == "__main__":
    main()
