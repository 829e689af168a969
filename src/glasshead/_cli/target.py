"""TARGET of a command: a model file, an ONNX file, a Python callable, a torch module or an endpoint, as an oracle."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from functools import partial, reduce
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .._boxes import Layout, checked_place
from .._families import ANSWERS

FORMS = (
    "a .safetensors file written by glasshead new or gh.save, an .onnx file, module:callable with --dim, or the URL of "
    "a served model, http://HOST:PORT/v2/models/NAME"
)


class TargetOptions(NamedTuple):
    """What the command line says about the box behind TARGET; None and 0 say nothing."""

    dim: int | None
    answers: str
    tolerance: float
    rtol: float
    flips: float
    max_norm: float | None
    dtype: str | None
    place: int | None
    output: str | None = None
    cut: str | None = None
    ray: str | None = None
    replicas: int | None = None

    @property
    def last(self) -> int:
        """The place whose answer counts."""
        return -1 if self.place is None else self.place

    def promise(self) -> dict[str, Any]:
        """The keywords of the oracle."""
        self.require_consistent()
        names = ("flips", "max_norm") if self.answers == "sign" else ("tolerance", "rtol", "max_norm")
        given = {name: getattr(self, name) for name in names}
        return given | ({} if self.dtype is None else {"dtype": self.dtype})

    def require_consistent(self) -> None:
        if self.answers not in ANSWERS:
            raise ValueError(f"expected --answers to be one of {ANSWERS}, got {self.answers!r}")
        if self.answers == "sign" and (self.tolerance or self.rtol):
            raise ValueError("expected no --tolerance and no --rtol with --answers sign: yes is not close to no")
        if self.answers == "value" and self.flips:
            words = "expected no --flips with --answers value: say how far off answers may be with --tolerance"
            raise ValueError(words)
        if (self.ray is None) != (self.replicas is None):
            words = "--ray ADDRESS and --replicas N together"
            raise ValueError(f"expected {words}: where the cluster is, and how many boxes to have there")


def open_target(target: str, asked: TargetOptions) -> tuple[Any, Any | None]:
    """An oracle, and the model in it where that is known because TARGET is one of our files."""
    import glasshead as gh

    promise = asked.promise()
    if asked.ray is not None and (target.startswith(("http://", "https://")) or target.endswith(".onnx")):
        raise ValueError(f"expected --ray with a .safetensors model or module:callable, got {target}")
    where = {"dim": asked.dim, "place": asked.last, "output": asked.output}
    if target.startswith(("http://", "https://")):
        refuse(asked, "dtype", "cut")
        return gh.from_http(target, answers=asked.answers, **where, **promise), None
    if target.endswith(".onnx"):
        refuse(asked, "dtype")
        return gh.from_onnx(target, cut=asked.cut, answers=asked.answers, **where, **promise), None
    refuse(asked, "output", "cut")
    oracle = gh.SignOracle if asked.answers == "sign" else gh.ValueOracle
    if Path(target).exists() or target.endswith(".safetensors"):
        refuse(asked, "place")
        model = load_model(target)
        if asked.ray is not None:
            return on_ray(partial(itself, model), asked.dim or model.dim, asked), model
        return oracle(model, asked.dim, **promise), model
    if ":" not in target:
        raise FileNotFoundError(f"there is no {target} here; expected {FORMS}")
    box = load_callable(target)
    if isinstance(box, gh.Oracle):
        refuse(asked, *(name for name in TargetOptions._fields if name != "answers"))
        return box, None
    dim = asked.dim or getattr(box, "dim", None)
    if dim is None:
        raise ValueError(f"expected --dim, the length of a token: {target} does not say")
    if asked.ray is not None:
        return on_ray(partial(replica_of, target, asked.place, os.getcwd()), dim, asked), None
    if is_torch_module(box):
        return gh.from_torch(box, dim, place=asked.last, answers=asked.answers, **promise), None
    if asked.place is None:
        return oracle(box, asked.dim, **promise), None
    return oracle(answered_at(box, asked.place), dim, **promise), None


def on_ray(make: Callable[[], Callable[..., Any]], dim: int, asked: TargetOptions) -> Any:
    """An oracle on replicas, each of which calls `make`."""
    import glasshead as gh

    return gh.from_ray(make, dim, asked.replicas or 1, address=asked.ray, answers=asked.answers, **asked.promise())


def itself(model: Any) -> Any:
    return model


def replica_of(target: str, place: int | None, here: str) -> Callable[..., Any]:
    """The box of module:callable, imported on the machine of a replica; `here` is the folder of the command."""
    sys.path.insert(0, here)
    box = load_callable(target)
    if is_torch_module(box):
        raise TypeError(
            f"expected a callable on arrays with --ray, got {target}, a torch module: wrap it in a function"
        )
    return box if place is None else answered_at(box, place)


def answered_at(box: Callable[..., Any], place: int) -> Callable[..., Any]:
    """A box that answers every token, with the query token put at `place` and answered there."""
    layout = Layout(place=checked_place(place), per_token=True)
    return lambda X: layout.read(np.asarray(box(layout.sent(X))))


def refuse(asked: TargetOptions, *names: str) -> None:
    """Options that this kind of target says by itself."""
    for name in names:
        given = getattr(asked, name)
        if given is not None and (given or name == "place"):
            raise ValueError(f"expected no --{name.replace('_', '-')}: this target says that itself")


def is_torch_module(box: Any) -> bool:
    """Whether it is one, without loading torch for boxes that have nothing to do with it."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(box, torch.nn.Module)


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
