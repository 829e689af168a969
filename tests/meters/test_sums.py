"""Sums of heads: keys that one head answers to alone, and intervals of its logits."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit

import glasshead as gh
from glasshead._linalg import cone
from glasshead._meters.head_sum import SAFETY, HeadValues, SumOfHeads, read_head_sum, value_space
from glasshead._meters.isolated_head import IsolatedHead, query_directions, query_tokens
from glasshead._meters.vector import VectorMeter, reader, seen_outputs, token_blocks

from .promises import Promising

D, H = 8, 3
RNG = np.random.default_rng(0)
W, V, KEY_BIAS = RNG.standard_normal((H, D, D)), RNG.standard_normal((H, D)), RNG.standard_normal((H, D))
MODEL = gh.MultiHead([gh.Attention(W[h], V[h], key_bias=KEY_BIAS[h]) for h in range(H)], bias=0.7)


def total(f=MODEL, **promise):
    oracle = Promising(D, f, **{"roundoff": 2.0**-53} | promise)
    return SumOfHeads(oracle, 0.7, V.sum(axis=0), float(np.linalg.norm(V)))


def expected(Z, q, copies=1):
    logits = np.einsum("nd,hd->nh", Z, np.einsum("hde,e->hd", W, q) + KEY_BIAS) + np.log(copies)
    return np.einsum("nh,nh->n", expit(logits), Z @ V.T)


@pytest.mark.parametrize("copies", [1, 3])
def test_two_rows_show_weights_times_values(copies):
    Z, q = 0.3 * RNG.standard_normal((6, D)), 0.2 * RNG.standard_normal(D)
    sent, answers = total().read(Z, q, copies)
    np.testing.assert_allclose(sent, Z, atol=1e-12)
    np.testing.assert_allclose(answers, expected(Z, q, copies), atol=1e-10)


def test_a_head_that_takes_the_mean_is_left_out():
    mean = RNG.standard_normal(D)
    box = gh.MultiHead([*MODEL.heads, gh.Attention(np.zeros((D, D)), mean)], bias=0.7)
    whole = replace(total(box), total=V.sum(axis=0) + mean)
    Z, q = 0.3 * RNG.standard_normal((6, D)), 0.2 * RNG.standard_normal(D)
    for copies in (1, 3):
        answers = whole.without_mean_head(mean, 1e-3).read(Z, q, copies)[1]
        np.testing.assert_allclose(answers, expected(Z, q, copies), atol=1e-10)
    known = whole.without_mean_head(mean, 1e-3)
    np.testing.assert_allclose(known.total, V.sum(axis=0))
    assert known.noise(2.0, 0.0) - replace(known, mean_error=0.0).noise(2.0, 0.0) == pytest.approx(2e-3)


def test_tokens_are_what_a_float32_box_gets():
    tokens = np.full((1, D), 0.1)
    assert total().as_sent(tokens) is tokens
    np.testing.assert_array_equal(total(roundoff=2.0**-24).as_sent(tokens), tokens.astype(np.float32))


def test_the_noise_of_such_answers():
    box = total(tolerance=0.1, rtol=0.01, roundoff=1e-9)
    size = (3.0 + 2 * 0.5) * box.v_norm + 0.7
    assert box.noise(3.0, 0.5) == pytest.approx((0.2 + 0.01 * size) / 0.99 + 8 * 1e-9 * size)


def test_tokens_beyond_the_limit_are_not_sent():
    with pytest.raises(gh.NotConverged, match="tokens longer than max_norm"):
        total(max_norm=1.0).read(np.full((1, D), 1.0), np.zeros(D))
    total(max_norm=3.0).read(np.full((1, D), 1.0), np.zeros(D))


def test_the_bias_and_the_sum_of_all_values():
    oracle = Promising(D, MODEL, roundoff=2.0**-53)
    found = read_head_sum(oracle, np.random.default_rng(0))
    assert oracle.queries == D + 1
    assert found.bias == pytest.approx(0.7)
    np.testing.assert_allclose(found.total, V.sum(axis=0), rtol=1e-12)
    known = read_head_sum(oracle, np.random.default_rng(0), {"bias": 0.5, "v": np.ones(D)})
    assert (known.bias, oracle.queries) == (0.5, D + 1)
    with pytest.raises(gh.NotConverged, match="too few digits"):
        read_head_sum(Promising(D, MODEL, roundoff=2.0**-8), np.random.default_rng(0))


# The geometry of values.


def test_each_dual_sees_one_head():
    space = value_space(HeadValues(V, np.full(H, 1e-3)))
    seen = space.duals @ V.T
    np.testing.assert_allclose(seen, np.diag(space.gains), atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(space.duals, axis=1), 1)
    assert space.kernel.shape == (D, D - H)
    np.testing.assert_allclose(V @ space.kernel, 0, atol=1e-12)
    alone = space.complement(1)
    np.testing.assert_allclose(alone.T @ alone, np.eye(D - H + 1), atol=1e-12)
    np.testing.assert_allclose(np.delete(V, 1, axis=0) @ alone, 0, atol=1e-12)
    others = space.others(1)
    np.testing.assert_allclose(alone.T @ others, 0, atol=1e-12)
    np.testing.assert_allclose(others.T @ others, np.eye(H - 1), atol=1e-12)
    assert others.shape == (D, H - 1)
    assert space.crosstalk == pytest.approx(3 * 1e-3 * np.sqrt(H) / np.sqrt(D))
    assert value_space(HeadValues(V[:1], np.ones(1))).crosstalk == 0.0


def test_how_many_heads_can_be_taken_apart():
    rng = np.random.default_rng(1)
    value_space(HeadValues(rng.standard_normal((D - 2, D)), np.zeros(D - 2)))
    with pytest.raises(gh.NotConverged, match=f"so {D - 2} heads can be taken apart at most"):
        value_space(HeadValues(rng.standard_normal((D - 1, D)), np.zeros(D - 1)))


@pytest.mark.parametrize(("off", "ok"), [(1e-6, True), (1e-8, False)])
def test_values_that_are_all_but_parallel_are_refused(off, ok):
    v = np.stack([np.eye(D)[0], 5 * (np.eye(D)[0] + off * np.eye(D)[1])])
    if ok:
        value_space(HeadValues(v, np.zeros(2)))
        return
    with pytest.raises(gh.NotConverged, match="parallel up to"):
        value_space(HeadValues(v, np.zeros(2)))


# One head among several.


def isolated(h=0, f=MODEL, error=0.0, rho=1.0, kappa=0.5, **promise):
    m = D - H + 1
    queries = query_directions(D, m, np.random.default_rng(2))
    space = value_space(HeadValues(V, np.full(H, error)))
    keys = cone(np.eye(m)[0], np.random.default_rng(3))
    return IsolatedHead(total(f, **promise), space, h, keys, queries.frame, queries, rho, kappa)


def test_directions_of_queries():
    m = D - H + 1
    asked = query_directions(D, m, np.random.default_rng(0))
    everything = np.vstack([asked.frame.vectors @ asked.lift.T, asked.rest])
    assert everything.shape == (D + 1, D + 1)
    assert np.linalg.matrix_rank(everything) == D + 1
    beta = everything[:, -1] / np.linalg.norm(everything, axis=1)
    np.testing.assert_allclose(beta[:m], 1 / np.sqrt(m))
    np.testing.assert_allclose(np.linalg.norm(asked.rest, axis=1), 1)
    tokens, at = query_tokens(everything, 0.5)
    np.testing.assert_allclose(tokens, 0.5 * everything[:, :-1] / everything[:, -1:])
    np.testing.assert_allclose(at, everything[:, -1])


@pytest.mark.parametrize("h", range(H))
def test_scores_of_one_head_alone(h):
    meter = isolated(h)
    m = meter.dim
    B, A = np.random.default_rng(0).standard_normal((2, 4, m))
    B[:, 0] = np.abs(B[:, 0]) + 0.5
    scores = meter.columns(B, A)
    M = meter.space.complement(h).T @ np.c_[0.5 * W[h], KEY_BIAS[h]]
    truth = (B @ meter.asked.lift.T) @ M.T @ A.T
    np.testing.assert_allclose(scores.t, truth, atol=1e-7)
    assert (np.abs(scores.t - truth) <= scores.halfwidth + scores.rounding(np.linalg.norm(M)) + 1e-12).all()
    np.testing.assert_allclose(meter.axis, meter.space.gains[h] * np.eye(m)[0])


@pytest.mark.parametrize("error", [0.0, 1e-3])
def test_intervals_hold_against_noise_and_crosstalk(error):
    """Answers within a tolerance, and values of the others that are off: what a unit key shows of them."""
    tau, rng = 1e-4, np.random.default_rng(0)
    off = error * rng.standard_normal((H, D)) / np.sqrt(D)
    off[0] = 0
    other = gh.MultiHead([gh.Attention(W[h], V[h] + off[h], key_bias=KEY_BIAS[h]) for h in range(H)], bias=0.7)

    def f(X):
        return other(X) + tau * np.sign(np.sin(1e5 * X.sum(axis=(1, 2))))

    meter = isolated(0, f, error, tolerance=tau)
    meter = replace(meter, box=replace(meter.box, total=(V + off).sum(axis=0)))
    alone = meter.space.complement(0)
    keys = 0.5 * (meter.keys.vectors @ alone.T)
    q = 0.2 * rng.standard_normal((5, D))
    s, lo, hi = meter.read(q, np.broadcast_to(keys, (5, *keys.shape)))
    truth = np.einsum("nd,pd->pn", keys, q @ W[0].T + KEY_BIAS[0])
    assert (lo <= truth).all()
    assert (truth <= hi).all()
    assert np.max(np.abs(s - truth) / np.maximum(hi - s, s - lo)) > 0.1


def test_one_head_is_tuned_by_its_keys():
    meter = isolated(rho=1.0)
    assert meter.tuned(np.full(3, 0.5)).rho == pytest.approx(2.0)
    assert meter.tuned(np.full(3, 1.0)) is meter
    assert isolated(rho=1.0, max_norm=6.0).tuned(np.full(3, 0.5)).rho == pytest.approx(1.5, rel=1e-4)
    ratio = meter.kappa * meter.dim / meter.rho
    expected = 2 * SAFETY * np.sqrt(D) * 3.0 * (1 + ratio) / np.sqrt(meter.dim)
    assert meter.rounding(3.0) / 2.0**-53 == pytest.approx(expected)


def test_a_weight_that_one_head_cannot_have_is_refused():
    with pytest.raises(gh.TargetMismatch):
        isolated(f=lambda X: 50 * MODEL(X)).columns(np.eye(D - H + 1)[:1], np.eye(D - H + 1)[:1])


# All heads at once.


def vector_layer(rank=4, heads=2, d=8, seed=0):
    rng = np.random.default_rng(seed)
    Q, K, values = rng.standard_normal((3, heads * rank, d)) / np.sqrt(d)
    return gh.MultiHead.from_projections(
        Q, K, values, rng.standard_normal((d, heads * rank)), heads, q_bias=rng.standard_normal(heads * rank)
    )


def vector_meter(model, roundoff=2.0**-53, f=None):
    oracle = Promising(model.dim, f or model, roundoff=roundoff)
    B = model.v.sum(axis=0)
    readout = seen_outputs(oracle, B, np.asarray(model.bias))
    v = model.v
    spaces = []
    for h in range(len(v)):
        others = np.delete(v, h, axis=0).reshape(-1, v.shape[2]) @ readout.outputs
        _, s, right = np.linalg.svd(others)
        spaces.append(right[int(np.sum(s > 1e-9)) :].T)
    return VectorMeter(oracle, readout, [reader(readout, space) for space in spaces])


def test_scores_of_all_heads_from_one_answer():
    model = vector_layer()
    meter = vector_meter(model)
    rng = np.random.default_rng(0)
    last, D_ = 0.3 * rng.standard_normal((5, 8)), 0.3 * rng.standard_normal((3, 8))
    scores = meter.read_scores(last, D_)
    keys = np.einsum("hde,je->jhd", model.W, last) + model.key_bias
    np.testing.assert_allclose(scores, np.einsum("jhd,nd->jhn", keys, D_), atol=1e-8)
    weights = meter.read_weights(last, D_)
    np.testing.assert_allclose(weights.sum(axis=2), 1.0)
    assert (weights > 0).all()


def test_tokens_that_saturate_are_sent_again_shorter():
    model = vector_layer()
    meter = vector_meter(model)
    rng = np.random.default_rng(0)
    last, D_ = 0.3 * rng.standard_normal((2, 8)), 60 * rng.standard_normal((3, 8))
    scores = meter.read_scores(last, D_)
    keys = np.einsum("hde,je->jhd", model.W, last) + model.key_bias
    np.testing.assert_allclose(scores, np.einsum("jhd,nd->jhn", keys, D_), rtol=1e-5, atol=1e-5)
    assert len(meter.oracle.asked) > 1
    with pytest.raises(gh.TargetMismatch):
        vector_meter(model, f=lambda X: 3 * model(X)).read_scores(last, 0.1 * D_)


def test_how_many_tokens_are_sent_at_once():
    assert vector_meter(vector_layer()).at_once == 3
    assert vector_meter(vector_layer(), roundoff=2.0**-24).at_once == 2
    assert vector_meter(vector_layer(heads=1)).at_once == 4
    assert vector_meter(vector_layer(rank=1)).at_once == 1


def test_blocks_of_tokens_are_told_apart_by_every_head():
    meter = vector_meter(vector_layer(heads=2, rank=4))
    tokens = meter.tokens(3, 8, np.random.default_rng(0))
    assert tokens.shape == (3, 3, 8)
    assert np.sqrt(np.mean(np.sum(tokens**2, axis=2))) == pytest.approx(1.0)
    assert np.linalg.cond(tokens.reshape(-1, 8)) < 5
    for one in meter.readers:
        loud = one.loudest(3)
        np.testing.assert_allclose(loud.T @ loud, np.eye(3), atol=1e-10)
        assert max(np.linalg.cond(block @ loud) for block in tokens) < 12
    random = np.random.default_rng(0).standard_normal((3, 3, 8))
    worst = max(np.linalg.cond(block @ one.loudest(3)) for block in random for one in meter.readers)
    assert worst > max(np.linalg.cond(block @ one.loudest(3)) for block in tokens for one in meter.readers)
    assert token_blocks([np.eye(8)[:, :2]], 2, 3, np.random.default_rng(0)).shape == (2, 2, 8)


def test_outputs_that_tokens_reach():
    oracle = Promising(3, roundoff=2.0**-53)
    B = np.diag([1.0, 1e-3, 0.0])
    assert seen_outputs(oracle, B, np.zeros(3)).rank == 2
    assert seen_outputs(oracle, B, np.zeros(3), 1e-2).rank == 1
    level = 64 * 3 * 2.0**-53
    assert seen_outputs(oracle, np.diag([1.0, 2 * level, 0.5 * level]), np.zeros(3)).rank == 2
    with pytest.raises(gh.AccuracyUnreachable):
        seen_outputs(Promising(3, roundoff=0.01), B, np.zeros(3))
    readout = seen_outputs(oracle, np.eye(3), np.full(3, 2.0))
    moved = readout.moved(np.array([[5.0, 6.0, 7.0]]), np.array([[1.0, 1.0, 1.0]]))
    np.testing.assert_allclose(moved @ readout.outputs.T, [[2.0, 3.0, 4.0]])


def test_the_noise_of_scores_is_that_of_answers_through_the_solve():
    model = vector_layer()
    meter = vector_meter(model, roundoff=2.0**-24)
    D_ = 0.5 * np.random.default_rng(0).standard_normal((2, 8))
    size = np.linalg.norm(meter.readout.bias) + (0.5 + np.linalg.norm(D_)) * np.linalg.norm(meter.readout.B, 2)
    assert meter.rounding(D_, 0.5) == pytest.approx(2.0**-24 * size)
    gains = [np.linalg.norm(one.look @ np.linalg.pinv(D_ @ one.C), axis=0).max() for one in meter.readers]
    np.testing.assert_allclose(meter.noise(D_, 0.5), 2.0**-24 * size * 3 * np.array(gains))
