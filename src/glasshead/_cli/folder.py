"""The folder of a run: its journal, its result in the end, and what is said to those who were interrupted."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from .._errors import AccuracyUnreachable, BudgetExceeded, JournalError, OracleError
from .._recovery import Recovery
from .._report import RUN_FILE
from .options import Interrupted, make_folder

JOURNAL = "journal.sqlite"
RUNS = Path("runs")  # where runs go that were given no folder


def folder_for(run: Path | None, target: str) -> Path:
    """The folder that was named, if a run may begin or go on in it; else a new one named after the target."""
    if run is None:
        last = re.split(r"[/:]", target.rstrip("/"))[-1].removesuffix(".safetensors").removesuffix(".onnx")
        name = re.sub(r"[^A-Za-z0-9_-]+", "-", last).strip("-") or "run"
        return next(folder for k in count(1) if not (folder := RUNS / f"{name}-{k}").exists())
    if run.is_dir() and any(run.iterdir()) and not (run / JOURNAL).exists():
        raise FileExistsError(
            f"expected a new folder, an empty one, or that of a run to be resumed, got {run}, which holds other files "
            f"and no {JOURNAL}; name another one with --run"
        )
    make_folder(run)
    return run


@contextmanager
def kept_in(folder: Path, made: bool) -> Iterator[Path]:
    """Yields the path of the journal. What stops the run is told where its answers are and how to go on; a folder that
    was `made` for a run that can never go on is removed again."""
    make_folder(folder)
    journal = folder / JOURNAL
    try:
        yield journal
    except (KeyboardInterrupt, BudgetExceeded, OracleError, JournalError) as error:
        if not journal.exists():
            discard(folder, made)
            raise
        budget = " with a larger --budget" if isinstance(error, BudgetExceeded) else ""
        words = f"Every answer so far is kept: the same command{budget} and --run {folder} goes on from here"
        if isinstance(error, KeyboardInterrupt):
            raise Interrupted("interrupted", words) from error
        error.add_note(words)
        raise
    except AccuracyUnreachable as error:
        if isinstance(error.best, Recovery):
            error.best.save(folder)
            error.add_note(f"What was found is kept in {folder}")
        else:
            discard(folder, made)
        raise
    except BaseException:
        discard(folder, made)
        raise


def discard(folder: Path, made: bool) -> None:
    """Remove what this run alone has put there."""
    if not made:
        return
    for path in (*folder.glob(f"{JOURNAL}*"), folder / RUN_FILE):
        path.unlink(missing_ok=True)
    folder.rmdir()
    if not any(RUNS.iterdir()):
        RUNS.rmdir()
