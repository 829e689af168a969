from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import glasshead as gh

from .helpers import error, head, sequences

SCALES = [(W, v, sparse) for W in (1e-6, 1, 30, 1e3) for v in (1e-6, 1, 1e6) for sparse in (False, True)]
BIASES = [(W, k, b) for W in (1e-6, 1, 30, 1e3) for k in (0.1, 1, 10) for b in (0, 1, 10)]


@pytest.mark.parametrize("dim", [1, 2, 3, 16, 64])
@pytest.mark.parametrize(("W", "v", "sparse"), SCALES)
def test_plain_heads(dim, W, v, sparse):
    target = head(dim, W=W, v=v, sparse=sparse)
    found = gh.recover(target)
    assert error(found, target) <= 1e-12
    assert found.queries <= dim**2 + dim + 104
    assert np.linalg.norm(found.model.W - target.W) <= found.bound
    assert np.linalg.norm(found.model.v - target.v) <= found.bound_v
    assert found.residual <= 1e-13
    assert found.rank == dim


@pytest.mark.parametrize("dim", [1, 2, 3, 16])
@pytest.mark.parametrize(("W", "key_bias", "bias"), BIASES)
def test_biased_heads(dim, W, key_bias, bias):
    target = head(dim, W=W, key_bias=key_bias, bias=bias)
    found = gh.recover(target)
    assert error(found, target) <= 1e-10
    assert gh.distance(found.model, target) <= 1e-10
    assert found.queries <= dim**2 + 2 * dim + 1 + 104
    assert np.linalg.norm(found.model.W - target.W) <= found.bound


@pytest.mark.parametrize(
    "target",
    [
        head(256, W=30),
        head(64, W=1e3, key_bias=10, bias=10),
        head(256, W=1e3, key_bias=10, bias=10),
    ],
    ids=repr,
)
def test_large_heads(target):
    found, d = gh.recover(target), target.dim
    assert error(found, target) <= (1e-10 if target.has_key_bias else 1e-12)
    assert found.queries <= d**2 + d + (d + 1) * target.has_key_bias + 104


@pytest.mark.parametrize("dim", [1, 2, 3, 16, 64])
@pytest.mark.parametrize("wide", [False, True], ids=["float32 answers", "float32 in a float64 array"])
def test_float32_boxes(dim, wide):
    target = head(dim, dtype=np.float32)
    box = gh.ValueOracle(lambda X: target(X).astype(np.float64 if wide else np.float32), dim=dim)
    found = gh.recover(box)
    assert error(found, target) <= 1e-5
    assert found.queries <= dim**2 + dim + 104


def test_bias_without_key_bias_and_the_other_way_round():
    for target in (head(8, bias=3.0), head(8, key_bias=2.0)):
        found = gh.recover(target)
        assert gh.distance(found.model, target) <= 1e-12
        assert found.model.has_key_bias == target.has_key_bias
        assert (found.model.bias != 0) == (target.bias != 0)


@pytest.mark.parametrize("angle", [0.0, 1e-9, 0.1, np.pi / 2])
def test_any_angle_between_v_and_the_key_bias(angle):
    rng = np.random.default_rng(3)
    v, across = np.linalg.qr(rng.standard_normal((8, 2)))[0].T
    target = gh.Attention(rng.standard_normal((8, 8)), v, key_bias=5 * (np.cos(angle) * v + np.sin(angle) * across))
    assert error(gh.recover(target), target) <= 1e-11


def test_vector_answers():
    rng = np.random.default_rng(0)
    target = gh.Attention(
        rng.standard_normal((6, 6)), rng.standard_normal((6, 3)), key_bias=rng.standard_normal(6), bias=[1.0, 2.0, 3.0]
    )
    found = gh.recover(target)
    assert gh.distance(found.model, target) <= 1e-11
    assert found.limit == (36 + 6 + 18 + 3) / 3


def test_W_zero_is_recovered_as_zero():
    found = gh.recover(gh.Attention(np.zeros((5, 5)), np.ones(5)))
    assert not found.model.W.any()
    assert found.rank == 0
    assert found.bound < 1e-12


@pytest.mark.parametrize("kind", ["diagonal", "one entry", "one column", "permutation", "huge spread", "ties"])
def test_lopsided_W(kind):
    W = {
        "diagonal": np.eye(12),
        "one entry": np.eye(12)[:, :1] * np.eye(12)[3],
        "one column": np.ones((12, 1)) * np.eye(12)[5],
        "permutation": np.eye(12)[np.random.default_rng(0).permutation(12)],
        "huge spread": np.geomspace(1e-6, 1e6, 144).reshape(12, 12),
        "ties": np.ones((12, 12)),
    }[kind]
    target = gh.Attention(W, np.eye(12)[3])
    found = gh.recover(target)
    assert error(found, target) <= 1e-12
    assert found.rank == np.linalg.matrix_rank(W)


@pytest.mark.parametrize("max_norm", [1e-2, 1.0, 1e3])
@pytest.mark.parametrize("target", [head(6), head(6, key_bias=1.0, bias=1.0), head(2, key_bias=3.0)], ids=repr)
def test_max_norm_is_respected(target, max_norm):
    longest = 0.0

    def box(X):
        nonlocal longest
        longest = max(longest, np.linalg.norm(X, axis=-1).max())
        return target(X)

    found = gh.recover(gh.ValueOracle(box, dim=target.dim, max_norm=max_norm))
    assert 0 < longest <= max_norm * (1 + 1e-12)
    assert np.linalg.norm(found.model.W - target.W) <= min(found.bound, 1e-6)


@pytest.mark.parametrize(
    "tamper",
    [
        lambda y, tau, rng: np.round(y / (2 * tau)) * 2 * tau,
        lambda y, tau, rng: y + tau * np.sign(rng.standard_normal(y.shape)),
        lambda y, tau, rng: y + tau,
        lambda y, tau, rng: y - tau * np.sign(y),
    ],
    ids=["rounded", "random sign", "all up", "towards zero"],
)
@pytest.mark.parametrize("tau", [1e-2, 1e-6])
def test_bounds_hold_under_a_tolerance(tamper, tau):
    rng = np.random.default_rng(0)
    for seed in range(5):
        target = head(8, seed=seed)
        oracle = gh.ValueOracle(lambda X, t=target: tamper(t(X), tau, rng), dim=8, tolerance=tau, max_norm=1e4)
        found = gh.recover(oracle)
        assert np.linalg.norm(found.model.W - target.W) <= found.bound
        assert np.linalg.norm(found.model.v - target.v) <= found.bound_v
        assert found.bound < 1e3 * tau


@pytest.mark.parametrize("rtol", [1e-3, 1e-8])
@pytest.mark.parametrize("outputs", [None, 3])
def test_bounds_hold_under_a_relative_tolerance(rtol, outputs):
    rng = np.random.default_rng(0)
    for seed in range(5):
        plain = head(6, seed=seed)
        v = plain.v if outputs is None else rng.standard_normal((6, outputs))
        target = gh.Attention(plain.W, v)
        oracle = gh.ValueOracle(lambda X, t=target: t(X) * (1 + rtol * rng.choice([-1, 1])), dim=6, rtol=rtol)
        found = gh.recover(oracle)
        assert np.linalg.norm(found.model.W - target.W) <= found.bound
        assert np.linalg.norm(found.model.v - target.v) <= found.bound_v


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 9), st.floats(-6, 3), st.floats(-6, 6), st.booleans(), st.integers(0, 2**16))
def test_recovers_and_counts(dim, W, v, biased, seed):
    target = head(dim, W=10**W, v=10**v, key_bias=1.0 if biased else None, bias=float(biased), seed=seed)
    oracle = gh.ValueOracle(target)
    found = gh.recover(oracle, seed=seed)
    assert gh.distance(found.model, target) <= (1e-9 if biased else 1e-12)
    assert found.queries == oracle.queries
    assert found.queries <= gh.plan(dim, biases=biased) + 8


def test_the_same_seed_asks_the_same_queries():
    asked = []
    for seed in (1, 1, 2):
        log = []
        gh.recover(gh.ValueOracle(lambda X, log=log: (log.append(X.copy()), head(4)(X))[1], dim=4), seed=seed)
        asked.append(np.concatenate([X.ravel() for X in log]))
    assert np.array_equal(asked[0], asked[1])
    assert not np.array_equal(asked[0], asked[2])


def test_the_recovered_model_answers_like_the_box():
    target = head(10, key_bias=1.0, bias=1.0)
    model = gh.recover(target).model
    for X in sequences(10):
        np.testing.assert_allclose(model(X), target(X), atol=1e-11)


def test_progress_and_plan():
    reports = []
    found = gh.recover(head(12), progress=lambda *report: reports.append(report))
    done, planned, stages = zip(*reports, strict=True)
    assert done[-1] == found.queries <= planned[-1] == gh.plan(12)
    assert list(done) == sorted(done)
    assert {"reading v", "reading W", "checking on fresh queries"} <= set(stages)


@pytest.mark.parametrize(
    ("box", "family"),
    [
        (gh.ValueOracle(head(5)), "auto"),
        (gh.ValueOracle(head(5)), "attention"),
        (gh.SignOracle(head(2)), "attention"),
        (gh.ValueOracle(gh.MultiHead.random(6, heads=2, seed=1)), "multi-head"),
        (gh.ValueOracle(gh.Transformer.random(4, 4, seed=1)), "transformer"),
        (gh.ValueOracle(gh.Transformer.random(4, 4, seed=1)), "any-network"),
        (gh.ValueOracle(gh.Attention.random(6, seed=1)), "block"),
    ],
)
def test_progress_says_what_is_done_from_the_first_query_on(box, family):
    said = []
    with suppress(gh.TargetMismatch):
        gh.recover(box, family=family, progress=lambda done, planned, what: said.append(what))
    assert "" not in said


def test_save_and_load_a_recovery(tmp_path):
    found = gh.recover(head(5, key_bias=1.0))
    again = gh.load_recovery(found.save(tmp_path / "run"))
    assert again.to_dict() == found.to_dict()
    assert gh.distance(again.model, found.model) == 0
    assert "x the information limit" in str(again)


@pytest.mark.parametrize(
    ("box", "most"),
    [
        (gh.Attention.random(48, rank=3, seed=1), 1.2),
        (gh.MultiHead.random(12, 3, rank=3, seed=1), 2.5),
        (gh.Transformer.random(8, 12, seed=1), 1.4),
    ],
)
def test_the_total_of_a_progress_bar_follows_what_was_found(box, most):
    """With most of the questions still to come it is no less than what is asked in the end, and not much more."""
    reports = []
    found = gh.recover(gh.ValueOracle(box), progress=lambda *report: reports.append(report))
    begun = [planned for done, planned, what in reports if what.startswith("reading W")]
    assert reports[0][1] != begun[-1]
    assert found.queries <= begun[-1] <= most * found.queries
    assert reports[-1][0] == found.queries
