"""A progress bar on the terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


@contextmanager
def bar(units: str = "queries") -> Iterator[Callable[[int, int, str], None]]:
    """Yields a callable `(done, planned, what)`. On stderr, so that stdout stays clean."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(units),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task("asking", total=None)

        def report(done: int, planned: int, what: str) -> None:
            progress.update(task, completed=done, total=planned, description=what)

        yield report
