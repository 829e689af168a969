"""What stands behind the heads of a block with norms behind, once its network is known: all that answers need.

Heads add up to `a = x + sum_hi a_hi x_i P_h + offset`, the first norm makes `n = norm(a)` of it, the network and the
residual connection around it `y = gains * n + network(n)`, and the last norm the answer, `last_gains * last(y) +
last_shifts`: a layer of BERT, or torch's `nn.TransformerEncoderLayer`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._types import Float
from .norm import Norm
from .two_layer import TwoLayer


def part(tensors: dict[str, np.ndarray], name: str) -> dict[str, np.ndarray]:
    """The tensors of one part of a model, by their names inside it."""
    return {each.removeprefix(f"{name}."): x for each, x in tensors.items() if each.startswith(f"{name}.")}


@dataclass(frozen=True, eq=False)
class PostNorm:
    """The network with both norms, and the constant that heads add: callable on single tokens (B, 1, d), as the box is.

    Shifts of the first norm are part of the network's biases, and its gains part of W1: what no answer tells apart.
    Nor is the size of y seen, but for the eps of the last norm: gains have the mean 1.
    """

    network: TwoLayer
    norm: Norm  # behind the heads
    gains: Float[np.ndarray, " d"]
    last: Norm  # behind the network
    last_gains: Float[np.ndarray, " d"]
    last_shifts: Float[np.ndarray, " d"]
    total: Float[np.ndarray, "d d"]
    offset: Float[np.ndarray, " d"]

    front = None  # no norm stands before the heads
    parallel = False

    def stream(self, x: Float[np.ndarray, "B d"]) -> Float[np.ndarray, "B d"]:
        """What single tokens are behind the heads."""
        return x + x @ self.total + self.offset

    def beyond(self, n: Float[np.ndarray, "B d"]) -> Float[np.ndarray, "B d"]:
        """The answer where the first norm hands on n."""
        return self.last_gains * self.last(self.gains * n + self.network(n)) + self.last_shifts

    def answers(self, x: Float[np.ndarray, "B d"], attended: Float[np.ndarray, "B d"]) -> Float[np.ndarray, "B d"]:
        """What the block answers where heads add that to the last tokens, without their constant."""
        return self.beyond(self.norm(x + attended + self.offset))

    def __call__(self, X: np.ndarray) -> np.ndarray:
        x = np.asarray(X)[:, -1]
        return self.answers(x, x @ self.total)

    def tensors(self) -> dict[str, np.ndarray]:
        names = "gains", "last_gains", "last_shifts", "total", "offset"
        named = {name: np.asarray(getattr(self, name)) for name in names}
        named |= {name: np.array(getattr(self, name).eps or 0.0) for name in ("norm", "last")}
        return named | {f"network.{name}": tensor for name, tensor in self.network.tensors().items()}

    @classmethod
    def from_tensors(cls, tensors: dict[str, np.ndarray]) -> PostNorm:
        norm, last = (Norm("layer", float(tensors[name]) or None, "behind") for name in ("norm", "last"))
        maps = {name: tensors[name] for name in ("gains", "last_gains", "last_shifts", "total", "offset")}
        return cls(TwoLayer.from_tensors(part(tensors, "network")), norm, last=last, **maps)
