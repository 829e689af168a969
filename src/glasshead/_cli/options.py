"""What several commands share: options, completions, what TARGET may be, the look of the examples."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextvars import ContextVar
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from .._families import ANSWERS, FAMILY_NAMES

GIVEN: ContextVar[tuple[str, ...]] = ContextVar("the command line that is being carried out", default=())
BAD_INPUT, INTERRUPTED = 2, 130  # exit codes; the others are in outcome.py


class PlainFlags:
    """A flag is shown by its name alone, where some versions of typer would write `--json <bool>`."""

    def get_params(self, ctx: Any) -> list[Any]:
        params = super().get_params(ctx)  # type: ignore[misc]
        for flag in (param for param in params if getattr(param, "is_flag", False) and param.metavar is None):
            flag.metavar = ""
        return params


class Command(PlainFlags, TyperCommand):
    pass


class Group(PlainFlags, TyperGroup):
    pass


def one_of(names: Iterable[str]) -> Callable[[str], list[str]]:
    """Completes to one of the names."""
    return lambda incomplete: [name for name in names if name.startswith(incomplete)]


class Interrupted(Exception):
    """Ctrl-C in a run that can be resumed; the note says how."""

    def __init__(self, message: str, note: str):
        super().__init__(message)
        self.add_note(note)


def files(incomplete: str, *endings: str) -> list[str]:
    """Names of files with such endings, and of folders, which may hold some."""
    folder = incomplete.rpartition("/")[0] + "/" if "/" in incomplete else ""
    paths = sorted(Path(folder or ".").glob("[!.]*"))
    names = [folder + path.name + "/" * path.is_dir() for path in paths if path.is_dir() or path.suffix in endings]
    return [name for name in names if name.startswith(incomplete)]


def models(incomplete: str) -> list[str]:
    """Completes to model files."""
    return files(incomplete, ".safetensors")


def targets(incomplete: str) -> list[str]:
    """Completes to files that may be a TARGET."""
    return files(incomplete, ".safetensors", ".onnx")


def examples(*commands: str) -> str:
    return "\n\n".join(["[bold]Examples[/]", *(f"[cyan]{command}[/]" for command in commands)])


def unwrapped(text: str | None) -> str:
    """One line per paragraph, to be broken where the terminal ends."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in (text or "").split("\n\n"))


Json = Annotated[bool, typer.Option("--json", help="Print one JSON object to stdout and nothing else.")]
Seed = Annotated[int, typer.Option(min=0, help="The same seed does the same again.")]
FamilyName = Annotated[
    str, typer.Option(help="What the box is: " + ", ".join(FAMILY_NAMES) + ".", autocompletion=one_of(FAMILY_NAMES))
]
Answers = Annotated[
    str, typer.Option(help="What the box answers: " + ", ".join(ANSWERS) + ".", autocompletion=one_of(ANSWERS))
]
Rank = Annotated[int | None, typer.Option(min=1, help="The rank of W, where it is known.")]
Price = Annotated[
    float | None, typer.Option("--price-per-query", min=0.0, help="What a query costs: say what all of them do.")
]
Ray = Annotated[
    str | None,
    typer.Option(metavar="ADDRESS", help="On a Ray cluster: local starts one here, auto, HOST:PORT."),
]
Replicas = Annotated[int | None, typer.Option(min=1, help="How many at a time, with --ray.")]
WantedAccuracy = Annotated[float | None, typer.Option(help="The largest acceptable error of W, in Frobenius norm.")]


def require_replicas(ray: str | None, replicas: int | None) -> None:
    if ray is None and replicas is not None:
        raise ValueError("expected --ray ADDRESS with --replicas N: where the cluster is on which to have them")


def make_folder(path: Path) -> None:
    """Makes the folder before the first query is asked: one that cannot be made costs none."""
    if path.exists() and not path.is_dir():
        raise NotADirectoryError(f"expected the name of a folder, got {path}, which is a file")
    path.mkdir(parents=True, exist_ok=True)
