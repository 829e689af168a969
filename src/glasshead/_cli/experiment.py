"""`glasshead experiment`: figures of what works with how much, run again by anybody."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .options import Command, Group, Json, examples
from .screen import print_json

experiments = typer.Typer(
    cls=Group,
    help="Experiments with a figure: what works, and with how many queries.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)


@experiments.command(
    cls=Command,
    epilog=examples("glasshead experiment phase", "glasshead experiment phase --dim 32 --rank 3 --folder runs/phase32"),
)
def phase(
    dim: Annotated[int, typer.Option(min=2, help="The token dimension.")] = 24,
    rank: Annotated[int, typer.Option(min=1, help="The rank of W.")] = 2,
    trials: Annotated[int, typer.Option(min=1, help="Trials per point.")] = 20,
    folder: Annotated[Path, typer.Option(help="Where numbers and figure go; the same folder resumes.")] = Path(
        "runs/phase"
    ),
    as_json: Json = False,
) -> None:
    """How often low-rank recovery succeeds with so many measurements: nuclear norm, fixed rank, and ours."""
    from .._oracles import bar
    from .phase import phase as run

    if rank > dim:
        raise ValueError(f"expected a rank from 1 to --dim {dim}, got --rank {rank}")
    if as_json:
        print_json(run(folder, dim, rank, trials))
        return
    with bar("points") as report:
        run(folder, dim, rank, trials, report)
    typer.echo(f"figure: {folder / 'phase.svg'}\nnumbers: {folder / 'phase.json'}")
