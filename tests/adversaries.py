"""Who answers within a tolerance, and chooses to hurt; shared by the tests of bounds and by `bench.noise`."""

from __future__ import annotations

import numpy as np

import glasshead as gh

TAU = 5e-3
W_NORMS = (0.4, 40.0)  # Frobenius norms, spread evenly over their logarithm


def spread_of(X: np.ndarray, target: gh.Attention) -> np.ndarray:
    """Where an answer stands between those of its first and its last token alone: above half or below."""
    alone = X[:, [0, -1]] @ target.v + target.bias
    return np.sign(target(X) - alone.mean(axis=1)) * np.sign(alone[:, 0] - alone[:, 1])


def along(X: np.ndarray, z: np.ndarray) -> np.ndarray:
    """A pattern of signs that is linear in key and query, so that no average over a frame removes it."""
    return np.sign((X[:, 0] - X[:, -1]) @ z[0]) * np.sign(X[:, -1] @ z[1] + 1e-300)


# Each gives signs, or numbers in [-1, 1], to multiply the tolerance with; z are two fixed directions.
ADVERSARIES = {
    "rounding": lambda X, f, z, rng: np.clip(np.round(f(X) / (2 * TAU)) * 2 - f(X) / TAU, -1, 1),
    "random": lambda X, f, z, rng: rng.uniform(-1, 1, len(X)),
    "random signs": lambda X, f, z, rng: rng.choice([-1.0, 1.0], len(X)),
    "always up": lambda X, f, z, rng: np.ones(len(X)),
    "against the bias": lambda X, f, z, rng: np.where(np.any(X, axis=(1, 2)), 1.0, -1.0),
    "v stretched": lambda X, f, z, rng: np.sign(f(X)) * (1.0 if X.shape[1] == 1 else -1.0),
    "v tilted": lambda X, f, z, rng: np.sign(X[:, 0] @ z[0]) * (1.0 if X.shape[1] == 1 else -1.0),
    "weights to the ends": lambda X, f, z, rng: spread_of(X, f),
    "weights to the middle": lambda X, f, z, rng: -spread_of(X, f),
    "along a direction": lambda X, f, z, rng: along(X, z),
    "a false key bias": lambda X, f, z, rng: np.sign((X[:, 0] - X[:, -1]) @ z[0]),
}
SHAPES = {
    "plain": lambda d, rng: {},
    "bias": lambda d, rng: {"bias": 2.0},
    "key bias": lambda d, rng: {"bias": -1.0, "key_bias": rng.standard_normal(d)},
}


def head(d: int, seed: int, shape: str, rank: int | None = None) -> gh.Attention:
    rng = np.random.default_rng([d, seed])
    W = gh.Attention.random(d, rank=rank, seed=seed).W
    v = rng.standard_normal(d) * rng.choice([0.0, 1.0, 1.0], d)
    v[0] += 1.0
    W *= 10 ** rng.uniform(*np.log10(W_NORMS)) / np.linalg.norm(W)
    return gh.Attention(W, v / np.linalg.norm(v), **SHAPES[shape](d, rng))


def recovered(target: gh.Attention, name: str, seed: int, rank: int | None) -> gh.Recovery | None:
    """What is learned against that adversary, also where it is refused because single answers are far off, which no
    bound of W prevents; None where the answers prove nothing, and the recovery says so."""
    rng = np.random.default_rng(seed)
    z = rng.standard_normal((2, target.dim))

    def box(X):
        return target(X) + TAU * ADVERSARIES[name](X, target, z, rng)

    oracle = gh.ValueOracle(box, dim=target.dim, tolerance=TAU, max_norm=1e3)
    try:
        return gh.recover(oracle, rank=rank, seed=seed)
    except (gh.AccuracyUnreachable, gh.NotIdentifiable) as refusal:
        return getattr(refusal, "best", None) if "an answer is off by" in str(refusal) else None


def margin_head(seed: int, dim: int = 16, margin: float = 0.05) -> gh.Attention:
    """The setting of Theorem 6.1: `||W||_F = 4`, `|v| = 1`, no entry of v below the margin."""
    rng = np.random.default_rng(seed)
    W, v = rng.standard_normal((dim, dim)), rng.standard_normal(dim)
    while np.abs(v).min() < margin * np.linalg.norm(v):
        v = rng.standard_normal(dim)
    return gh.Attention(4 * W / np.linalg.norm(W), v / np.linalg.norm(v))
