"""Boxes put together from misbehaviours, by hypothesis: each ends in a recovery or a refusal that says why."""

import warnings

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import glasshead as gh

from .test_hostile_boxes import INSIDE

MOST_QUERIES = 200_000  # of a box of at most 4 dimensions, whatever it does


def bases(dim, seed):
    rng = np.random.default_rng(seed)
    one, other = gh.Attention.random(dim, seed=seed), gh.Attention.random(dim, seed=seed + 1)
    vector = gh.Attention(one.W, rng.standard_normal((dim, 3)), key_bias=rng.standard_normal(dim))
    network = gh.Transformer.random(dim, width=4, seed=seed)
    return {
        "head": one,
        "biased head": gh.Attention(one.W, one.v, key_bias=one.v, bias=2.0),
        "no scores": gh.Attention(np.zeros((dim, dim)), one.v),
        "no values": gh.Attention(one.W, np.zeros(dim)),
        "two heads": gh.MultiHead([one, other]),
        "many outputs": vector,
        "network": network,
        "bent": lambda X: np.tanh(one(X)),
        "classes": lambda X: vector(X).argmax(axis=1),
        "last token": lambda X: X[:, -1].sum(axis=1),
        "constant": lambda X: np.full(len(X), 0.3),
        "garbage": lambda X: rng.standard_normal(len(X)),
        "squares": lambda X: (X**2).sum(axis=(1, 2)),
    }


def some(change):
    """Changes one answer in ten."""
    return lambda y, X, rng, calls: np.where(rng.random(y.shape) < 0.1, change(y), y)


HABITS = {
    "NaN now and then": lambda y, X, rng, calls: np.where(rng.random(y.shape) < 0.002, np.nan, y),
    "infinite": lambda y, X, rng, calls: np.where(np.abs(X).max() > 1e6, np.inf, y),
    "some zero": some(np.zeros_like),
    "some off": some(lambda y: y * (1 + 1e-8)),
    "noise": lambda y, X, rng, calls: y + 1e-6 * rng.standard_normal(y.shape),
    "rounded": lambda y, X, rng, calls: np.round(y, 2),
    "whole": lambda y, X, rng, calls: np.round(y).astype(int),
    "half": lambda y, X, rng, calls: y.astype(np.float16),
    "clipped": lambda y, X, rng, calls: np.clip(y, 1, 5),
    "normalised over the batch": lambda y, X, rng, calls: (y - y.mean()) / (y.std() + 1e-5),
    "drifts": lambda y, X, rng, calls: y + 1e-4 * calls,
    "counts": lambda y, X, rng, calls: y * X.shape[1],
    "sees positions": lambda y, X, rng, calls: y + X[:, 0].sum(axis=1).reshape(-1, *[1] * (y.ndim - 1)),
    "tiny": lambda y, X, rng, calls: 1e-300 * y,
    "huge": lambda y, X, rng, calls: 1e300 * y,
    "a bias": lambda y, X, rng, calls: y + 1e8,
    "a column": lambda y, X, rng, calls: y.reshape(len(y), -1),
    "no outputs": lambda y, X, rng, calls: y.reshape(len(y), -1)[:, :0],
    "too few": lambda y, X, rng, calls: y[: max(1, len(y) - calls // 20)],
    "words": lambda y, X, rng, calls: y.astype(str) if calls > 10 else y,
    "complex": lambda y, X, rng, calls: y + 0j if calls > 10 else y,
    "gives up": lambda y, X, rng, calls: y if calls < 30 else 1 // 0,
}
PROMISES = ({}, {}, {"max_norm": 10.0}, {"max_norm": 1e-3}, {"tolerance": 1e-3}, {"rtol": 0.5}, {"tolerance": 1e300})
FAMILIES = ("auto", "auto", "attention", "multi-head", "transformer", "any-network")


class Hostile:
    def __init__(self, base, habits, seed):
        self.base, self.habits, self.rng, self.calls, self.queries = base, habits, np.random.default_rng(seed), 0, 0

    def __call__(self, X):
        self.calls += 1
        self.queries += len(X)
        assert np.isfinite(X).all()
        with np.errstate(all="ignore"):
            y = np.asarray(self.base(X))
            for habit in self.habits:
                y = HABITS[habit](y, X, self.rng, self.calls)
        return y


@settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(
    base=st.sampled_from(sorted(bases(1, 0))),
    habits=st.lists(st.sampled_from(sorted(HABITS)), max_size=2, unique=True),
    dim=st.integers(1, 4),
    seed=st.integers(0, 1000),
    signs=st.booleans(),
    promise=st.sampled_from(PROMISES),
    family=st.sampled_from(FAMILIES),
)
def test_a_result_or_a_refusal(base, habits, dim, seed, signs, promise, family):
    box = Hostile(bases(dim, seed)[base], habits, seed)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", gh.HeadsMerged)
        if signs:
            oracle = gh.SignOracle(box, dim, max_norm=promise.get("max_norm"))
            family = family if family == "any-network" else "attention"
        else:
            oracle = gh.ValueOracle(box, dim, **promise)
        try:
            gh.recover(oracle, family=family, seed=seed)
        except gh.GlassheadError as error:
            words = str(error)
        else:
            words = ""
    assert INSIDE not in words
    assert "the oracle raised" not in words  # a question that it does not take: a token longer than max_norm, say
    assert box.queries <= MOST_QUERIES
