"""`glasshead plan`: how many queries it will take, before the first is asked."""

from __future__ import annotations

from typing import Annotated

import typer

from .._families import AUTO, FAMILIES, SINGLE_HEAD
from .options import Answers, FamilyName, Json, Price, Rank, WantedAccuracy, examples
from .screen import console, print_json, rows

EXAMPLES = examples(
    "glasshead plan --dim 64",
    "glasshead plan --dim 64 --biases",
    "glasshead plan --dim 64 --family auto --price-per-query 0.001",
    "glasshead plan --dim 64 --family multi-head --heads 8 --rank 8",
    "glasshead plan --dim 64 --family transformer --width 128",
    "glasshead plan --dim 64 --json",
)
USUAL_HEADS = 2, 4, 8, 12  # numbers of heads that "auto" is planned for, where none is named


def command(
    dim: Annotated[int, typer.Option(min=1, help="The length of a token.")],
    family: FamilyName = SINGLE_HEAD.name,
    rank: Rank = None,
    heads: Annotated[int, typer.Option(min=1, help="How many heads the box has.")] = 1,
    answers: Answers = "value",
    accuracy: WantedAccuracy = None,
    width: Annotated[int | None, typer.Option(min=1, help="How many neurons a transformer has.")] = None,
    biases: Annotated[bool, typer.Option("--biases", help="The box has a key bias and a bias.")] = False,
    outputs: Annotated[int, typer.Option(min=1, help="How many numbers an answer holds.")] = 1,
    dtype: Annotated[str, typer.Option(help="What its answers are computed in: float64 or float32.")] = "float64",
    price: Price = None,
    as_json: Json = False,
) -> None:
    """Say how many queries a recovery will ask at most."""
    from .._plan import Sizes, planned

    box = Sizes(dim, rank, heads, width, answers, accuracy, biases, outputs, dtype)
    queries, parameters = planned(box, family)
    limit = parameters if answers == "value" else (parameters - 1) * box.score_bits
    kinds = plans_of_kinds(box) if family == AUTO else {}
    if as_json:
        more = ({"kinds": kinds} if kinds else {}) | ({} if price is None else {"cost": price * queries})
        print_json({"dim": dim, "family": family, "queries": queries, "limit": limit} | more)
        return
    cost = "" if price is None else f", {price * queries:,.2f} at {price:g} per query"
    if kinds:
        console().print(f"[bold]{queries:,}[/] queries at most{cost}, before a box of none of these kinds is refused:")
        money = "" if price is None else " ({:,.2f})"
        console().print(
            rows(*((what, f"{most:,}" + money.format((price or 0) * most)) for what, most in kinds.items()))
        )
        return
    console().print(
        f"[bold]{queries:,}[/] queries at most{cost}, {queries / limit:.4g} x the information limit: "
        f"the box has {parameters:,} free parameters, and one answer is one {'bit' if answers == 'sign' else 'number'}"
    )


def plans_of_kinds(box) -> dict[str, int]:
    """What "auto" asks at most of a box of each kind, one number per answer unless it says otherwise."""
    from dataclasses import replace

    from .._plan import planned

    one = replace(box, heads=1)
    if box.answers == "sign":
        return {SINGLE_HEAD.sized: planned(one, SINGLE_HEAD.name).queries}
    numbers = USUAL_HEADS if box.heads == 1 else (box.heads,)
    several = [replace(box, heads=H, rank=box.rank or max(1, box.dim // H)) for H in numbers if box.dim >= H]
    known = [family for family in FAMILIES.values() if family.recognised]
    boxes = [(SINGLE_HEAD, one)]
    boxes += [(family, each) for each in several for family in known if "heads" in family.sizes]
    boxes += [(family, one) for family in known if not family.sizes and family is not SINGLE_HEAD]
    boxes += [(family, one) for family in known if "width" in family.sizes and box.width is not None]
    return {family.sized.format(**vars(each)): planned(each, family.name).queries for family, each in boxes}
