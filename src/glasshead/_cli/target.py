"""What TARGET may be: a model file, a saved recovery, or a Python callable."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any

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
