"""Models on disk: safetensors with the family and a version in the metadata. Nothing is ever unpickled."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from safetensors import safe_open
from safetensors.numpy import save_file  # pyright: ignore[reportUnknownVariableType]

from .._families import FAMILIES, resolve
from .._types import no_type_check
from .._validate import memory
from .attention import Attention
from .block import Block
from .front_head import FrontHead
from .multi_head import MultiHead
from .placed import Placed
from .transformer import Transformer
from .two_layer import TwoLayer

Model = Attention | Block | FrontHead | MultiHead | Placed | Transformer


class AnyModel(Protocol):
    """What a model of any family is, one that was added too: what files, the check and the judge need of it."""

    @property
    def family(self) -> str: ...

    @property
    def dim(self) -> int: ...

    def __call__(self, X: Any) -> Any: ...

    def tensors(self) -> dict[str, np.ndarray]: ...


FORMAT, VERSION = "glasshead", 1
BESIDE = {kind.family: kind for kind in (Placed, TwoLayer)}  # no families that `gh.recover` knows, but saved like them


@no_type_check
def save(model: Model | TwoLayer, path: str | os.PathLike[str]) -> Path:
    """Write a glasshead model to `path`, whole or not at all.

    >>> gh.save(gh.Attention.random(8), "head.safetensors")  # doctest: +SKIP
    """
    known = getattr(type(model), "family", None)
    if known not in (*FAMILIES, *BESIDE) or type(model) is not model_class(known):
        names = (*(family.model for family in FAMILIES.values()), *(kind.__name__ for kind in BESIDE.values()))
        known = ", ".join(f"gh.{name}" for name in names)
        raise TypeError(f"expected a glasshead model ({known}), got {type(model).__name__}")
    path = Path(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"expected an existing folder to save in, got {path.parent}")
    metadata = {"format": FORMAT, "version": str(VERSION), "family": model.family}
    with written_whole(path) as part:
        save_file({name: np.asarray(a, order="C") for name, a in model.tensors().items()}, part, metadata)
    return path


@contextmanager
def written_whole(path: Path) -> Generator[Path, None, None]:
    """A file to write to, which becomes `path` once it is whole and is removed if it never is."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield part
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def load(path: str | os.PathLike[str]) -> Model | TwoLayer:
    """Read a model that `gh.save` wrote; anything else is refused with the reason, as a ValueError or an OSError."""
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(
            f"expected a model file, got the folder {path}; gh.load_recovery reads a saved recovery"
        )
    if not path.is_file():
        raise FileNotFoundError(f"no such model file: {path}")
    if (size := path.stat().st_size) > memory():
        raise ValueError(f"{path} has {size / 2**30:,.1f} GiB, more than there is memory")
    metadata, tensors = load_tensors(path)
    if metadata.get("format") != FORMAT:
        raise ValueError(f"{path} holds tensors but was not written by gh.save; build the model and gh.save it first")
    if metadata.get("version") != str(VERSION):
        raise ValueError(f"{path} has version {metadata.get('version')}, this glasshead reads version {VERSION}")
    family = metadata.get("family")
    if family not in (*FAMILIES, *BESIDE):
        raise ValueError(f"{path} holds a {family!r}, this glasshead knows {sorted((*FAMILIES, *BESIDE))}")
    for name, tensor in tensors.items():
        if tensor.dtype.kind == "f" and not np.isfinite(tensor).all():
            wrong = np.sum(~np.isfinite(tensor))
            raise ValueError(f"{path} is damaged: expected {name} to be finite, got {wrong} NaN or infinite entries")
    try:
        return model_class(family).from_tensors(tensors)
    except KeyError as error:
        raise ValueError(f"{path} is damaged: it has no {error}") from error
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path} is damaged: {error}") from error


def load_tensors(path: Path) -> tuple[dict[str, str], dict[str, np.ndarray]]:
    """The metadata and the tensors of any safetensors file."""
    try:
        opened: Any = safe_open(path, framework="np")
        with opened as file:
            return file.metadata() or {}, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except OSError:
        raise
    except Exception as error:  # of formats that numpy has not got, too, which it raises in several ways
        raise ValueError(f"{path} is not a safetensors file that numpy can read: {error}") from error


def model_class(family: str) -> Any:
    """The class of the models of that family."""
    return BESIDE.get(family) or resolve(f"_models:{FAMILIES[family].model}")
