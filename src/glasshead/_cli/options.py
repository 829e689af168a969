"""What several commands share: options, completions, what TARGET may be, the look of the examples."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterable
from functools import reduce
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from .._families import ANSWERS, NAMES

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


def models(incomplete: str) -> list[str]:
    """Completes to model files and to folders, which may hold some."""
    folder = incomplete.rpartition("/")[0] + "/" if "/" in incomplete else ""
    paths = sorted(Path(folder or ".").glob("[!.]*"))
    names = [
        folder + path.name + "/" * path.is_dir() for path in paths if path.is_dir() or path.suffix == ".safetensors"
    ]
    return [name for name in names if name.startswith(incomplete)]


def examples(*commands: str) -> str:
    return "\n\n".join(["[bold]Examples[/]", *(f"[cyan]{command}[/]" for command in commands)])


def unwrapped(text: str | None) -> str:
    """One line per paragraph, to be broken where the terminal ends."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in (text or "").split("\n\n"))


Json = Annotated[bool, typer.Option("--json", help="Print one JSON object to stdout and nothing else.")]
Seed = Annotated[int, typer.Option(min=0, help="The same seed does the same again.")]
Family = Annotated[str, typer.Option(help="What the box is: " + ", ".join(NAMES) + ".", autocompletion=one_of(NAMES))]
Answers = Annotated[
    str, typer.Option(help="What the box answers: " + ", ".join(ANSWERS) + ".", autocompletion=one_of(ANSWERS))
]
Rank = Annotated[int | None, typer.Option(min=1, help="The rank of W, where it is known.")]
Accuracy = Annotated[float | None, typer.Option(help="The largest acceptable error of W, in Frobenius norm.")]


def make_folder(path: Path) -> None:
    """Made before the first query is asked: one that cannot be made costs none."""
    if path.exists() and not path.is_dir():
        raise NotADirectoryError(f"expected the name of a folder, got {path}, which is a file")
    path.mkdir(parents=True, exist_ok=True)


FORMS = "a .safetensors file written by glasshead new or gh.save, or module:callable with --dim"


def open_target(target: str) -> tuple[Callable, Any | None]:
    """The box, and the model in it where that is known because TARGET is one of our files."""
    if target.startswith(("http://", "https://")):
        raise ValueError(f"this version does not ask boxes over HTTP yet, got {target}; expected {FORMS}")
    if target.endswith(".onnx"):
        raise ValueError(f"this version does not open .onnx files yet, got {target}; expected {FORMS}")
    if Path(target).exists() or target.endswith(".safetensors"):
        model = load_model(target)
        return model, model
    if ":" in target:
        return load_callable(target), None
    raise FileNotFoundError(f"there is no {target} here; expected {FORMS}")


def load_model(path: str | os.PathLike) -> Any:
    """The model in a file of ours, or in a folder that `found.save` wrote."""
    import glasshead as gh

    return gh.load_recovery(path).model if Path(path).is_dir() else gh.load(path)


def load_callable(target: str) -> Callable:
    module_name, _, path = target.partition(":")
    if module_name.endswith(".py"):
        raise ValueError(f"expected the name of a module, got {module_name}; write {module_name[:-3]}:{path}")
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not module_name.startswith(error.name):
            raise ValueError(f"{module_name} needs the module {error.name}, which is not installed") from error
        raise ValueError(f"there is no module {module_name} in {here} or on the Python path") from error
    except (Exception, SystemExit) as error:
        raise ValueError(f"importing {module_name} raised {type(error).__name__}: {error}") from error
    try:
        box = reduce(getattr, path.split("."), module)
    except AttributeError as error:
        raise ValueError(f"there is no {path!r} in the module {module_name} ({module.__file__})") from error
    if not callable(box):
        raise TypeError(f"expected a callable that takes a (B, N, d) array, got {target}, of type {type(box).__name__}")
    return box
