"""Whole blocks to recover, inside the family and beside it, with the heads that are in them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.special import erf

import glasshead as gh


def gelu(z):
    return z * (1 + erf(z / np.sqrt(2))) / 2


def relu(z):
    return np.maximum(z, 0)


def norm(u, kind, gain, shift, eps):
    if kind == "none":
        return u
    u = u - u.mean(axis=-1, keepdims=True) if kind == "layer" else u
    return u / np.sqrt(np.mean(u**2, axis=-1, keepdims=True) + eps) * gain + shift


@dataclass
class Box:
    """Heads with value maps of such ranks, a residual connection, a norm, a network with another, a norm.

    `attention(scores)` may be something else than softmax; `spoil(X, u)` changes what goes on behind the heads.
    """

    dim: int
    ranks: tuple[int, ...]
    seed: int = 0
    first: str = "layer"
    last: str = "layer"
    eps: float = 1e-5
    activation: object = gelu
    muted: int = 0
    outputs: int | None = None
    residual: float = 1.0
    dtype: str = "float64"  # that tokens and answers are rounded to
    asked: int = field(default=0, init=False)

    def __post_init__(self):
        d, rng = self.dim, np.random.default_rng(self.seed)

        def product(r):
            return rng.standard_normal((d, r)) @ rng.standard_normal((r, d)) / d

        self.W = [2 * product(r) / np.sqrt(r) for r in self.ranks]
        self.key_bias = [0.3 * rng.standard_normal(d) for _ in self.ranks]
        self.P = [0.6 * product(r) for r in self.ranks]
        self.c = 0.2 * rng.standard_normal(d)
        self.A, self.a = rng.standard_normal((d, 4 * d)) / np.sqrt(d), 0.1 * rng.standard_normal(4 * d)
        self.C = rng.standard_normal((4 * d, d)) / np.sqrt(4 * d) / 2
        self.gains, self.shifts = 1 + 0.3 * rng.standard_normal((2, d)), 0.2 * rng.standard_normal((2, d))
        self.gains[1, : self.muted] = 0

    def weights(self, scores):
        e = np.exp(scores - scores.max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)

    def heads(self, X):
        q, u = X[:, -1], 0
        for W, k, P in zip(self.W, self.key_bias, self.P, strict=True):
            scores = np.einsum("bnd,bd->bn", X, q @ W.T + k)
            u = u + np.einsum("bn,bnd->bd", self.weights(scores), X) @ P
        return u

    def behind(self, u):
        y = norm(u, self.first, self.gains[0], self.shifts[0], self.eps)
        y = y + self.activation(y @ self.A + self.a) @ self.C
        return norm(y, self.last, self.gains[1], self.shifts[1], self.eps)

    def __call__(self, X):
        self.asked += len(X)
        answers = self.behind(self.residual * X[:, -1] + self.heads(X) + self.c)
        return answers if self.outputs is None else answers[:, : self.outputs]

    @property
    def oracle(self):
        return gh.ValueOracle(
            lambda X: self(np.asarray(X, self.dtype).astype(float)).astype(self.dtype), self.dim, dtype=self.dtype
        )

    @property
    def truth(self):
        heads = [gh.Attention(W, P, key_bias=k) for W, k, P in zip(self.W, self.key_bias, self.P, strict=True)]
        return gh.Block(heads, behind=self)


class Sigmoid(Box):
    def weights(self, scores):
        return 1 / (1 + np.exp(-scores))


class SoftCapped(Box):
    def weights(self, scores):
        return super().weights(5 * np.tanh(scores / 5))


class HardlyCapped(Box):
    """At 1,000: scores of ordinary tokens are off by a millionth."""

    def weights(self, scores):
        return super().weights(1000 * np.tanh(scores / 1000))


class Sink(Box):
    def weights(self, scores):
        return np.exp(scores) / (np.exp(scores).sum(axis=1, keepdims=True) + 1)


class Positions(Box):
    def weights(self, scores):
        return super().weights(scores + 0.3 * np.sin(np.arange(scores.shape[1])))


class Window(Box):
    def weights(self, scores):
        return super().weights(np.where(np.arange(scores.shape[1])[::-1] < 8, scores, -1e30))


class Masked(Box):
    """The first head does not see some tokens."""

    def heads(self, X):
        q, u = X[:, -1], 0
        for h, (W, k, P) in enumerate(zip(self.W, self.key_bias, self.P, strict=True)):
            scores = np.einsum("bnd,bd->bn", X, q @ W.T + k)
            scores = np.where((X[:, :, 0] > 1.5) & (h == 0), -1e30, scores)
            u = u + np.einsum("bn,bnd->bd", self.weights(scores), X) @ P
        return u


class Pooled(Box):
    def heads(self, X):
        return super().heads(X) + 0.1 * X.mean(axis=1) @ self.A[:, : self.dim]


class Dropout(Box):
    def weights(self, scores):
        self.rng = getattr(self, "rng", np.random.default_rng(7))
        return super().weights(scores) * (self.rng.random(scores.shape) > 0.1) / 0.9


class TwoLayers(Box):
    def __call__(self, X):
        self.asked += len(X)
        rotated = [np.concatenate([X[:, :i], X[:, i + 1 :], X[:, i : i + 1]], axis=1) for i in range(X.shape[1])]
        Y = np.stack([self.behind(R[:, -1] + self.heads(R) + self.c) for R in rotated], axis=1)
        return self.behind(Y[:, -1] + self.heads(Y) + self.c)


NEIGHBOURS = (Sigmoid, SoftCapped, HardlyCapped, Sink, Positions, Window, Masked, Pooled, Dropout, TwoLayers)


def torch_layer(dim, heads, width, seed, activation="relu", dtype="float64"):
    """A `torch.nn.TransformerEncoderLayer` as it is initialised, as an oracle, and its heads."""
    import torch

    torch.manual_seed(seed)
    layer = torch.nn.TransformerEncoderLayer(dim, heads, width, dropout=0.0, activation=activation, batch_first=True)
    layer = layer.to(getattr(torch, dtype)).eval()

    def ask(X):
        with torch.no_grad():
            return layer(torch.as_tensor(X, dtype=getattr(torch, dtype)))[:, -1].numpy()

    truth = gh.Block(gh.MultiHead.from_torch(layer.self_attn.double()).heads)
    layer.self_attn.to(getattr(torch, dtype))
    return layer, gh.ValueOracle(ask, dim, dtype=dtype), truth
