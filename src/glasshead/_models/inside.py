"""What stands behind the heads of a block with norms in front, once its network is known: all that answers need.

Heads add up to `a = x + sum_hi a_hi n(x_i) P_h + offset`, and the block answers `a + network(norm(a))`; in a parallel
block the network reads `norm(x)` instead. One token alone has `a = x + n(x) total + offset`, `total = sum_h P_h`. In a
language model of one block an `Unembedding`, a norm and a linear map, turns that into logits or log-probabilities.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import log_softmax  # pyright: ignore[reportMissingTypeStubs, reportUnknownVariableType]

from .._types import Float
from .norm import Norm
from .post_norm import part
from .two_layer import TwoLayer


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


@dataclass(frozen=True, eq=False)
class Inside:
    """The network with its norm, whose gains and shifts are folded into the network, and the constant that heads add:
    callable on single tokens (B, 1, d), as the box is."""

    network: TwoLayer
    norm: Norm  # in front of the network
    front: Norm  # in front of the heads
    total: Float[np.ndarray, "d d"]
    offset: Float[np.ndarray, " d"]
    parallel: bool = False
    last: Unembedding | None = None

    def stream(self, x: Float[np.ndarray, "B d"]) -> Float[np.ndarray, "B d"]:
        """What single tokens are behind the heads."""
        return x + self.front(x) @ self.total + self.offset

    def answers(self, x: Float[np.ndarray, "B d"], attended: Float[np.ndarray, "B d"]) -> Float[np.ndarray, "B k"]:
        """What the block answers where heads add that to the last tokens, without their constant."""
        a = x + attended + self.offset
        whole = a + self.network(self.norm(x if self.parallel else a))
        return whole if self.last is None else self.last(whole)

    def __call__(self, X: np.ndarray) -> np.ndarray:
        x = np.asarray(X)[:, -1]
        return self.answers(x, self.front(x) @ self.total)

    def tensors(self) -> dict[str, np.ndarray]:
        named = {"total": self.total, "offset": self.offset, "parallel": np.array(float(self.parallel))}
        for place, norm in (("norm", self.norm), ("front", self.front)):
            named[f"{place}.{norm.kind}"] = np.array(norm.eps or 0.0)
        parts = {"network": self.network} | ({} if self.last is None else {"last": self.last})
        return named | {f"{part}.{name}": x for part, each in parts.items() for name, x in each.tensors().items()}

    @classmethod
    def from_tensors(cls, tensors: dict[str, np.ndarray]) -> Inside:
        network, last = part(tensors, "network"), part(tensors, "last")
        norm, front = (
            next(
                Norm(kind, float(tensors[name]) or None)
                for kind in Norm.kinds
                if (name := f"{place}.{kind}") in tensors
            )
            for place in ("norm", "front")
        )
        parallel = bool(tensors["parallel"])
        made = Unembedding.from_tensors(last) if last else None
        return cls(TwoLayer.from_tensors(network), norm, front, tensors["total"], tensors["offset"], parallel, made)
