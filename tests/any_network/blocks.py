"""Attention heads with all kinds of networks behind them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy.special import erf

import glasshead as gh
from glasshead._learned import LearnedFront
from glasshead._learners.any_network.learn import learn_any_network

ACTIVATIONS = {
    "gelu": lambda x: 0.5 * x * (1 + erf(x / np.sqrt(2))),
    "tanh": np.tanh,
    "relu": lambda x: np.maximum(x, 0),
}


def normalized(x, eps=1e-5):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + eps)


def root_mean_square(x, eps=1e-5):
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + eps)


class Block:
    """One head of rank `rank` with key bias, then LayerNorm, an MLP with biases, LayerNorm and a read-out.

    `residual` adds the last token to the attention output, `norm="layer"` normalises the tokens before the head.
    """

    def __init__(
        self, dim, *, rank=None, outputs=None, residual=True, norm=None, act="gelu", eps=1e-5, size=1.0, seed=0
    ):
        rng = np.random.default_rng((seed, dim, rank or dim))
        rank = rank or dim

        def normal(*shape):
            return rng.standard_normal(shape)

        self.dim, self.residual, self.norm, self.eps, self.act = dim, residual, norm, eps, ACTIVATIONS[act]
        K, Q, query_bias = normal(rank, dim) / np.sqrt(dim), size * normal(rank, dim) / np.sqrt(rank), normal(rank)
        self.W, self.key_bias = K.T @ Q, K.T @ query_bias / np.sqrt(rank)
        self.B, self.bo = normal(dim, dim) / np.sqrt(dim), 0.1 * normal(dim)
        self.W1, self.b1 = normal(dim, 4 * dim) / np.sqrt(dim), 0.1 * normal(4 * dim)
        self.W2, self.b2 = normal(4 * dim, dim) / np.sqrt(4 * dim), 0.1 * normal(dim)
        self.gains, self.shifts = 1 + 0.1 * normal(3, dim), 0.1 * normal(3, dim)
        self.readout = normal(dim, outputs or 1) / np.sqrt(dim)
        self.scalar = outputs is None

    def tokens(self, X):
        if self.norm is None:
            return X
        scaled = (normalized if self.norm == "layer" else root_mean_square)(X, self.eps) * self.gains[2]
        return scaled + self.shifts[2] if self.norm == "layer" else scaled

    def attend(self, X):
        x = self.tokens(X)
        scores = np.einsum("bnd,bd->bn", x, x[:, -1] @ self.W.T + self.key_bias)
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        return np.einsum("bn,bnd->bd", weights / weights.sum(axis=1, keepdims=True), x)

    def __call__(self, X):
        h = self.attend(X) @ self.B + self.bo + (X[:, -1] if self.residual else 0)
        h = normalized(h) * self.gains[0] + self.shifts[0]
        h = h + self.act(h @ self.W1 + self.b1) @ self.W2 + self.b2
        y = (normalized(h) * self.gains[1] + self.shifts[1]) @ self.readout
        return y[:, 0] if self.scalar else y


def identifiable(block: Block) -> tuple[np.ndarray, np.ndarray]:
    """W and key bias between normalised tokens: gains and shifts inside, and nothing along the mean of a LayerNorm."""
    mean = block.norm == "layer"
    P, G = np.eye(block.dim) - mean / block.dim, np.diag(block.gains[2])
    shift = mean * block.shifts[2]
    return P @ G @ block.W @ G @ P, P @ G @ (block.W @ shift + block.key_bias)


@dataclass(frozen=True)
class Result:
    """What was learned of a box, and what it took."""

    learned: LearnedFront
    queries: int

    def error(self, W: np.ndarray) -> float:
        """The relative Frobenius error of W."""
        return float(np.linalg.norm(self.learned.model.W - W) / np.linalg.norm(W))

    def key_bias_error(self, key_bias: np.ndarray) -> float:
        return float(np.linalg.norm(self.learned.model.key_bias - key_bias) / np.linalg.norm(key_bias))

    def bounded(self, W: np.ndarray) -> bool:
        return bool(np.linalg.norm(self.learned.model.W - W) <= self.learned.bound)

    @property
    def per_parameter(self) -> float:
        """Queries over the free parameters of W and the key bias."""
        d, r = self.learned.model.dim, self.learned.rank
        return self.queries / (2 * r * d - r * r + d)


def learn(box, dim, *, seed=0, oracle: type = gh.ValueOracle, options=None, **arguments) -> Result:
    asked = oracle(box, dim=dim, **(options or {}))
    learned = learn_any_network(asked, np.random.default_rng(seed), **arguments)
    return Result(learned, asked.queries)


def evidence_against(box, dim, **arguments) -> gh.Evidence | None:
    """What shows that the box is no head with a network behind it, found on the way or by the held-out check."""
    try:
        return learn(box, dim, **arguments).learned.check.evidence
    except gh.TargetMismatch as error:
        return error.evidence


class RandomBlock:
    """A head in front of a random network: one to three layers, with or without residual, LayerNorm and biases."""

    def __init__(self, seed, dim=None, act=None):
        rng = np.random.default_rng((seed, 77))
        self.dim = dim or int(rng.integers(3, 13))
        self.act = ACTIVATIONS[act or str(rng.choice(sorted(ACTIVATIONS)))]
        self.residual, self.norm, biases, key_bias = (bool(rng.integers(2)) for _ in range(4))
        rank = int(rng.integers(1, self.dim + 1))
        left, right = rng.standard_normal((self.dim, rank)), rng.standard_normal((rank, self.dim))
        self.W = float(np.exp(rng.normal())) * left @ right / np.sqrt(rank * self.dim)
        self.key_bias = key_bias * rng.standard_normal(self.dim) / np.sqrt(self.dim)
        widths = [self.dim, *(int(rng.integers(2, 4 * self.dim)) for _ in range(rng.integers(1, 4)))]
        self.layers = [
            (rng.standard_normal((m, n)) / np.sqrt(m), biases * 0.3 * rng.standard_normal(n))
            for m, n in pairwise(widths)
        ]
        self.mix = rng.standard_normal((self.dim, self.dim)) / np.sqrt(self.dim)
        self.readout = rng.standard_normal(widths[-1])

    def __call__(self, X):
        scores = np.einsum("bnd,bd->bn", X, X[:, -1] @ self.W.T + self.key_bias)
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        h = np.einsum("bn,bnd->bd", weights / weights.sum(axis=1, keepdims=True), X)
        h = h @ self.mix + X[:, -1] if self.residual else h
        for layer, (A, b) in enumerate(self.layers):
            h = self.act((normalized(h) if self.norm and layer == 0 else h) @ A + b)
        return h @ self.readout
