"""What stands behind the heads of a block with norms in front, once its network is known: all that answers need.

Heads add up to `a = x + sum_hi a_hi n(x_i) P_h + offset`, and the block answers `a + network(norm(a))`; in a parallel
block the network reads `norm(x)` instead. One token alone has `a = x + n(x) total + offset`, `total = sum_h P_h`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._types import Float
from .norm import Norm
from .two_layer import TwoLayer


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

    def stream(self, x: Float[np.ndarray, "B d"]) -> Float[np.ndarray, "B d"]:
        """What single tokens are behind the heads."""
        return x + self.front(x) @ self.total + self.offset

    def answers(self, x: Float[np.ndarray, "B d"], attended: Float[np.ndarray, "B d"]) -> Float[np.ndarray, "B d"]:
        """What the block answers where heads add that to the last tokens, without their constant."""
        a = x + attended + self.offset
        return a + self.network(self.norm(x if self.parallel else a))

    def __call__(self, X: np.ndarray) -> np.ndarray:
        x = np.asarray(X)[:, -1]
        return self.answers(x, self.front(x) @ self.total)

    def tensors(self) -> dict[str, np.ndarray]:
        named = {"total": self.total, "offset": self.offset, "parallel": np.array(float(self.parallel))}
        for place, norm in (("norm", self.norm), ("front", self.front)):
            named[f"{place}.{norm.kind}"] = np.array(norm.eps or 0.0)
        return named | {f"network.{name}": tensor for name, tensor in self.network.tensors().items()}

    @classmethod
    def from_tensors(cls, tensors: dict[str, np.ndarray]) -> Inside:
        network = {name.removeprefix("network."): x for name, x in tensors.items() if name.startswith("network.")}
        norm, front = (
            next(
                Norm(kind, float(tensors[name]) or None)
                for kind in Norm.kinds
                if (name := f"{place}.{kind}") in tensors
            )
            for place in ("norm", "front")
        )
        parallel = bool(tensors["parallel"])
        return cls(TwoLayer.from_tensors(network), norm, front, tensors["total"], tensors["offset"], parallel)
