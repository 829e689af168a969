"""What the tests share: targets, boxes that are not what they seem, and ways to measure."""

from __future__ import annotations

import numpy as np

import glasshead as gh


def head(dim, *, W=1.0, v=1.0, sparse=False, key_bias=None, bias=0.0, dtype=np.float64, seed=0) -> gh.Attention:
    """A Gaussian head: entries of size `W` and `v`, a key bias of `key_bias` rows of W, a bias of `bias` times |v|."""
    rng = np.random.default_rng((seed, dim))
    weights, values = W * rng.standard_normal((dim, dim)), v * rng.standard_normal(dim)
    if sparse and dim > 1:
        values[rng.permutation(dim)[: dim // 2]] = 0
    if key_bias is not None:
        direction = rng.standard_normal(dim)
        row = np.linalg.norm(weights) / np.sqrt(dim)
        key_bias = key_bias * row * direction / np.linalg.norm(direction)
    return gh.Attention(
        weights.astype(dtype), values.astype(dtype), key_bias=key_bias, bias=bias * float(np.linalg.norm(values))
    )


def low_rank(dim, rank, *, seed=0, kind="random") -> gh.Attention:
    """A head of low rank; `kind` says how its columns lie to v, or how its singular values spread."""
    rng = np.random.default_rng((seed, dim, rank))
    v, left, right = rng.standard_normal(dim), rng.standard_normal((dim, rank)), rng.standard_normal((rank, dim))
    if kind == "along v":
        left[:, 0] = v
    if kind == "across v":
        left -= np.outer(v, v @ left) / (v @ v)
    if kind == "sparse v":
        v[rng.permutation(dim)[1:]] = 0
    if kind == "ill-conditioned":
        left = np.linalg.qr(left)[0] * np.geomspace(1, 1e-6, rank)
        right = np.linalg.qr(right.T)[0].T
    return gh.Attention(left @ right / np.sqrt(rank * dim), v)


def spectrum(dim, last, seed=0) -> gh.Attention:
    """A head whose singular values fall smoothly from 1 to `last`."""
    rng = np.random.default_rng((seed, dim))
    left, right = (np.linalg.qr(rng.standard_normal((dim, dim)))[0] for _ in range(2))
    return gh.Attention(left * np.geomspace(1, last, dim) @ right, rng.standard_normal(dim))


def error(found: gh.Recovery, target: gh.Attention) -> float:
    """The relative Frobenius error of W."""
    return float(np.linalg.norm(found.model.W - target.W) / np.linalg.norm(target.W))


def sequences(dim, lengths=range(1, 9), scale=1.0, seed=7):
    rng = np.random.default_rng(seed)
    return [scale * rng.standard_normal((3, length, dim)) for length in lengths]


class Impostors:
    """Boxes that answer like something else than one attention head."""

    def __init__(self, dim: int, seed: int = 0):
        self.dim = dim
        self.rng = np.random.default_rng(seed)
        self.one, self.two = head(dim, seed=1), head(dim, seed=2)
        self.calls = 0
        self.positions = self.rng.standard_normal((64, dim))
        self.mixing = self.rng.standard_normal((dim, 2 * dim))

    def mean_pooled_mlp(self, X):
        return np.tanh(X.mean(axis=1) @ self.mixing).sum(axis=-1)

    def two_heads(self, X):
        return self.one(X) + self.two(X)

    def nearly_one_head(self, X):
        return self.one(X) + 1e-4 * self.two(X)

    def positional_encoding(self, X):
        return self.one(X + self.positions[: X.shape[1]])

    def linear_attention(self, X):
        scores = np.einsum("bnd,de,be->bn", X, self.one.W, X[:, -1])
        return np.einsum("bn,bn->b", scores, X @ self.one.v)

    def hard_attention(self, X):
        scores = np.einsum("bnd,de,be->bn", X, self.one.W, X[:, -1])
        return (X @ self.one.v)[np.arange(len(X)), scores.argmax(axis=1)]

    def random_answers(self, X):
        return self.rng.standard_normal(len(X))

    def drifts(self, X):
        self.calls += len(X)
        return self.one(X) + 1e-3 * self.calls

    def constant_after_a_while(self, X):
        self.calls += len(X)
        return self.one(X) if self.calls < 20 else np.full(len(X), 0.25)


IMPOSTORS = [name for name in vars(Impostors) if not name.startswith("_")]
