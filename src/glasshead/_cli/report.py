"""`glasshead report`: one HTML page about a recovery or an audit."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from .options import Json, examples, models
from .screen import console, print_json

EXAMPLES = examples("glasshead report runs/first", "glasshead report runs/first -o first.html")


def command(
    run: Annotated[
        Path, typer.Argument(metavar="RUN", help="A folder of recover --run or audit --run.", autocompletion=models)
    ],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Where the page goes: RUN/report.html.")
    ] = None,
    show: Annotated[bool, typer.Option("--open", help="Open it in a browser.")] = False,
    as_json: Json = False,
) -> None:
    """Write one HTML page with everything about a recovery or an audit: pictures, curves, tables, and how to read them.

    The page is a single file that loads nothing: it can be sent, archived and printed. It is made from what is in the
    folder, without asking the box anything.
    """
    from .._report import report

    page = report(run, output)
    if as_json:
        print_json({"report": str(page), "bytes": page.stat().st_size})
    else:
        console().print(f"[green]report[/] {page}  ({page.stat().st_size / 1000:,.0f} kB)", soft_wrap=True)
    if show and not webbrowser.open(page.resolve().as_uri()):
        console(stderr=True).print(f"no browser could be opened; the page is {page}", soft_wrap=True)
