"""`glasshead recover`: the parameters of a box."""

from __future__ import annotations

import sys
import warnings
from contextlib import nullcontext, redirect_stdout
from pathlib import Path
from typing import Annotated

import typer

from .._families import ANSWERS
from .options import Accuracy, Answers, Family, Json, Rank, Seed, examples, make_folder, models, open_target
from .screen import patient_bar, print_json

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
    flips: Annotated[float, typer.Option(help="How often a yes or no may be wrong, at most.")] = 0.0,
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

    from .outcome import advice, show_recovery

    check_answers(answers, tolerance, rtol, flips)
    with redirect_stdout(sys.stderr) if as_json else nullcontext():  # the box may print; our stdout is JSON only
        box, truth = open_target(target)
        if dim is None and not hasattr(box, "dim"):
            raise ValueError(f"expected --dim, the length of a token: {target} does not say")
        if answers == "sign":
            oracle = gh.SignOracle(box, dim, max_norm=max_norm, flips=flips)
        else:
            oracle = gh.ValueOracle(box, dim, tolerance=tolerance, rtol=rtol, max_norm=max_norm)
        if run is not None:
            make_folder(run)
        with patient_bar() as progress, advice(oracle), warnings.catch_warnings():
            warnings.simplefilter("ignore", gh.HeadsMerged)  # the reason says so too
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
        # Signs show v and bias up to a factor.
        far = None if truth is None else gh.distance(found.model, truth, up_to_scale=answers == "sign")
        show_recovery(found, far, run)


def check_answers(answers: str, tolerance: float, rtol: float, flips: float) -> None:
    if answers not in ANSWERS:
        raise ValueError(f"expected --answers to be one of {ANSWERS}, got {answers!r}")
    if answers == "sign" and (tolerance or rtol):
        raise ValueError("expected no --tolerance and no --rtol with --answers sign: yes is not close to no")
    if answers == "value" and flips:
        raise ValueError("expected no --flips with --answers value: say how far off answers may be with --tolerance")
