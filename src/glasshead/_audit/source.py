"""What is audited: how to come by the box, in this process or another, and how many parameters it has to give away."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .._limits import information_limit
from .._models import Attention, Model, load
from .._oracles import Oracle, ValueOracle


class TargetSource(NamedTuple):
    """How to come by the box, in this process or another: `make()` gives an oracle, and the model where it is known."""

    make: Callable[[], tuple[Oracle, Any]]
    name: str


def open_box(target: Any, dim: int | None) -> tuple[Oracle, Any]:
    """The target as an oracle, and its parameters where it is one of our models."""
    if isinstance(target, str | os.PathLike):
        target = load(target)
    if isinstance(target, Oracle):
        return target, None
    return ValueOracle(target, dim), target if isinstance(target, Model) else None


def name_of(target: Any) -> str:
    return os.fspath(target) if isinstance(target, str | os.PathLike) else repr(target)


def count_parameters(model: Any) -> int:
    """The free parameters of the heads of a model of ours, or of one head of that dimension."""
    heads = getattr(model, "heads", [model] if isinstance(model, Attention) else [])
    ranks = [max(1, int(np.linalg.matrix_rank(head.W))) for head in heads]
    each = zip(heads, ranks, strict=True)
    total = sum(information_limit(head.dim, rank, key_bias=head.has_key_bias) for head, rank in each)
    return total or information_limit(model.dim)
