"""`glasshead plan`: how many queries it will take, before the first is asked."""

from __future__ import annotations

from typing import Annotated

import typer

from .options import Accuracy, Answers, Family, Json, Rank, examples
from .screen import console, print_json

EXAMPLES = examples(
    "glasshead plan --dim 64",
    "glasshead plan --dim 64 --biases",
    "glasshead plan --dim 64 --family multi-head --heads 8 --rank 8",
    "glasshead plan --dim 64 --family transformer --width 128",
    "glasshead plan --dim 64 --json",
)


def command(
    dim: Annotated[int, typer.Option(min=1, help="The length of a token.")],
    family: Family = "attention",
    rank: Rank = None,
    heads: Annotated[int, typer.Option(min=1, help="How many heads the box has.")] = 1,
    answers: Answers = "value",
    accuracy: Accuracy = None,
    width: Annotated[int | None, typer.Option(min=1, help="How many neurons a transformer has.")] = None,
    biases: Annotated[bool, typer.Option("--biases", help="The box has a key bias and a bias.")] = False,
    as_json: Json = False,
) -> None:
    """Say how many queries a recovery will ask at most."""
    from .._plan import Sizes, planned

    box = Sizes(dim, rank, heads, width, answers, accuracy, biases)
    queries, parameters = planned(box, family)
    limit = parameters if answers == "value" else (parameters - 1) * box.score_bits
    if as_json:
        print_json({"dim": dim, "family": family, "queries": queries, "limit": limit})
        return
    console().print(
        f"[bold]{queries:,}[/] queries at most, {queries / limit:.4g} x the information limit: "
        f"the box has {parameters:,} free parameters, and one answer is one {'bit' if answers == 'sign' else 'number'}"
    )
