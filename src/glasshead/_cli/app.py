"""The app: its commands, and the way from an exception to a message and an exit code."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from .._version import __version__
from . import audit, bench, compare, demo, new, plan, recover, report, serve
from .experiment import experiments
from .options import GIVEN, INTERRUPTED, Command, Group, unwrapped

app = typer.Typer(
    name="glasshead",
    cls=Group,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for module in (demo, new, recover, plan, compare, serve, audit, report, bench):
    name = module.__name__.rpartition(".")[2]
    app.command(name, cls=Command, help=unwrapped(module.command.__doc__), epilog=module.EXAMPLES)(module.command)


app.add_typer(experiments, name="experiment")


def show_version(wanted: bool) -> bool:
    if wanted:
        typer.echo(f"glasshead {__version__}")
        raise typer.Exit
    return wanted


@app.callback(epilog="[bold]Start here[/]: [cyan]glasshead demo[/]")
def glasshead(
    version: Annotated[
        bool, typer.Option("--version", callback=show_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """Recover the parameters of a black-box attention head from well-chosen queries."""


def run(arguments: Sequence[str]) -> int:
    """Carry out one command line; returns the exit code. Only a bug of ours raises."""
    try:
        GIVEN.set(tuple(arguments))
        code = app(list(arguments) or ["--help"], prog_name="glasshead", standalone_mode=False)
        if code != INTERRUPTED:  # which is what typer makes of Ctrl-C
            return code or 0
        error = KeyboardInterrupt("interrupted: nothing was saved")
    except (Exception, KeyboardInterrupt) as raised:
        error = raised
    from .outcome import EXPECTED, say

    if not isinstance(error, EXPECTED):
        raise error
    return say(error, "--json" in arguments)


def main() -> None:
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a terminal that cannot show a character gets a "?", not an error
            stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    sys.exit(run(sys.argv[1:]))
