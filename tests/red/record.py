"""Adds up runs of the red team: which commit, how many boxes of every class, and what came of them.

    python -m tests.red.record bench/results/red.json RUNS/*.json

A run is what `python -m tests.red --out COMMIT.NAME.json` wrote; its seed is read from `COMMIT.NAME.log`, if that has
what the run printed. Runs of one commit are added up; those of different commits are not: what an earlier tree did
wrong may be repaired since. Commits that the record has already, and the runs do not, stay in it.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from pathlib import Path

from .run import FAILURES

SLOW = 120.0  # seconds


def added(commit: str, files: list[Path]) -> dict:
    """All runs of a commit as one."""
    records = [record for file in files for record in json.loads(file.read_text())]
    wanted = [record for record in records if record.get("expect") == "recover"]
    failed = [record for record in records if record["outcome"] in (*FAILURES, "empty", "unjudged")]
    return {
        "commit": commit,
        "seeds": [seed for file in files for seed in seeds_of(file.with_suffix(".log"))],
        "boxes": len(records),
        "outcomes": dict(Counter(record["outcome"] for record in records)),
        "wanted": len(wanted),
        "recovered": sum(record["outcome"] == "right" for record in wanted),
        "slow": sum(record.get("seconds", 0.0) > SLOW or record["outcome"] == "slow" for record in records),
        "classes": dict(sorted(Counter(record["group"] for record in records).items())),
        "formats": dict(sorted(Counter(re.split("[@/]", record["kind"])[1] for record in records).items())),
        "failed": [f"{record['outcome']} {record['kind']}:{record['seed']}" for record in failed],
    }


def seeds_of(log: Path) -> list[int]:
    return [int(seed) for seed in re.findall(r"^seed (\d+)$", log.read_text(), re.MULTILINE)] if log.exists() else []


def main() -> None:
    target, *files = map(Path, sys.argv[1:])
    commits: dict[str, list[Path]] = {}
    for file in sorted(files, key=lambda file: file.stat().st_mtime):
        commits.setdefault(file.name.split(".")[0], []).append(file)
    before = json.loads(target.read_text())["runs"] if target.exists() else []
    runs = [run for run in before if run["commit"] not in commits]
    runs += [added(commit, parts) for commit, parts in commits.items()]
    target.write_text(json.dumps({"runs": runs}, indent=1) + "\n")


if __name__ == "__main__":
    main()
