"""A matrix in the terminal: coloured half blocks, two rows of entries to a line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from rich import box
from rich.color import Color
from rich.console import Console
from rich.style import Style
from rich.table import Table
from rich.text import Text

from .._models import Attention, save
from .._recovery import Recovery
from .._report import REPORT_FILE, Panel, Run, colours, draw, report
from .screen import number

COLUMN_GAP = 2  # columns between panels
LEAST = 8  # fewer columns for a panel are not worth drawing


def can_draw(screen: Console) -> bool:
    return (
        screen.is_terminal
        and not screen.no_color
        and screen.color_system in ("256", "truecolor", "windows")
        and screen.encoding.startswith("utf")
    )


def matrix_picture(panels: list[Panel], width: int) -> tuple[Table, int] | None:
    """The panels side by side and how many rows and columns of them fit, or None where hardly any do."""
    size = min((width - COLUMN_GAP * (len(panels) - 1)) // len(panels), max(panels[0].values.shape))
    if size < min(LEAST, max(panels[0].values.shape)):
        return None
    grid = Table.grid(padding=(0, COLUMN_GAP, 0, 0))
    for _ in panels:
        grid.add_column(width=size, vertical="bottom")
    grid.add_row(*(panel.title for panel in panels), style="bold")
    grid.add_row(*(half_blocks(colours(panel.values[:size, :size], panel.range)) for panel in panels))
    return grid, size


def half_blocks(pixels: np.ndarray) -> Text:
    """`pixels (rows, columns, 3)`: the upper half of a character is one row, the lower half the next."""

    def colour(pixel: list[int]) -> Color:
        return Color.from_rgb(*pixel)

    text = Text(end="")
    rows = pixels.tolist()
    for k in range(0, len(rows), 2):
        upper, lower = rows[k], rows[k + 1] if k + 1 < len(rows) else None
        for j, pixel in enumerate(upper):
            below = None if lower is None else colour(lower[j])
            text.append("\N{UPPER HALF BLOCK}", Style(color=colour(pixel), bgcolor=below))
        text.append("\n" * (k + 2 < len(rows)))
    return text


WIDE = 64  # columns that the digits need beside one another


def introduce(screen: Console, dim: int) -> None:
    weights = dim * dim + dim
    screen.print(
        f"A black box hides an attention head with [bold]{weights:,}[/] weights: W, {dim} x {dim}, and v, {dim}. "
        "It takes short sequences of tokens and answers each with one number. From these answers alone:\n"
    )


def head(found: Recovery) -> Attention:
    """What the demo recovers: its box is a head."""
    assert isinstance(found.model, Attention)
    return found.model


def errors(target: Attention, found: Recovery) -> dict[str, float]:
    return {
        "error_W": float(np.abs(head(found).W - target.W).max()),
        "error_v": float(np.abs(head(found).v - target.v).max()),
    }


def numbers(screen: Console, target: Attention, found: Recovery) -> None:
    for table in (digits_table(target, found, screen.width), numbers_table(target, found)):
        screen.print()
        screen.print(table)
    screen.print()


def digits_table(target: Attention, found: Recovery, width: int) -> Table:
    """A few weights with all their digits, the agreeing ones in green."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("weight", style="dim", no_wrap=True)
    table.add_column("true", no_wrap=True)
    table.add_column("recovered", no_wrap=True)
    if width >= WIDE:
        table.add_column("off by", justify="right", no_wrap=True)
    last = target.dim - 1
    places: list[Any] = list(dict.fromkeys([(0, 0), (0, last), (last // 2, last // 3), (last, last)]))
    weights = [(f"W[{i}, {j}]", target.W[i, j], head(found).W[i, j]) for i, j in places]
    weights += [(f"v[{i}]", target.v[i], head(found).v[i]) for i in dict.fromkeys([0, last])]
    for name, true, recovered in weights:
        table.add_row(*[Text(name), *entry(float(true), float(recovered))][: len(table.columns)])
    return table


def entry(true: float, recovered: float) -> tuple[str, Text, str]:
    wanted, got = f"{true: .16f}", f"{recovered: .16f}"
    same = next((k for k, (a, b) in enumerate(zip(wanted, got, strict=False)) if a != b), len(got))
    off = abs(true - recovered)
    return wanted, Text.assemble((got[:same], "green"), (got[same:], "red")), "nothing" if off == 0 else number(off)


def numbers_table(target: Attention, found: Recovery) -> Table:
    off = errors(target, found)
    largest = float(np.abs(target.W).max())
    same = int(np.sum(head(found).v == target.v))
    distance = float(np.linalg.norm(head(found).W - target.W))
    table = Table.grid(padding=(0, 3, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(justify="right", style="bold", no_wrap=True)
    table.add_column(style="dim")
    for row in (
        ("queries asked", f"{found.queries:,}", "everything included"),
        ("information limit", f"{found.limit:,}", "one per weight; no learner can do with fewer"),
        ("ratio", f"{found.overhead:.4f}", f"the other {found.queries - found.limit} are pilots and checks"),
        ("largest error of W", number(off["error_W"]), f"the largest weight in it is {number(largest)}"),
        ("largest error of v", number(off["error_v"]), f"{same} of {target.dim} entries are equal to the last bit"),
        ("proven bound", number(found.bound), f"on ||W_recovered - W||_F, which is {number(distance)}"),
        ("held-out check", number(found.residual), "relative, on fresh queries of 1 to 64 tokens"),
    ):
        table.add_row(*row)
    return table


def panels(target: Attention, found: Recovery) -> list[Panel]:
    W, limit = target.W, float(np.abs(target.W).max())
    difference = W - head(found).W
    largest = float(np.abs(difference).max())
    title = (
        "difference: none" if largest == 0 else f"difference, enlarged {limit / largest:.1g} times".replace("e+", "e")
    )
    return [Panel("true W", W, limit), Panel("recovered W", head(found).W, limit), Panel(title, difference)]


def picture(screen: Console, target: Attention, found: Recovery) -> None:
    """In the terminal, as far as it fits; the whole of it goes to a file."""
    drawn = matrix_picture(panels(target, found), screen.width) if can_draw(screen) else None
    if drawn is None:
        return
    grid, size = drawn
    screen.print(grid)
    if size < target.dim:
        screen.print(f"[dim]the first {size} rows and columns of {target.dim}; all of them are in the file[/]")
    screen.print()


def save_pictures(folder: Path, target: Attention, found: Recovery, how: Run) -> dict[str, str]:
    title = f"One attention head, W of {target.dim} x {target.dim}, recovered from the answers of a black box"
    caption = (
        f"{found.queries:,} queries, {found.overhead:.3f} times the information limit; "
        f"the largest error of an entry is {number(errors(target, found)['error_W'])}"
    )
    svg = draw(folder / "W.svg", panels(target, found), title=title, caption=caption, signs="\N{MINUS SIGN}=")
    model, recovered = save(target, folder / "target.safetensors"), found.save(folder / "recovered")
    how.of(model, recovered).save(recovered)
    return {
        "picture": str(svg),
        "report": str(report(recovered, folder / REPORT_FILE)),
        "target": str(model),
        "recovered": str(recovered),
    }


def farewell(screen: Console, files: dict[str, str]) -> None:
    screen.print(f"report     [bold]{files['report']}[/]  (open it in a browser)", soft_wrap=True)
    screen.print(f"picture    {files['picture']}", soft_wrap=True)
    screen.print(f"models     {files['target']}, {files['recovered']}", soft_wrap=True)
    screen.print("\nTry next")
    screen.print(f"  [cyan]glasshead compare {files['target']} {files['recovered']}[/]", soft_wrap=True)
    screen.print("  [cyan]glasshead recover --help[/]   for a box of your own", soft_wrap=True)
