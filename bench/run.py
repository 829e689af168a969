"""Measure everything: `python -m bench.run [--only NAME]` writes `bench/results/NAME.json`."""

from __future__ import annotations

import argparse
import json
import os
import platform
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

import glasshead as gh

from . import (
    accuracy,
    adapters,
    any_network,
    audit,
    blocks,
    boxes,
    constants,
    decoder,
    encoder,
    float32,
    half,
    journal,
    load,
    memory,
    multi_head,
    network,
    noise,
    overhead,
    relu,
    replicas,
    report,
    signs,
    smollm2,
    together,
    transformer,
    trust,
    vector,
    watch,
    whole_blocks,
)

RESULTS = Path(__file__).parent / "results"
BENCHES = {
    "accuracy": accuracy,
    "overhead": overhead,
    "memory": memory,
    "noise": noise,
    "signs": signs,
    "relu": relu,
    "network": network,
    "whole_blocks": whole_blocks,
    "transformer": transformer,
    "any_network": any_network,
    "multi_head": multi_head,
    "vector": vector,
    "float32": float32,
    "half": half,
    "together": together,
    "trust": trust,
    "blocks": blocks,
    "boxes": boxes,
    "adapters": adapters,
    "journal": journal,
    "replicas": replicas,
    "load": load,
    "encoder": encoder,
    "decoder": decoder,
    "smollm2": smollm2,
    "constants": constants,
    "watch": watch,
    "audit": audit,
    "report": report,
}


def machine() -> dict[str, Any]:
    """What a reader needs to judge the timings, and nothing that names the machine."""
    return {
        "glasshead": gh.__version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "system": f"{platform.system()} {platform.machine()}",
        "cpus": os.cpu_count(),
    }


def measure(name: str, console: Console) -> list[str]:
    """Run one benchmark, write its numbers, and return a sentence for each that misses its limit."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TimeElapsedColumn(),
    )
    start = perf_counter()
    with Progress(*columns, console=console) as display:
        task = display.add_task(name, total=None)
        result = BENCHES[name].run(
            lambda done, planned, what: display.update(task, completed=done, total=planned, description=what)
        )
        display.update(task, completed=1, total=1, description=name)
    RESULTS.mkdir(exist_ok=True)
    whole = {"machine": machine(), "seconds": round(perf_counter() - start)} | result
    (RESULTS / f"{name}.json").write_text(json.dumps(whole, indent=1, allow_nan=False) + "\n")
    return list(BENCHES[name].broken(whole))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.run", description=__doc__)
    parser.add_argument("--only", choices=sorted(BENCHES), help="measure this one and leave the other results alone")
    chosen = parser.parse_args().only
    console = Console(stderr=True)
    missed = [sentence for name in BENCHES if chosen in (None, name) for sentence in measure(name, console)]
    for sentence in missed:
        console.print(f"[red]missed[/] {sentence}", highlight=False, soft_wrap=True)
    console.print("every limit is met" if not missed else f"{len(missed)} limits missed")
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
