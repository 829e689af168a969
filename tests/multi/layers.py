"""Layers to take apart, and how well that went."""

from __future__ import annotations

import numpy as np
from scipy.optimize import linear_sum_assignment

import glasshead as gh
from glasshead._checks.heads import check_held_out_heads
from glasshead._learned import LearnedMultiHead
from glasshead._learners.heads.one_by_one.learn import learn_multi_head


def layer(dim, heads, rank, *, seed=0, biases=True, dtype: str = "float64") -> gh.MultiHead:
    """Gaussian heads; key biases lie in the column space of W, as those of real layers do."""
    rng = np.random.default_rng((seed, dim, heads, rank))
    made = []
    for _ in range(heads):
        K, Q = rng.standard_normal((dim, rank)), rng.standard_normal((rank, dim))
        v, c = rng.standard_normal(dim) / np.sqrt(dim), K @ rng.standard_normal(rank) / np.sqrt(dim * rank)
        W = 3 * K @ Q / (dim * np.sqrt(rank))
        made.append(gh.Attention(W.astype(dtype), v.astype(dtype), key_bias=c if biases else None))
    return gh.MultiHead(made, bias=0.3 if biases else 0.0)


def changed(model: gh.MultiHead, h: int, *, W=None, v=None, key_bias=None) -> gh.MultiHead:
    """The layer with other parameters for head h."""
    heads, old = list(model.heads), model.heads[h]
    W, v, key_bias = (
        new if new is not None else was for new, was in ((W, old.W), (v, old.v), (key_bias, old.key_bias))
    )
    heads[h] = gh.Attention(W, v, key_bias=key_bias)
    return gh.MultiHead(heads, bias=model.bias)


def learned(target, *, seed=0, rank=None, **promise) -> tuple[LearnedMultiHead, gh.ValueOracle]:
    """What was learned, once the held-out check agrees."""
    oracle = gh.ValueOracle(target, **promise)
    rng = np.random.default_rng(seed)
    found = learn_multi_head(oracle, rng, rank)
    check = check_held_out_heads(oracle, found, rng)
    if check.evidence is not None:
        raise gh.TargetMismatch("the box is not a sum of attention heads", check.evidence, found)
    return found, oracle


def errors(found: gh.MultiHead, target: gh.MultiHead) -> dict[str, float]:
    """The worst head's relative errors, heads matched by v."""
    assert len(found.heads) == len(target.heads)
    far = np.linalg.norm(found.v[:, None] - target.v, axis=2) / np.linalg.norm(target.v, axis=1)
    pairs = list(zip(*linear_sum_assignment(far), strict=True))

    def worst(name: str) -> float:
        ours, theirs = getattr(found, name), getattr(target, name)
        return max(relative(ours[i], theirs[j]) for i, j in pairs)

    return {name: worst(name) for name in ("W", "v", "key_bias")}


def relative(ours: np.ndarray, theirs: np.ndarray) -> float:
    size = float(np.linalg.norm(theirs))
    return float(np.linalg.norm(ours - theirs)) / (size or 1.0)


def parameters(dim: int, ranks: list[int]) -> int:
    """Free parameters of heads with key biases in their column spaces, and one bias."""
    return sum(2 * r * dim - r * r + r + dim for r in ranks) + 1
