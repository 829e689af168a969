"""Arguments become numbers, arrays and shapes that fit into memory, or an error that says what was expected."""

from __future__ import annotations

import math
import numbers
import os
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from ._errors import NotConverged


def as_real(value: Any, name: str) -> np.ndarray:
    """`value` as a finite float array: float32 stays float32, integers become float64, the rest is refused."""
    array = np.asarray(value)
    if np.iscomplexobj(array) or array.dtype.kind not in "fiu":
        raise TypeError(
            f"expected {name} to hold real numbers, got dtype {array.dtype}; convert it with .astype(float)"
        )
    if array.dtype != np.float32:
        array = array.astype(np.float64, copy=False)
    if not np.isfinite(array).all():
        raise ValueError(f"expected {name} to be finite, got {np.sum(~np.isfinite(array))} NaN or infinite entries")
    return array


def require_shape(fits: bool, expected: str, got: tuple[int, ...]) -> None:
    if not fits:
        raise ValueError(f"expected {expected}, got shape {tuple(got)}")


def real(value: Any, name: str, expected: str, fits: Callable[[float], bool]) -> float:
    """`value` as a float where it is a finite real number that `fits`."""
    number = not isinstance(value, bool) and isinstance(value, numbers.Real) and math.isfinite(value)
    if not number or not fits(float(value)):
        raise ValueError(f"expected {name} to be {expected}, got {value!r}")
    return float(value)


def positive(value: Any, name: str) -> float:
    return real(value, name, "a positive number", lambda x: x > 0)


def whole(value: Any, name: str, least: int | None = None) -> int:
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or (least is not None and value < least):
        raise ValueError(
            f"expected {name} to be an integer{f' >= {least}' if least is not None else ''}, got {value!r}"
        )
    return int(value)


def require_rank(rank: Any, dim: int) -> None:
    """Refuses what is no rank of a matrix; None, where none is named, is fine."""
    if rank is not None and whole(rank, "rank", least=1) > dim:
        raise ValueError(f"expected a rank from 1 to dim = {dim}, got {rank!r}")


def require_callable(f: Any, argument: str = "X") -> None:
    if not callable(f):
        raise TypeError(f"expected a callable box, got {type(f).__name__}; wrap it as lambda {argument}: ...")


def box_dim(f: Any, dim: Any, length: str, call: str) -> int:
    """The `dim` that was given, or that the box `f` says; `length` is what it is, `call` how to say it."""
    says = getattr(f, "dim", None)
    if dim is None and says is None:
        raise ValueError(f"expected dim=, the length of {length}: this box does not say; call {call}")
    dim = whole(says if dim is None else dim, "dim", least=1)
    if says is not None and says != dim:
        raise ValueError(f"expected dim={says}, which the box itself says, got dim={dim}")
    return dim


MATRICES = 8  # of d by d numbers, at once: measured with heads of rank 1, d = 1500 and 3000, where it was 8.5 to 13

CONTAINER = Path("/sys/fs/cgroup/memory.max")


def memory_needed(dim: int) -> int:
    """Bytes that recovering a head takes at least: W, the queries that read v, and what is made of them."""
    return 8 * MATRICES * dim * dim


def memory() -> float:
    """Bytes that this process may have: the machine's memory, or less where a container or a limit allows less."""
    most = [math.inf]
    if hasattr(os, "sysconf"):
        most.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    try:
        import resource

        most += [limit for limit in resource.getrlimit(resource.RLIMIT_AS)[:1] if limit != resource.RLIM_INFINITY]
        most.append(int(CONTAINER.read_text()))
    except (ImportError, OSError, ValueError):  # no such limits here, or the container's is the word "max"
        pass
    return min(most)


def require_memory(dim: int) -> None:
    """Refuse at once what cannot be held: an allocation that fails late, or never, would take the machine down."""
    if (needed := memory_needed(dim)) > (there := memory()):
        raise NotConverged(
            f"tokens of dimension {dim:,} need more memory than there is: W and the queries that read it take about "
            f"{needed / 2**30:,.0f} GiB, {there / 2**30:,.1f} GiB may be used; recover a box of fewer dimensions, such "
            "as one that takes tokens in a basis of the subspace in which they lie"
        )


def needs(module: str, extra: str) -> Any:
    """The module, or an error that says which extra has it."""
    try:
        return import_module(module)
    except ImportError as error:
        words = f"this needs {module.partition('.')[0]}, which is not installed: pip install 'glasshead[{extra}]'"
        raise ImportError(words) from error
