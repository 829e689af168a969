"""What a command says in the end: the recovery on the screen, or an error, on stderr or as JSON, with its exit code."""

from __future__ import annotations

import re
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import typer
from rich.padding import Padding
from rich.panel import Panel
from rich.text import Text

from .._errors import BudgetExceeded, GlassheadError, NotConverged, NotIdentifiable, OracleError, TargetMismatch
from .._families import FAMILIES, SINGLE_HEAD
from .._oracles import Oracle
from .._plan import plan
from .._recovery import Recovery
from .._report import REPORT_FILE
from .options import BAD_INPUT, INTERRUPTED, Interrupted
from .screen import console, number, print_json, rows


def show_notes(oracle: Oracle) -> None:
    """What a first look at the box has seen."""
    for note in oracle.notes:
        console(stderr=True).print(Text(f"seen: {note}", style="dim"))


def show_recovery(found: Recovery, distance: float | None, folder: Path | None, price: float | None) -> None:
    values = "" if found.bound_v is None else f", ||dv|| <= {number(found.bound_v)}"
    bounds = f"||dW||_F <= {number(found.bound)}{values}, confidence {found.confidence:g}"
    summary = rows(
        ("model", str(found.model)),
        ("queries", f"{found.queries:,} = {found.overhead:.4g} x the information limit of {found.limit:,}"),
        ("cost", None if price is None else cost(price, found.queries)),
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
        if (folder / REPORT_FILE).is_file():
            screen.print(f"[green]report[/] {folder / REPORT_FILE}", soft_wrap=True)


def cost(price: float, queries: int) -> str:
    return f"{price * queries:,.2f} at {price:g} per query"


def enough_for(error: BudgetExceeded, oracle: Oracle) -> str:
    """A budget that suffices, where what is known of the box says so."""
    declared = FAMILIES.get(error.family, SINGLE_HEAD)
    sizes: dict[str, Any] = {name: error.known.get(name) for name in declared.sizes}
    if not declared.enough or not all(sizes.values()):
        return f"It takes {error.budget + error.needed:,} queries at least; glasshead plan --help says what decides"
    queries = plan(oracle.dim, family=declared.name, answers=oracle.answers, biases=True, **sizes)
    what = declared.enough.format(**sizes)
    return f"--budget {queries} is enough for {what} of dimension {oracle.dim}, biases included"


@contextmanager
def advice(oracle: Oracle) -> Iterator[None]:
    """Errors that pass through get a note, which is printed after their message."""
    try:
        yield
    except BudgetExceeded as error:
        error.add_note(enough_for(error, oracle))
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


# typer's own exceptions, whether it carries a click of its own or uses the real one.
UsageError: type[Exception] = typer.BadParameter.__bases__[0]  # type: ignore[assignment]

EXIT_CODES: dict[type[BaseException], int] = {
    NotIdentifiable: 3,
    TargetMismatch: 4,
    BudgetExceeded: 5,
    OracleError: 6,
    NotConverged: 7,
    KeyboardInterrupt: INTERRUPTED,
    Interrupted: INTERRUPTED,
}
EXPECTED: tuple[type[BaseException], ...] = (
    GlassheadError,
    ValueError,
    TypeError,
    OSError,
    OverflowError,
    MemoryError,
    UsageError,
    KeyboardInterrupt,
    Interrupted,
    ImportError,
)


def say(error: BaseException, as_json: bool) -> int:
    """Say what went wrong, on stderr or as JSON on stdout; returns the exit code."""
    if as_json:
        kind = "KeyboardInterrupt" if isinstance(error, Interrupted) else type(error).__name__
        print_json({"error": kind, "message": message(error), **details(error)})
    else:
        show(error)
    return exit_code(error)


def exit_code(error: BaseException) -> int:
    return next((code for kind, code in EXIT_CODES.items() if isinstance(error, kind)), BAD_INPUT)


def message(error: BaseException) -> str:
    if isinstance(error, UsageError):
        return error.format_message()  # type: ignore[attr-defined]
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    if isinstance(error, MemoryError):
        return f"not enough memory for this: {error}"
    return str(error) or type(error).__name__


def details(error: BaseException) -> dict[str, Any]:
    if isinstance(error, TargetMismatch) and error.evidence is not None:
        return {"evidence": vars(error.evidence)}
    if isinstance(error, BudgetExceeded):
        return {"budget": error.budget, "needed": error.needed}
    return {}


def show(error: BaseException) -> None:
    sys.stdout.flush()
    screen = console(stderr=True)
    first, more = message(error), []
    if isinstance(error, TargetMismatch) and error.evidence is not None:
        first = first.removesuffix(f" ({error.evidence})")
        more = evidence(error)
    elif isinstance(error, BudgetExceeded):
        more = [("known so far", known(error)), ("still needed", f"at least {error.needed:,} more")]
    elif isinstance(error, OracleError) and error.__cause__ is not None:
        more = [("raised in", place(error.__cause__))]
    screen.print(Text.assemble((f"{title_of(error)}: ", "bold red"), as_options(first)))
    if more:
        screen.print(Padding(rows(*more), (0, 0, 0, 2)))
    for hint in hints(error):
        screen.print(Text(hint, style="dim"))


def as_options(words: str) -> str:
    """The library says `max_norm=9` where the command line says `--max-norm 9`."""

    def option(match: re.Match) -> str:
        return f"--{match[1].replace('_', '-')} {match[2]}".strip()

    return re.sub(r"\b([a-z_]+)=\"?([^\s\"),;]*)\"?", option, words)


def title_of(error: BaseException) -> str:
    if isinstance(error, KeyboardInterrupt | Interrupted):
        return "Stopped"
    titles = {
        NotIdentifiable: "Not identifiable",
        TargetMismatch: "Target mismatch",
        BudgetExceeded: "Budget exceeded",
        OracleError: "The box failed",
        NotConverged: "Not converged",
    }
    return next((title for kind, title in titles.items() if isinstance(error, kind)), "Error")


def evidence(error: TargetMismatch) -> list[tuple[str, str | None]]:
    found = error.evidence
    assert found is not None
    tokens, dim = found.query.shape
    shown = np.array2string(found.query, precision=4, threshold=16, edgeitems=2, suppress_small=False)
    return [
        ("law", found.law),
        ("query", f"{tokens} token{'s' * (tokens != 1)} in dimension {dim}\n{shown}"),
        ("expected", found.expected.removeprefix("expected ")),
        ("got", found.got),
        ("closest", closest(error.best)),
    ]


def closest(best: Any) -> str | None:
    """The recovery that did not pass its check, if there is one."""
    if best is None:
        return None
    return f"{best.model}" + ("" if best.residual is None else f", wrong by {best.residual:.2g}")


def known(error: BudgetExceeded) -> str:
    """The parts in `error.known`, in words."""
    parts = error.known
    if "unchecked" in parts:
        return "all of it, but unchecked"
    names = {"v": "v", "bias": "bias", "A": "the network", "kinks": "its kinks", "key_bias": "key bias"}
    words = [name for part, name in names.items() if part in parts]
    if "W_b" in parts:
        found, dim = np.shape(parts["W_b"])
        words.append(f"W in {found} of {dim} directions")
    return ", ".join(words) or "nothing"


def place(cause: BaseException) -> str | None:
    frames = traceback.extract_tb(cause.__traceback__)
    return f"{Path(frames[-1].filename).name}, line {frames[-1].lineno}: {frames[-1].line}" if frames else None


def hints(error: BaseException) -> list[str]:
    notes = list(getattr(error, "__notes__", []))
    if isinstance(error, UsageError) and getattr(error, "ctx", None) is not None:
        notes.append(f"{error.ctx.command_path} --help shows what there is")  # type: ignore[attr-defined]
    return notes
