"""The networks of these tests: Gaussian ones, and each way of being degenerate."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np


@dataclass
class Net:
    """`w^T ReLU(A^T x + b) + c`, evaluated in `dtype`; counts what it is asked."""

    A: np.ndarray
    w: np.ndarray
    b: np.ndarray
    c: float = 0.0
    dtype: type = np.float64
    asked: int = 0

    def __call__(self, x):
        self.asked += len(x)
        A, w, b = (part.astype(self.dtype) for part in (self.A, self.w, self.b))
        return np.maximum(x.astype(self.dtype) @ A + b, 0) @ w + self.dtype(self.c)

    def error(self, found, scale: float = 1.0, n: int = 10_000) -> float:
        """The largest difference on Gaussian inputs, over the largest value."""
        x = scale * np.random.default_rng(12345).standard_normal((n, len(self.A)))
        true = replace(self, dtype=np.float64)(x)
        off, largest = np.abs(found(x) - true).max(), np.abs(true).max()
        return float(off / largest if largest > 0 else off)


def gaussian(d: int, m: int, *, biases: float = 0.0, seed: int = 0, dtype: type = np.float64) -> Net:
    """Standard Gaussian weights; biases and constant of size `biases`."""
    rng = np.random.default_rng((seed, d, m))
    A, w, b = rng.standard_normal((d, m)), rng.standard_normal(m), biases * rng.standard_normal(m)
    return Net(A, w, b, biases * float(rng.standard_normal()), dtype)


def with_neuron(net: Net, k: int, like: int, factor: float, weight: float | None = None) -> Net:
    """Neuron k made `factor` times neuron `like`, biases and all; and its output weight."""
    A, w, b = net.A.copy(), net.w.copy(), net.b.copy()
    A[:, k], b[k] = factor * A[:, like], factor * b[like]
    w[k] = w[k] if weight is None else weight
    return Net(A, w, b, net.c)


def degenerate(name: str, biases: float) -> tuple[Net, int]:
    """A network of six neurons in dimension 8 with this flaw, and how many neurons its function really takes."""
    net = gaussian(8, 6, biases=biases, seed=5)
    w, zero = net.w, np.zeros(6)
    return {
        "parallel": lambda: (with_neuron(net, 1, 0, 2.0), 5),
        "duplicate": lambda: (with_neuron(net, 1, 0, 1.0), 5),
        "opposite": lambda: (with_neuron(net, 1, 0, -2.0), 6),
        "two opposite pairs": lambda: (with_neuron(with_neuron(net, 1, 0, -2.0), 3, 2, -1.5), 6),
        "opposite and linear": lambda: (with_neuron(net, 1, 0, -1.0, -w[0]), 6),
        "cancelling": lambda: (with_neuron(net, 1, 0, 1.0, -w[0]), 4),
        "no inputs": lambda: (replace(net, A=net.A * (np.arange(6) != 2), b=net.b * (np.arange(6) != 2)), 5),
        "no output": lambda: (replace(net, w=w * (np.arange(6) != 2)), 5),
        "all dead": lambda: (replace(net, w=zero, c=0.0), 0),
        "rank 2": lambda: (replace(net, A=net.A * (np.arange(8) < 2)[:, None]), 6),
        "tiny 1e-6": lambda: (replace(net, w=w * np.logspace(0, -6, 6)), 6),
        "tiny 1e-10": lambda: (replace(net, w=np.sign(w) * np.logspace(0, -10, 6)), 6),
    }[name]()
