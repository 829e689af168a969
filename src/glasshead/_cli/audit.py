"""`glasshead audit`: what an endpoint gives away, and what would stop it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from concurrent.futures import Executor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, nullcontext, redirect_stdout
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from .options import Answers, Interrupted, Json, Price, Ray, Replicas, Seed, examples, require_replicas, targets
from .screen import console, patient_bar, print_json

EXAMPLES = examples(
    "glasshead audit target.safetensors",
    "glasshead audit target.safetensors --threshold 0.01 --run runs/audit --price-per-query 0.001",
    "glasshead audit http://127.0.0.1:8000/v2/models/head --budget 20000",
    "glasshead audit target.safetensors --honest prompts.npy --json",
)
OUTCOME_COLOURS = {"recovered": "red", "direction": "red", "partly": "red", "budget": "green", "refused": "green"}


def command(
    target: Annotated[
        str,
        typer.Argument(
            metavar="TARGET",
            help="A .safetensors model, an .onnx file, module:callable with --dim, or the URL of your own endpoint.",
            autocompletion=targets,
        ),
    ],
    threshold: Annotated[
        float, typer.Option(help="How wrong a copy's answers must stay, as a share of the spread of answers.")
    ] = 0.1,
    budget: Annotated[int, typer.Option(min=1, help="The most queries for each attacker in each setting.")] = 100_000,
    honest: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A .npy file (B, N, d): what honest users send.")
    ] = None,
    answers: Answers = "value",
    dim: Annotated[int | None, typer.Option(min=1, help="The length of a token, for module:callable.")] = None,
    max_norm: Annotated[float | None, typer.Option(help="Never send a token longer than this.")] = None,
    run: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Keep findings and report in this folder, or go on there.")
    ] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Settings tried at a time; one for each core.")] = None,
    ray: Ray = None,
    replicas: Replicas = None,
    price: Price = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Find out what a box gives away under a grid of defences, and the cheapest defence that would stop it.

    Two attackers try every setting: one reads the parameters, knowing the defence, as glasshead recover does; where
    that gives no copy below the threshold, the other fits a head to many answers. What was finished is kept: after
    Ctrl-C or a crash the same command with --run FOLDER goes on where it was.
    """
    import glasshead as gh

    from .._audit import TargetSource
    from .._report import report, shown_command, without_secrets
    from .folder import folder_for
    from .target import TargetOptions, open_target

    require_replicas(ray, replicas)
    asked = TargetOptions(dim, answers, 0.0, 0.0, 0.0, max_norm, None, None)
    folder = run or folder_for(None, f"audit-{Path(target).stem}")
    source = TargetSource(partial(open_target, target, asked), without_secrets(target))
    with redirect_stdout(sys.stderr) if as_json else nullcontext():
        try:
            with patient_bar("settings") as progress, parallel(workers, ray, replicas) as executor:
                found = gh.audit(
                    source,
                    threshold=threshold,
                    folder=folder,
                    budget=budget,
                    honest=None if honest is None else load_honest(honest),
                    price_per_query=price,
                    seed=seed,
                    progress=progress,
                    executor=executor,
                )
        except (KeyboardInterrupt, BrokenProcessPool, gh.OracleError, gh.JournalError) as error:
            words = f"What was finished is kept: the same command with --run {folder} goes on from here"
            if isinstance(error, gh.GlassheadError):
                error.add_note(words)
                raise
            lost = isinstance(error, BrokenProcessPool)
            what = "a worker was lost: killed, or out of memory; fewer --workers need less" if lost else "interrupted"
            raise Interrupted(what, words) from error
    found = replace(found, command=shown_command(sys.argv[1:]))
    found.save(folder)
    page = report(folder)
    if as_json:
        print_json(found.to_dict())
    else:
        show_audit(found)
        console().print(f"[green]saved[/] {folder}; the page to look at is [bold]{page}[/]", soft_wrap=True)


def load_honest(path: Path) -> Any:
    import numpy as np

    try:
        return np.load(path, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise ValueError(f"expected --honest to be an array (B, N, d) in a .npy file, got {path}: {error}") from error


@contextmanager
def parallel(workers: int | None, ray: str | None, replicas: int | None) -> Iterator[Executor | None]:
    """Processes of this machine, one for each core, or workers of a cluster; with one worker none but this process."""
    if ray is not None:
        from .._boxes import ray_executor

        with ray_executor(ray, replicas) as executor:
            yield executor
        return
    count = workers or os.cpu_count() or 1
    if count == 1:
        yield None
        return
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import active_children, get_context
    from signal import SIG_IGN, SIGINT, signal

    os.environ.setdefault("OMP_NUM_THREADS", "1")  # read by the workers when they start: one core each
    before = set(active_children())
    executor = ProcessPoolExecutor(count, get_context("spawn"), initializer=signal, initargs=(SIGINT, SIG_IGN))
    try:
        yield executor
    except BaseException:
        executor.shutdown(wait=False, cancel_futures=True)
        for child in set(active_children()) - before:  # they do not hear Ctrl-C, and what they do is of no use now
            child.terminate()
        raise
    executor.shutdown()


def show_audit(found: Any) -> None:
    """The leak first, since it takes no chosen vectors; then a line for each setting, and what to do."""
    from rich.table import Table
    from rich.text import Text

    from .outcome import cost

    screen = console()
    screen.print(
        f"[bold]{found.target}[/]: {found.dim} numbers per token, {found.parameters:,} free parameters, "
        f"{len(found.findings)} settings, {found.queries:,} queries in all"
        + ("" if found.price_per_query is None else f", {cost(found.price_per_query, found.queries)}"),
        highlight=False,
    )
    for row in () if found.leak is None else found.leak.rows:
        screen.print(Text(f"  {row.words}", style="red" if row.width else "green"))
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for name, where in (("defence", "left"), ("honest users lose", "right"), ("what an attacker gets", "left")):
        table.add_column(name, justify=where)  # type: ignore[arg-type]
    for each in found.findings:
        row = found.row(each)
        price = "" if row["cost"] is None else f" ({row['cost']:,.2f})"
        lose = "nothing" if each.distortion == 0 else f"{each.distortion:.2g}"
        table.add_row(Text(each.name), lose, Text(row["verdict"] + price, style=OUTCOME_COLOURS[row["outcome"]]))
    screen.print(table)
    screen.print()
    screen.print(Text(found.recommendation))
