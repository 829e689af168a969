"""`glasshead new`: a random model to try things on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .options import Json, Rank, Seed, examples
from .screen import console, print_json

EXAMPLES = examples(
    "glasshead new attention --dim 64 -o target.safetensors",
    "glasshead new attention --dim 64 --rank 8 --seed 3 -o low-rank.safetensors",
)

# The gh class whose .random makes one; a family that is None is in the contract but not in this version.
MAKERS: dict[str, str | None] = {"attention": "Attention", "multi-head": None, "transformer": None}


def families(incomplete: str) -> list[str]:
    return [name for name, maker in MAKERS.items() if maker and name.startswith(incomplete)]


def command(
    family: Annotated[str, typer.Argument(metavar="FAMILY", help="What to make: attention.", autocompletion=families)],
    dim: Annotated[int, typer.Option(min=1, help="The length of a token.")] = 64,
    rank: Rank = None,
    seed: Seed = 0,
    output: Annotated[Path, typer.Option("--output", "-o", help="The file to write.")] = Path("target.safetensors"),
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file if there is one.")] = False,
    as_json: Json = False,
) -> None:
    """Make a random model and save it."""
    import glasshead as gh

    maker = MAKERS.get(family)
    if maker is None:
        there = ", ".join(name for name, known in MAKERS.items() if known)
        why = "is not part of this version yet" if family in MAKERS else "is no family"
        raise ValueError(f"expected one of: {there}; got {family!r}, which {why}")
    if output.suffix != ".safetensors":
        raise ValueError(f"expected a file name that ends in .safetensors, got {output}")
    if output.exists() and not force:
        raise FileExistsError(f"{output} is there already: choose another name with -o, or overwrite it with --force")
    model = getattr(gh, maker).random(dim, rank=rank, seed=seed)
    gh.save(model, output)
    if as_json:
        print_json({"path": str(output), "family": family, "dim": dim, "rank": rank, "seed": seed})
        return
    screen = console()
    screen.print(f"[green]saved[/] {output}: {model}", soft_wrap=True)
    screen.print(f"try   [cyan]glasshead recover {output}[/]", soft_wrap=True)
