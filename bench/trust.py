"""The power of the checks: boxes that leave a head by 1%, 3% and 10% of the range of answers, and how many pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tests.red.nearly import AMOUNTS, WAYS
from tests.red.run import run as red_run

Progress = Callable[[int, int, str], None]
FORMATS = ("float64", "float32")
EACH = 40  # boxes of each way of leaving, amount and format
SECONDS = 30.0  # of the processor, for one box; what takes longer is left out
LEAST = {3: 0.95, 10: 0.99}  # the share refused, by the amount in percent


def run(progress: Progress) -> dict[str, Any]:
    rows, done, total = [], 0, len(AMOUNTS) * len(FORMATS) * len(WAYS) * EACH
    for percent in AMOUNTS:
        for form in FORMATS:
            for way in WAYS:
                name = f"{way.__name__.replace('_', '-')}-{percent}%"
                outcomes = []
                for seed in range(EACH):
                    outcomes.append(red_run(f"{name}@{form}/none", 9_000 + seed, SECONDS)["outcome"])
                    done += 1
                    progress(done, total, f"{name}, {form}")
                row = {"percent": percent, "format": form, "way": way.__name__}
                known = [outcome for outcome in outcomes if outcome != "slow"]
                rows.append(row | {"boxes": len(known), "passed": sum(o != "refused" for o in known)})
                rows[-1]["wrong"] = sum(outcome == "wrong" for outcome in known)
    return {"rows": rows}


def power(rows: list[dict[str, Any]], percent: int, form: str | None = None) -> tuple[int, int]:
    """Boxes refused, and boxes, that leave by that much. Two heads that come out as two are no failure to refuse."""
    chosen = [row for row in rows if row["percent"] == percent and form in (None, row["format"])]
    chosen = [row for row in chosen if row["way"] != "other_head"]
    boxes = sum(row["boxes"] for row in chosen)
    return boxes - sum(row["passed"] for row in chosen), boxes


def broken(result: dict[str, Any]) -> Iterable[str]:
    for percent, least in LEAST.items():
        refused, boxes = power(result["rows"], percent)
        if refused < least * boxes:
            yield f"of {boxes} boxes that leave the family by {percent}% only {refused} were refused"
    if wrong := sum(row["wrong"] for row in result["rows"]):
        yield f"{wrong} wrong results"
