"""`glasshead recover`: the parameters of a box."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .folder import make_folder
from .options import Accuracy, Answers, Family, Json, Rank, Seed, examples, models
from .screen import console, number, patient_bar, print_json, rows
from .target import open_target

if TYPE_CHECKING:
    from .._oracle import ValueOracle
    from .._recovery import Recovery

EXAMPLES = examples(
    "glasshead recover target.safetensors",
    "glasshead recover mybox:answer --dim 64 --run runs/first",
    "glasshead recover mybox:answer --dim 64 --tolerance 1e-6 --max-norm 100 --json",
)


def command(
    target: Annotated[
        str,
        typer.Argument(
            metavar="TARGET", help="A .safetensors model, or module:callable with --dim.", autocompletion=models
        ),
    ],
    family: Family = "auto",
    answers: Answers = "value",
    tolerance: Annotated[float, typer.Option(help="How far an answer may be from the truth.")] = 0.0,
    rtol: Annotated[float, typer.Option(help="The same, relative to the truth.")] = 0.0,
    max_norm: Annotated[float | None, typer.Option(help="Never send a token longer than this.")] = None,
    rank: Rank = None,
    accuracy: Accuracy = None,
    budget: Annotated[int | None, typer.Option(help="The most queries to ask.")] = None,
    seed: Seed = 0,
    dim: Annotated[int | None, typer.Option(min=1, help="The length of a token, for module:callable.")] = None,
    run: Annotated[Path | None, typer.Option(metavar="FOLDER", help="Save the result in this folder.")] = None,
    as_json: Json = False,
) -> None:
    """Recover the parameters of a box from queries alone.

    A box of your own is a Python function in a file of the current folder: `answer` in `mybox.py` is mybox:answer. It
    takes a numpy array of shape (B, N, d), B sequences of N tokens of length d, and returns B numbers.
    """
    import glasshead as gh

    check_answers(answers)
    with redirect_stdout(sys.stderr) if as_json else nullcontext():  # the box may print; our stdout is JSON only
        box, truth = open_target(target)
        if dim is None and not hasattr(box, "dim"):
            raise ValueError(f"expected --dim, the length of a token: {target} does not say")
        oracle = gh.ValueOracle(box, dim, tolerance=tolerance, rtol=rtol, max_norm=max_norm)
        if run is not None:
            make_folder(run)
        with patient_bar() as progress, advice(oracle):
            found = gh.recover(
                oracle, family=family, rank=rank, accuracy=accuracy, budget=budget, seed=seed, progress=progress
            )
            if progress is not None:
                progress(found.queries, found.queries, "recovered")
    if run is not None:
        found.save(run)
    if as_json:
        print_json(found.to_dict())
    else:
        show(found, None if truth is None else gh.distance(found.model, truth), run)


def check_answers(answers: str) -> None:
    if answers == "sign":
        raise ValueError("expected --answers value: this version does not read yes/no answers yet")
    if answers != "value":
        raise ValueError(f"expected --answers value, got {answers!r}")


@contextmanager
def advice(oracle: ValueOracle) -> Iterator[None]:
    """Adds to an error which option might have avoided it."""
    import glasshead as gh

    try:
        yield
    except gh.BudgetExceeded as error:
        enough = gh.plan(oracle.dim, biases=True)
        error.add_note(f"--budget {enough} is enough for dimension {oracle.dim}, biases included")
        raise
    except gh.TargetMismatch as error:
        if oracle.tolerance == oracle.rtol == 0 and "tolerance" not in str(error):
            error.add_note("If the box rounds its answers or adds noise, say how much with --tolerance")
        raise
    except gh.OracleError as error:
        if error.__cause__ is not None:
            error.add_note(f"Its tokens have length {oracle.dim}: is that what it expects?")
        raise
    except SystemExit as error:
        raise gh.OracleError(f"the box called sys.exit({error.code})") from error


def show(found: Recovery, distance: float | None, run: Path | None) -> None:
    from rich.panel import Panel

    bounds = f"||dW||_F <= {number(found.bound)}, ||dv|| <= {number(found.bound_v)}, confidence {found.confidence:g}"
    summary = rows(
        ("model", str(found.model)),
        ("queries", f"{found.queries:,} = {found.overhead:.4g} x the information limit of {found.limit:,}"),
        ("rank", str(found.rank)),
        ("proven", None if found.bound is None else bounds),
        ("held out", number(found.residual)),
        ("distance", None if distance is None else f"{number(distance)} from the target file"),
        ("why", found.reason),
    )
    screen = console()
    screen.print(Panel(summary, title=f"[bold green]recovered[/] {found.family}", title_align="left", expand=False))
    if run is not None:
        screen.print(f"[green]saved[/] {run}", soft_wrap=True)
