"""Runs every box of `tests.recorded.boxes` and keeps what came of it, down to a hash of all questions asked.

    make recorded                                                # compare with the record that is committed
    python -m tests.recorded tests/recorded/runs.json            # write that record anew
    python -m tests.recorded new.json --against old.json --only "plain:"

A move or a rename changes nothing, bit for bit; a unification keeps family and rank, queries within 2% and errors
within a factor of 2, and this lists the rest.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # sums are rounded in another order on more threads

import numpy as np

import glasshead as gh
from tests.recorded.boxes import Case, cases

RECORD = Path(__file__).with_name("runs.json")
UNCOUNTED = ("seconds", "words", "reason")  # not written: no run is judged by them
FLOOR = 1e-12  # errors below this are rounding: a factor between them says nothing


class Listened:
    """A box, and a hash of what it was asked."""

    def __init__(self, answer):
        self.answer, self.asked, self.heard = answer, 0, hashlib.sha256()

    def __call__(self, X):
        self.asked += len(X)
        self.heard.update(repr(np.shape(X)).encode() + np.ascontiguousarray(X).tobytes())
        return self.answer(X)


def run(case: Case) -> dict:
    box = Listened(case.answer)
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            outcome = result(case, box)
        except Exception as error:  # what a run ends in is what is recorded
            text = str(error)
            outcome = {"error": type(error).__name__, "words": text, "law": text.split(":")[0]}
    outcome |= {"asked": box.asked, "heard": box.heard.hexdigest()[:16], "seconds": time.perf_counter() - start}
    return outcome


def result(case: Case, box: Listened) -> dict:
    if case.kind == "relu":
        net = gh.recover_relu(box, case.dim, **case.arguments)
        return {"family": "relu", "width": len(net.w), "residual": net.residual, "reason": net.reason,
                "tensors": digest({"A": net.A, "w": net.w})}  # fmt: skip
    oracle = (gh.SignOracle if case.kind == "sign" else gh.ValueOracle)(box, dim=case.dim, **case.promise)
    if case.kind in ("value", "sign"):
        found = gh.recover(oracle, **case.arguments)
    else:
        method = getattr(gh.paper, case.kind, None) or getattr(gh.baselines, case.kind)
        found = method(oracle, **case.arguments)
    kept = found.to_dict()
    kept = {name: kept[name] for name in ("family", "heads", "rank", "bound", "bound_v", "confidence", "residual")}
    return kept | {
        "reason": found.reason,
        "tensors": digest(found.model.tensors()),
        "off": off(found.model, case.truth, case.kind == "sign"),
    }


def off(model, truth, up_to_scale: bool):
    if truth is None:
        return None
    if model.family == "any-network":
        W = np.asarray(truth.W)
        return float(np.linalg.norm(model.W - W) / np.linalg.norm(W))
    try:
        return gh.distance(model, truth, up_to_scale=up_to_scale)
    except (TypeError, AttributeError) as error:
        return str(error)


def digest(tensors: dict) -> str:
    whole = hashlib.sha256()
    for name in sorted(tensors):
        whole.update(name.encode() + np.ascontiguousarray(tensors[name]).tobytes())
    return whole.hexdigest()[:16]


def numbered(index: int) -> tuple[str, dict]:
    group, case = list(cases())[index]
    return f"{group}: {case.name}", run(case)


def differences(old: dict, new: dict) -> list[str]:
    """What a unification may not change, or only a little."""
    same = [name for name in ("error", "family", "heads", "rank", "width") if old.get(name) != new.get(name)]
    said = [f"{name} {old.get(name)} -> {new.get(name)}" for name in same]
    if abs(new["asked"] - old["asked"]) > 0.02 * old["asked"]:
        said.append(f"queries {old['asked']} -> {new['asked']}")
    before, after = old.get("off"), new.get("off")
    if isinstance(before, float) and isinstance(after, float) and after > max(2 * before, FLOOR):
        said.append(f"off {before:.2g} -> {after:.2g}")
    return said


def written(runs: dict) -> str:
    """A record as text, one run on each line."""
    kept = {name: {k: v for k, v in run.items() if k not in UNCOUNTED} for name, run in sorted(runs.items())}
    lines = (f"{json.dumps(name)}: {json.dumps(run, sort_keys=True)}" for name, run in kept.items())
    return "{\n" + ",\n".join(lines) + "\n}\n"


def compare(old: dict, new: dict) -> bool:
    exact, alike = 0, 0
    for name in sorted(old.keys() & new.keys()):
        a, b = ({k: v for k, v in one.items() if k not in UNCOUNTED} for one in (old[name], new[name]))
        said = differences(old[name], new[name])
        exact, alike = exact + (a == b), alike + (a != b and not said)
        if said:
            print(f"{name}: {'; '.join(said)}")
    print(f"{exact} the same bit for bit, {alike} within limits, of {len(old)}; new: {sorted(new.keys() - old.keys())}")
    return exact + alike == len(old)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path, nargs="?")
    parser.add_argument("--against", type=Path)
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--workers", type=int, default=2)
    wanted = parser.parse_args()
    chosen = [i for i, (group, case) in enumerate(cases()) if wanted.only in f"{group}: {case.name}"]
    with ProcessPoolExecutor(wanted.workers) as pool:
        runs = dict(pool.map(numbered, chosen))
    print(f"{len(runs)} runs, {sum(run['seconds'] for run in runs.values()):.0f} s")
    if wanted.out:
        wanted.out.write_text(written(runs))
    if wanted.against:
        runs = json.loads(written(runs))
        old = {k: v for k, v in json.loads(wanted.against.read_text()).items() if wanted.only in k}
        raise SystemExit(0 if compare(old, runs) else 1)


if __name__ == "__main__":
    main()
