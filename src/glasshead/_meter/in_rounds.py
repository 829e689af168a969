"""Meters that take many rounds of queries for a score, and no more of them for many scores."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, runtime_checkable

import numpy as np

from .scores import Meter, Scores

Block = tuple[np.ndarray, np.ndarray]  # query directions and key directions, as `Meter.columns` takes them


@runtime_checkable
class InRounds(Protocol):
    """A meter that measures several blocks of scores in the rounds of one."""

    def blocks(self, blocks: list[Block]) -> list[Scores]: ...


def measured_together(meter: Meter, blocks: list[Block]) -> Iterator[Scores]:
    """The scores of several blocks: side by side where that saves rounds, else one block after the other."""
    if isinstance(meter, InRounds):
        return iter(meter.blocks(blocks))
    return (meter.columns(B, A) if len(B) else nothing(A) for B, A in blocks)


def nothing(A: np.ndarray) -> Scores:
    empty = np.empty((0, A.shape[-2]))
    return Scores(empty, empty, empty)
