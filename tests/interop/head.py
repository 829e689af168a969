"""A head as a server of others computes it: from the file alone, with numpy, without glasshead."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

INPUT, OUTPUT = "tokens", "answers"
FORMATS = {"FP64": "float64", "FP32": "float32"}


class Head:
    """The head in a file, in one of the formats; the file's name is the model's, and ends with the format."""

    def __init__(self, path: str):
        self.name = Path(path).stem
        self.datatype = self.name.rpartition("-")[2]
        tensors = load_file(path)
        self.W, self.v = (tensors[key].astype(FORMATS[self.datatype]) for key in ("W", "v"))

    @property
    def inputs(self) -> list[dict]:
        return [{"name": INPUT, "datatype": self.datatype, "shape": [-1, -1, len(self.W)]}]

    @property
    def outputs(self) -> list[dict]:
        return [{"name": OUTPUT, "datatype": self.datatype, "shape": [-1, *self.v.shape[1:]]}]

    def __call__(self, X: np.ndarray) -> np.ndarray:
        """One answer for each sequence of (B, N, d), or several, each computed alone."""
        return np.array([self.answer(x) for x in X.astype(self.W.dtype)])

    def answer(self, x: np.ndarray) -> np.ndarray:
        scores = x @ (self.W @ x[-1])
        weights = np.exp(scores - scores.max())
        return (weights / weights.sum()) @ (x @ self.v)
