"""`glasshead new`: a random model to try things on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .._families import FAMILIES, resolve
from .options import Json, Rank, Seed, examples, one_of
from .screen import console, print_json

EXAMPLES = examples(
    "glasshead new attention --dim 64 -o target.safetensors",
    "glasshead new attention --dim 64 --rank 8 --seed 3 -o low-rank.safetensors",
    "glasshead new transformer --dim 16 --width 32 -o transformer.safetensors",
    "glasshead new multi-head --dim 64 --heads 8 --rank 8 -o layer.safetensors",
)

MADE = {name: family for name, family in FAMILIES.items() if family.made}


def command(
    family: Annotated[
        str, typer.Argument(metavar="FAMILY", help=f"What to make: {', '.join(MADE)}.", autocompletion=one_of(MADE))
    ],
    dim: Annotated[int, typer.Option(min=1, help="The length of a token.")] = 64,
    rank: Rank = None,
    heads: Annotated[int | None, typer.Option(min=1, help="How many heads, for multi-head.")] = None,
    width: Annotated[int | None, typer.Option(min=1, help="How many neurons, for transformer.")] = None,
    seed: Seed = 0,
    output: Annotated[Path, typer.Option("--output", "-o", help="The file to write.")] = Path("target.safetensors"),
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file if there is one.")] = False,
    as_json: Json = False,
) -> None:
    """Make a random model and save it."""
    import glasshead as gh

    maker, sizes = class_and_sizes(family, {"heads": heads, "width": width})
    if output.suffix != ".safetensors":
        raise ValueError(f"expected a file name that ends in .safetensors, got {output}")
    if output.exists() and not force:
        raise FileExistsError(f"{output} is there already: choose another name with -o, or overwrite it with --force")
    model = resolve(f"_models:{maker}").random(dim, **sizes, rank=rank, seed=seed)
    gh.save(model, output)
    if as_json:
        print_json({"path": str(output), "family": family, "dim": dim, "rank": rank, "seed": seed} | sizes)
        return
    screen = console()
    screen.print(f"[green]saved[/] {output}: {model}", soft_wrap=True)
    screen.print(f"try   [cyan]glasshead recover {output}[/]", soft_wrap=True)


def class_and_sizes(family: str, sizes: dict[str, int | None]) -> tuple[str, dict[str, int]]:
    """The class that makes one, with the sizes that it takes."""
    if family not in MADE:
        raise ValueError(f"expected one of: {', '.join(MADE)}; got {family!r}, which is no family")
    needed = MADE[family].sizes
    for name, size in sizes.items():
        if size is None and name in needed:
            raise ValueError(f"expected --{name} for {family}")
        if size is not None and name not in needed:
            raise ValueError(f"expected no --{name} for {family}")
    return MADE[family].model, {name: size for name, size in sizes.items() if size is not None}
