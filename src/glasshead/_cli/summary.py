"""A recovery on the screen."""

from __future__ import annotations

from pathlib import Path

from rich.panel import Panel

from .._recovery import Recovery
from .screen import console, number, rows


def show(found: Recovery, distance: float | None, folder: Path | None) -> None:
    values = "" if found.bound_v is None else f", ||dv|| <= {number(found.bound_v)}"
    bounds = f"||dW||_F <= {number(found.bound)}{values}, confidence {found.confidence:g}"
    summary = rows(
        ("model", str(found.model)),
        ("queries", f"{found.queries:,} = {found.overhead:.4g} x the information limit of {found.limit:,}"),
        ("rank", str(found.rank)),
        ("proven" if found.confidence == 1 else "bounds", None if found.bound is None else bounds),
        ("held out", number(found.residual)),
        ("distance", None if distance is None else f"{number(distance)} from the target file"),
        ("why", found.reason),
    )
    screen = console()
    screen.print(Panel(summary, title=f"[bold green]recovered[/] {found.family}", title_align="left", expand=False))
    if folder is not None:
        screen.print(f"[green]saved[/] {folder}", soft_wrap=True)
