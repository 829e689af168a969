"""A matrix in the terminal: coloured half blocks, two rows of entries to a line."""

from __future__ import annotations

import numpy as np
from rich.color import Color
from rich.console import Console
from rich.style import Style
from rich.table import Table
from rich.text import Text

from .._picture import Panel, colours

GAP = 2  # columns between panels
LEAST = 8  # fewer columns for a panel are not worth drawing


def can_draw(screen: Console) -> bool:
    return (
        screen.is_terminal
        and not screen.no_color
        and screen.color_system in ("256", "truecolor", "windows")
        and screen.encoding.startswith("utf")
    )


def picture(panels: list[Panel], width: int) -> tuple[Table, int] | None:
    """The panels side by side and how many rows and columns of them fit, or None where hardly any do."""
    size = min((width - GAP * (len(panels) - 1)) // len(panels), max(panels[0].values.shape))
    if size < min(LEAST, max(panels[0].values.shape)):
        return None
    grid = Table.grid(padding=(0, GAP, 0, 0))
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
