"""`glasshead recover`: the parameters of a box."""

from __future__ import annotations

import sys
import warnings
from contextlib import nullcontext, redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from .options import (
    GIVEN,
    Answers,
    FamilyName,
    Json,
    Price,
    Rank,
    Ray,
    Replicas,
    Seed,
    WantedAccuracy,
    examples,
    one_of,
    targets,
)
from .screen import patient_bar, print_json

EXAMPLES = examples(
    "glasshead recover target.safetensors",
    "glasshead recover mybox:answer --dim 64 --run runs/first",
    "glasshead recover mybox:answer --dim 64 --tolerance 1e-6 --max-norm 100 --json",
    "glasshead recover encoder.onnx --budget 100000",
    "glasshead recover http://127.0.0.1:8000/v2/models/head --run runs/served --price-per-query 0.001",
)
DTYPES = "float64", "float32", "float16"


def command(
    target: Annotated[
        str,
        typer.Argument(
            metavar="TARGET",
            help="A .safetensors model, an .onnx file, module:callable with --dim, or the URL of a served model.",
            autocompletion=targets,
        ),
    ],
    family: FamilyName = "auto",
    answers: Answers = "value",
    tolerance: Annotated[float, typer.Option(help="How far an answer may be from the truth.")] = 0.0,
    rtol: Annotated[float, typer.Option(help="The same, relative to the truth.")] = 0.0,
    flips: Annotated[float, typer.Option(help="How often a yes or no may be wrong, at most.")] = 0.0,
    max_norm: Annotated[float | None, typer.Option(help="Never send a token longer than this.")] = None,
    rank: Rank = None,
    accuracy: WantedAccuracy = None,
    budget: Annotated[int | None, typer.Option(help="The most queries to ask.")] = None,
    norm: Annotated[
        str, typer.Option(help="A normalisation before the head: auto, none, layer:1e-5, rms:1e-6.")
    ] = "auto",
    network: Annotated[bool, typer.Option("--network", help="Recover the network inside a block, too.")] = False,
    places: Annotated[
        int | None, typer.Option(help="At how many places to find position vectors: 64, or more.")
    ] = None,
    seed: Seed = 0,
    dim: Annotated[int | None, typer.Option(min=1, help="The length of a token, for module:callable.")] = None,
    dtype: Annotated[
        str | None, typer.Option(help="What module:callable computes in.", autocompletion=one_of(DTYPES))
    ] = None,
    place: Annotated[
        int | None,
        typer.Option(help="Where the query token is and is answered: -1, the last place, or 0, the first."),
    ] = None,
    output: Annotated[str | None, typer.Option(help="Which output of an .onnx file or a served model to read.")] = None,
    cut: Annotated[str | None, typer.Option(help="The tensor at which to cut an .onnx file of token ids.")] = None,
    run: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Keep answers and result in this folder, or go on there.")
    ] = None,
    ray: Ray = None,
    replicas: Replicas = None,
    price: Price = None,
    as_json: Json = False,
) -> None:
    """Recover the parameters of a box from queries alone.

    A box of your own is a Python function in a file of the current folder: `answer` in `mybox.py` is mybox:answer. It
    takes a numpy array of shape (B, N, d), B sequences of N tokens of length d, and returns B numbers. It may also be a
    torch module, or an oracle that gh.from_transformers or another adapter has made.

    Every answer is kept in the folder of the run before it is used: after Ctrl-C, a crash or a spent budget the same
    command with --run goes on where it was.
    """
    import glasshead as gh

    from .._report import History, Run, report, shown_command, without_secrets
    from .folder import folder_for, kept_in
    from .outcome import advice, show_notes, show_recovery
    from .target import TargetOptions, open_target

    asked = TargetOptions(dim, answers, tolerance, rtol, flips, max_norm, dtype, place, output, cut, ray, replicas)
    saved = None if as_json and run is None else folder_for(run, target)
    with redirect_stdout(sys.stderr) if as_json else nullcontext():  # the box may print; our stdout is JSON only
        oracle, truth = open_target(target, asked)
        if not as_json:
            show_notes(oracle)
        how = Run(shown_command(GIVEN.get()), without_secrets(target), answers)
        how = how if truth is None or saved is None else how.of(Path(target), saved)
        kept = nullcontext() if saved is None else kept_in(saved, made=run is None)
        with patient_bar() as progress, kept as journal, advice(oracle), warnings.catch_warnings():
            if saved is not None:
                how.save(saved)
            history = History(progress)
            warnings.simplefilter("ignore", gh.HeadsMerged)  # the reason says so too
            found = gh.recover(
                oracle,
                family=family,
                rank=rank,
                accuracy=accuracy,
                budget=budget,
                journal=journal,
                norm=norm_of(norm),
                network=network,
                places=places,
                seed=seed,
                progress=history,
            )
            if progress is not None:
                progress(found.queries, found.queries, "recovered")
    if saved is not None:
        found.save(saved)
        replace(how, seconds=history.seconds, history=history.points).save(saved)
        if hasattr(found.model, "heads"):  # which is what a page shows
            report(saved, truth=truth)
    if as_json:
        print_json(found.to_dict() | ({} if price is None else {"cost": price * found.queries}))
    else:
        # Signs show v and bias up to a factor.
        known = truth is not None and hasattr(truth, "heads")
        far = gh.distance(found.model, truth, up_to_scale=oracle.answers == "sign") if known else None
        show_recovery(found, far, saved, price)


def norm_of(text: str) -> Any:
    """What `--norm` says, as `gh.recover` takes it."""
    import glasshead as gh

    if text in ("auto", "none"):
        return None if text == "none" else text
    kind, _, eps = text.partition(":")
    try:
        return gh.Norm(kind, float(eps))  # type: ignore[arg-type]
    except ValueError as error:
        raise ValueError(f"expected --norm to be auto, none, layer:EPS or rms:EPS, got {text!r}") from error
