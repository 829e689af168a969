"""What a language model puts behind its last block: a norm, and a linear map to logits or log-probabilities."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import log_softmax  # pyright: ignore[reportMissingTypeStubs, reportUnknownVariableType]

from .._types import Float
from .norm import Norm


@dataclass(frozen=True, eq=False)
class Unembedding:
    """`norm(x) E + bias`, as log-probabilities if `probabilities`: gains and shifts of the norm are part of E and the
    bias. Without a norm `x E + bias`."""

    norm: Norm | None
    E: Float[np.ndarray, "d k"]
    bias: Float[np.ndarray, " k"]
    probabilities: bool = False

    def logits(self, x: Float[np.ndarray, "B d"]) -> Float[np.ndarray, "B k"]:
        return (x if self.norm is None else self.norm(x)) @ self.E + self.bias

    def __call__(self, x: Float[np.ndarray, "B d"]) -> Float[np.ndarray, "B k"]:
        logits = self.logits(x)
        return np.asarray(log_softmax(logits, axis=1)) if self.probabilities else logits

    def tensors(self) -> dict[str, np.ndarray]:
        named = {"E": self.E, "bias": self.bias, "probabilities": np.array(float(self.probabilities))}
        return named if self.norm is None else named | {f"norm.{self.norm.kind}": np.array(self.norm.eps or 0.0)}

    @classmethod
    def from_tensors(cls, tensors: dict[str, np.ndarray]) -> Unembedding:
        kind = next((kind for kind in Norm.kinds if f"norm.{kind}" in tensors), None)
        norm = None if kind is None else Norm(kind, float(tensors[f"norm.{kind}"]) or None, "behind")
        return cls(norm, tensors["E"], tensors["bias"], bool(tensors["probabilities"]))
