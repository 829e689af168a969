"""What commands print with: the two consoles, one JSON object, and a bar for those who wait."""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

BAR_DELAY = 1.0  # seconds before a bar appears


def console(*, stderr: bool = False) -> Console:
    return Console(stderr=stderr, highlight=False, emoji=False)


def print_json(fields: dict[str, Any]) -> None:
    print(json.dumps(strict(fields), allow_nan=False))


def strict(value: Any) -> Any:
    """JSON has no infinity and no NaN: they become null. numpy's numbers become Python's."""
    if isinstance(value, dict):
        return {name: strict(item) for name, item in value.items()}
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [strict(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def rows(*pairs: tuple[str, Any]) -> Table:
    """Names in a dim column, what they stand for beside them; pairs without a value are left out."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column()
    for name, value in pairs:
        if value is not None:
            grid.add_row(name, as_text(value))
    return grid


def as_text(value: Any) -> Any:
    return Text(value) if isinstance(value, str) else value  # never taken for markup: it may hold [1. 2.]


def number(x: float | None) -> str:
    return "not known" if x is None else f"{x:.2g}"


@contextmanager
def patient_bar(units: str = "queries") -> Iterator[Callable[[int, int, str], None] | None]:
    """A progress bar on a terminal, but only once the work has taken a while."""
    if not sys.stderr.isatty():
        yield None
        return
    from .._oracles import bar

    with ExitStack() as stack:
        begun, shown = time.monotonic(), None

        def progress(done: int, planned: int, what: str) -> None:
            nonlocal shown
            if shown is None and time.monotonic() - begun > BAR_DELAY:
                shown = stack.enter_context(bar(units))
            if shown is not None:
                shown(done, planned, what)

        yield progress
