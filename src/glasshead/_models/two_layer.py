"""`gh.TwoLayer`: the network inside a Transformer block, plain or gated."""

from __future__ import annotations

import numpy as np

from .._types import ArrayLike, Float
from .._validate import as_real, require_shape
from .activation import ACTIVATIONS, Activation


class TwoLayer:
    """`f(x) = W2 act(W1 x + b1) + b2`, or `W2 (act(W1 x + b1) * (gate x + gate_bias)) + b2` with a `gate`.

    >>> import glasshead as gh
    >>> model = gh.TwoLayer([[1.0, 0.0], [0.0, 2.0]], [0.0, 1.0], [[1.0, 1.0]], [0.5], activation="relu")
    >>> model([[3.0, 1.0], [-1.0, -1.0]]).tolist()
    [[6.5], [0.5]]

    `W1 (m, d)` has a row for each neuron, `W2 (k, m)` a row for each output; `activation` is "gelu", "gelu-tanh",
    "silu" or "relu". Callable on one input (d,) or several (B, d). SwiGLU is "silu" with a gate, GEGLU "gelu" with one:
    `W1` is then what LLaMA calls `gate_proj`, and `gate` its `up_proj`.
    """

    family = "network"

    def __init__(
        self,
        W1: ArrayLike,
        b1: ArrayLike | None,
        W2: ArrayLike,
        b2: ArrayLike | None,
        *,
        activation: str,
        gate: ArrayLike | None = None,
        gate_bias: ArrayLike | None = None,
    ) -> None:
        if activation not in ACTIVATIONS:
            raise ValueError(f"expected activation to be one of {', '.join(ACTIVATIONS)}, got {activation!r}")
        self.activation = activation
        self.W1: Float[np.ndarray, "m d"] = as_real(W1, "W1")
        require_shape(self.W1.ndim == 2, "W1 of shape (m, d)", self.W1.shape)
        m, d = self.W1.shape
        self.W2: Float[np.ndarray, "k m"] = as_real(W2, "W2")
        require_shape(self.W2.ndim == 2 and self.W2.shape[1] == m, f"W2 of shape (k, {m})", self.W2.shape)
        self.b1: Float[np.ndarray, " m"] = as_real(np.zeros(m) if b1 is None else b1, "b1")
        require_shape(self.b1.shape == (m,), f"b1 of shape ({m},)", self.b1.shape)
        k = len(self.W2)
        self.b2: Float[np.ndarray, " k"] = as_real(np.zeros(k) if b2 is None else b2, "b2")
        require_shape(self.b2.shape == (k,), f"b2 of shape ({k},)", self.b2.shape)
        if gate is None and gate_bias is not None:
            raise ValueError("expected gate_bias only with a gate, got it without")
        self.gate: Float[np.ndarray, "m d"] | None = None if gate is None else as_real(gate, "gate")
        self.gate_bias: Float[np.ndarray, " m"] | None = None
        if self.gate is not None:
            require_shape(self.gate.shape == (m, d), f"gate of shape ({m}, {d}), like W1", self.gate.shape)
            self.gate_bias = as_real(np.zeros(m) if gate_bias is None else gate_bias, "gate_bias")
            require_shape(self.gate_bias.shape == (m,), f"gate_bias of shape ({m},)", self.gate_bias.shape)

    @property
    def dim(self) -> int:
        return self.W1.shape[1]

    @property
    def width(self) -> int:
        return len(self.W1)

    @property
    def outputs(self) -> int:
        return len(self.W2)

    @property
    def parameters(self) -> int:
        """How many numbers the weights and biases are."""
        gate = 0 if self.gate is None else self.gate.size + self.width
        return self.W1.size + self.b1.size + self.W2.size + self.b2.size + gate

    @property
    def act(self) -> Activation:
        return ACTIVATIONS[self.activation]

    def __call__(self, x: ArrayLike) -> np.ndarray:
        x = np.asarray(x)
        if x.ndim not in (1, 2) or x.shape[-1] != self.dim:
            raise ValueError(f"expected inputs of shape ({self.dim},) or (B, {self.dim}), got {x.shape}")
        return self.hidden(x) @ self.W2.T + self.b2

    def hidden(self, x: Float[np.ndarray, "*B d"]) -> Float[np.ndarray, "*B m"]:
        """What the neurons hand on to the second layer."""
        out = self.act.value(x @ self.W1.T + self.b1)
        return out if self.gate is None else out * (x @ self.gate.T + self.gate_bias)

    @classmethod
    def random(
        cls,
        dim: int,
        width: int,
        *,
        outputs: int | None = None,
        activation: str = "gelu",
        gated: bool = False,
        biases: float = 0.3,
        seed: int = 0,
    ) -> TwoLayer:
        """Gaussian weights with answers of order 1 for inputs with entries of order 1, and biases of that size."""
        rng, outputs = np.random.default_rng(seed), dim if outputs is None else outputs
        W1, W2 = rng.standard_normal((width, dim)) / np.sqrt(dim), rng.standard_normal((outputs, width))
        b1, b2 = biases * rng.standard_normal(width), biases * rng.standard_normal(outputs)
        gate = rng.standard_normal((width, dim)) / np.sqrt(dim) if gated else None
        gate_bias = biases * rng.standard_normal(width) if gated else None
        return cls(W1, b1, W2 / np.sqrt(width), b2, activation=activation, gate=gate, gate_bias=gate_bias)

    def tensors(self) -> dict[str, np.ndarray]:
        named = {"W1": self.W1, "b1": self.b1, "W2": self.W2, "b2": self.b2}
        named["activation"] = np.array(float(list(ACTIVATIONS).index(self.activation)))
        gate = {"gate": self.gate, "gate_bias": self.gate_bias}
        return named | {name: x for name, x in gate.items() if x is not None}

    @classmethod
    def from_tensors(cls, tensors: dict[str, np.ndarray]) -> TwoLayer:
        index = as_real(tensors["activation"], "activation")
        known = list(ACTIVATIONS)
        require_shape(index.shape == () and index in range(len(known)), "one of the activations", index.shape)
        weights = [tensors[name] for name in ("W1", "b1", "W2", "b2")]
        gate = {name: tensors[name] for name in ("gate", "gate_bias") if name in tensors}
        return cls(*weights, activation=known[int(index)], **gate)

    def __repr__(self) -> str:
        gated = "gated " * (self.gate is not None)
        return f"TwoLayer({self.dim} -> {self.width} -> {self.outputs}, {gated}{self.activation})"
