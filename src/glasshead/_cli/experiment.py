"""`glasshead experiment`: figures of what works with how much, run again by anybody."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from .options import Command, Group, Json, Ray, Replicas, examples, require_replicas
from .screen import print_json

EXAMPLES = examples(
    "glasshead experiment phase",
    "glasshead experiment phase --dim 32 --rank 3 --folder runs/phase32",
    "glasshead experiment phase --ray auto --replicas 16",
)
experiments = typer.Typer(
    cls=Group,
    help="Experiments with a figure: what works, and with how many queries.",
    epilog=EXAMPLES,
    no_args_is_help=True,
    rich_markup_mode="rich",
)


@experiments.command(cls=Command, epilog=EXAMPLES)
def phase(
    dim: Annotated[int, typer.Option(min=2, help="The token dimension.")] = 24,
    rank: Annotated[int, typer.Option(min=1, help="The rank of W.")] = 2,
    trials: Annotated[int, typer.Option(min=1, help="Trials per point.")] = 20,
    folder: Annotated[Path, typer.Option(help="Where numbers and figure go; the same folder resumes.")] = Path(
        "runs/phase"
    ),
    ray: Ray = None,
    replicas: Replicas = None,
    as_json: Json = False,
) -> None:
    """How often low-rank recovery succeeds with so many measurements: nuclear norm, fixed rank, and ours.

    With --ray the points are run on a cluster, several at a time; they come out the same.
    """
    from .._boxes import ray_executor
    from .._oracles import bar
    from .phase import run_phase

    if rank > dim:
        raise ValueError(f"expected a rank from 1 to --dim {dim}, got --rank {rank}")
    require_replicas(ray, replicas)
    with (
        nullcontext() if ray is None else ray_executor(ray, replicas) as executor,
        nullcontext() if as_json else bar("points") as report,
    ):
        content = run_phase(folder, dim, rank, trials, report, executor)
    if as_json:
        print_json(content)
    else:
        typer.echo(f"figure: {folder / 'phase.svg'}\nnumbers: {folder / 'phase.json'}")
