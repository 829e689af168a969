"""What `glasshead recover` says in the end: the recovery on the screen, or which option might have avoided an error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.panel import Panel

from .._errors import BudgetExceeded, OracleError, TargetMismatch
from .._oracles import Oracle
from .._plan import plan
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
        ("checked", None if found.checked is None else str(found.checked)),
        ("distance", None if distance is None else f"{number(distance)} from the target file"),
        ("why", found.reason),
    )
    screen = console()
    screen.print(Panel(summary, title=f"[bold green]recovered[/] {found.family}", title_align="left", expand=False))
    if folder is not None:
        screen.print(f"[green]saved[/] {folder}", soft_wrap=True)


@contextmanager
def advice(oracle: Oracle) -> Iterator[None]:
    """Errors that pass through get a note, which is printed after their message."""
    try:
        yield
    except BudgetExceeded as error:
        enough = plan(oracle.dim, biases=True, answers=oracle.answers)
        error.add_note(f"--budget {enough} is enough for dimension {oracle.dim}, biases included")
        raise
    except TargetMismatch as error:
        if oracle.answers == "value" and oracle.tolerance == oracle.rtol == 0 and "tolerance" not in str(error):
            error.add_note("If the box rounds its answers or adds noise, say how much with --tolerance")
        raise
    except OracleError as error:
        if error.__cause__ is not None:
            error.add_note(f"Its tokens have length {oracle.dim}: is that what it expects?")
        raise
    except SystemExit as error:
        raise OracleError(f"the box called sys.exit({error.code})") from error
