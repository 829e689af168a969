"""`glasshead demo`: a head is recovered before your eyes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .options import GIVEN, Json, Seed, examples, make_folder
from .screen import console, print_json

EXAMPLES = examples("glasshead demo", "glasshead demo --dim 48 --seed 7 --folder demo-48")


def command(
    dim: Annotated[int, typer.Option(min=1, help="The length of a token.")] = 32,
    seed: Seed = 0,
    folder: Annotated[Path, typer.Option(metavar="FOLDER", help="Where the files go.")] = Path("demo"),
    as_json: Json = False,
) -> None:
    """Hide a random attention head in a box, and recover it from the box's answers."""
    import glasshead as gh

    from .._oracles import bar
    from .._report import History, Run, shown_command
    from . import showing

    def how(history: History) -> Run:
        command = shown_command(GIVEN.get())
        return Run(command, "target.safetensors", seconds=history.seconds, history=history.points)

    make_folder(folder)
    target = gh.Attention.random(dim, seed=seed)
    if as_json:
        history = History()
        found = gh.recover(target, seed=seed, progress=history)
        files = showing.save_pictures(folder, target, found, how(history))
        print_json(found.to_dict() | showing.errors(target, found) | files)
        return
    screen = console()
    showing.introduce(screen, dim)
    with bar() as progress:
        history = History(progress)
        found = gh.recover(target, seed=seed, progress=history)
        progress(found.queries, found.queries, "recovered")
    showing.numbers(screen, target, found)
    showing.picture(screen, target, found)
    showing.farewell(screen, showing.save_pictures(folder, target, found, how(history)))
