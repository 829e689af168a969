"""`glasshead compare`: are two models the same?"""

from __future__ import annotations

import math
from typing import Annotated, Any

import typer

from .options import Json, examples, models
from .screen import console, number, print_json, rows

EXAMPLES = examples(
    "glasshead compare target.safetensors runs/first",
    "glasshead compare a.safetensors b.safetensors --tol 1e-12 && echo the same",
    "glasshead compare target.safetensors runs/first --up-to-scale",
)
DIFFERENT = 1
# Where what lies behind heads stays a box.
ONLY_W, ONLY_W_AND_NORM = "W and key bias", "W, key bias and the norm in front"
ONLY_HEADS = "W, key bias, value maps, norms that are known, residual map and how order is seen"

WHAT = "A model file, or a folder saved by recover --run."


def command(
    a: Annotated[str, typer.Argument(metavar="A", help=WHAT, autocompletion=models)],
    b: Annotated[str, typer.Argument(metavar="B", help=WHAT, autocompletion=models)],
    tol: Annotated[float, typer.Option(help="The largest distance that still counts as the same.")] = 1e-9,
    up_to_scale: Annotated[
        bool, typer.Option("--up-to-scale", help="Let v and bias differ by a positive factor, as yes-or-no answers do.")
    ] = False,
    as_json: Json = False,
) -> int:
    """Say how far apart two models are: exit code 0 for the same, 1 for different.

    The distance is the larger of the relative Frobenius distances of W and of v. Of a head in front of an unknown
    network only W, the key bias and the norm in front can be compared, of two blocks W, key bias and value maps, the
    norms that are known and the residual map, and that is what is then said to be the same.
    """
    from .._identify import distance, what_differs
    from .target import load_model

    if not 0 <= tol < math.inf:
        raise ValueError(f"expected --tol to be a number >= 0, got {tol}")
    first, second = load_model(a), load_model(b)
    far = distance(first, second, up_to_scale=up_to_scale)
    same, what = far <= tol, what_is_compared(first, second, up_to_scale)
    if as_json:
        print_json({"same": same, "compared": what, "distance": far, "tol": tol, "up_to_scale": up_to_scale})
    else:
        screen = console()
        some = what.startswith((ONLY_W, ONLY_W_AND_NORM, ONLY_HEADS))
        verdict = f"the same {what}; nothing else was compared" if some else "the same"
        screen.print(f"[bold green]{verdict}[/]" if same else "[bold yellow]different[/]")
        why = what_differs(first, second) or "shapes, or numbers of heads,"
        apart = number(far) if math.isfinite(far) else f"infinite: their {why} differ"
        screen.print(
            rows(
                ("compared", what),
                ("distance", apart),
                ("allowed", number(tol)),
                ("a", f"{a}: {first}"),
                ("b", f"{b}: {second}"),
            )
        )
    return 0 if same else DIFFERENT


def what_is_compared(first: Any, second: Any, up_to_scale: bool) -> str:
    """What the distance of two models is about."""
    from .._models import Block, Placed

    if all(isinstance(model, Placed) for model in (first, second)):
        return f"{what_is_compared(first.model, second.model, up_to_scale)}; and positions at the places both have"
    if all(isinstance(model, Block) for model in (first, second)):
        return ONLY_HEADS
    if any(hasattr(model, "behind") for model in (first, second)):
        return ONLY_W_AND_NORM if any(getattr(model, "norm", None) for model in (first, second)) else ONLY_W
    if all(hasattr(model, "network") for model in (first, second)):
        return "W, key bias and what the networks answer"
    return "all parameters, v and bias up to a positive factor" if up_to_scale else "all parameters"
