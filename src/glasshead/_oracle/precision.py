"""How many digits a box computes with, read off its answers."""

from __future__ import annotations

import numpy as np

ROUNDOFF = {"float64": 2.0**-53, "float32": 2.0**-24, "bfloat16": 2.0**-8, "float16": 2.0**-11}


def fits(answers: np.ndarray, name: str) -> bool:
    """Whether every answer is a number of the narrower format."""
    with np.errstate(over="ignore"):
        if name == "bfloat16":  # float32 whose lower 16 bits are zero
            narrow = answers.astype(np.float32)
            return bool(np.all(narrow == answers) and not np.any(narrow.view(np.uint32) & 0xFFFF))
        return bool(np.all(answers.astype(name).astype(np.float64) == answers))


class Precision:
    """Narrows down the format of a box: a format stays possible until an answer needs more digits than it has."""

    ENOUGH = 5  # distinct answers before a coincidence (whole numbers, say) is not believed any more

    def __init__(self, dtype: np.dtype):
        self._input = ROUNDOFF[dtype.name]
        self._possible = ["bfloat16", "float16", "float32"]
        self._declared = 0.0
        self._seen: set[float] = set()

    def see(self, answers: np.ndarray) -> None:
        if answers.dtype.kind == "f":
            self._declared = ROUNDOFF.get(answers.dtype.name, 0.0)
        if not self._possible:
            return
        nonzero = answers[answers != 0].astype(np.float64, copy=False)
        if len(self._seen) < self.ENOUGH:
            self._seen.update(np.unique(nonzero).tolist())
        self._possible = [name for name in self._possible if fits(nonzero, name)]

    @property
    def roundoff(self) -> float:
        read = [ROUNDOFF[name] for name in self._possible if len(self._seen) >= self.ENOUGH]
        return max([self._input, self._declared, *read])
