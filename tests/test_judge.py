"""The judge: boxes that a check looking elsewhere would pass, formats that hide, bounds that are measured."""

from __future__ import annotations

import numpy as np
import pytest

import glasshead as gh
from glasshead._checks import JUDGE_QUERIES

from .red.formats import FORMATS, bfloat16, float16

FORMATTED = {
    "float64": lambda y: y,
    "float32": lambda y: y.astype(np.float32),
    "bfloat16": bfloat16,
    "float16": float16,
}


def gaussian(d: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.random.Generator]:
    rng = np.random.default_rng([8, seed])
    return rng.standard_normal((d, d)) / np.sqrt(d), rng.standard_normal(d), rng


def weights(scores: np.ndarray) -> np.ndarray:
    raised = np.exp(scores - scores.max(axis=1, keepdims=True))
    return raised / raised.sum(axis=1, keepdims=True)


def scores(X: np.ndarray, W: np.ndarray) -> np.ndarray:
    return np.einsum("bnd,bd->bn", X, X[:, -1] @ W.T)


def attended(X: np.ndarray, W: np.ndarray, v: np.ndarray, change=lambda s: s) -> np.ndarray:
    return np.einsum("bn,bnd->bd", weights(change(scores(X, W))), X) @ v


def clipped(W, v, rng):
    return lambda X: attended(X, W, v, lambda s: np.clip(s, -10, 10))


def routed(W, v, rng):
    """Another W for one last token in six."""
    g, other = rng.standard_normal(len(W)), rng.standard_normal(W.shape)
    g /= np.linalg.norm(g)

    def answer(X):
        return np.where(X[:, -1] @ g > 1.0, attended(X, W + other, v), attended(X, W, v))

    return answer


def windowed(W, v, rng):
    return lambda X: attended(X[:, -4:], W, v)


def curved_query(W, v, rng):
    return lambda X: np.einsum(
        "bn,bnd->bd", weights(np.einsum("bnd,bd->bn", X, np.tanh(X[:, -1]) @ W.T)), X
    ) @ v  # fmt: skip


def two_heads(W, v, rng):
    other = rng.standard_normal((2, *W.shape)) / np.sqrt(len(W))
    return lambda X: attended(X, W, v) + attended(X, other[0], other[1, 0])


def temperature(W, v, rng):
    return lambda X: attended(X, W, v, lambda s: s / np.sqrt(X.shape[1]))


def capped(W, v, rng):
    return lambda X: attended(X, W, v, lambda s: 4 * np.tanh(s / 4))


FOREIGN = (clipped, routed, windowed, curved_query, temperature, capped)


@pytest.mark.parametrize("form", FORMATTED)
@pytest.mark.parametrize("make", FOREIGN)
def test_foreign_boxes_are_refused_in_every_format(make, form):
    W, v, rng = gaussian(6, 0)
    box = make(2 * W, v, rng)
    family = "attention" if make is capped else "auto"  # which takes a minute to find that it is not many heads
    with pytest.raises(gh.GlassheadError):
        gh.recover(gh.ValueOracle(lambda X: FORMATTED[form](np.asarray(box(X))), dim=6), family=family, seed=1)


@pytest.mark.parametrize("promise", [{"tolerance": 5e-3, "max_norm": 10.0}, {"tolerance": 1e-3}, {"rtol": 1e-3}])
@pytest.mark.parametrize("make", [*FOREIGN, two_heads])
def test_a_true_promise_excuses_nothing(make, promise):
    """What passes is as close as it says: two heads that tokens this short cannot tell from one, say."""
    W, v, rng = gaussian(6, 3)
    box = make(2 * W, v, rng)
    try:
        found = gh.recover(gh.ValueOracle(box, dim=6, **promise))
    except gh.GlassheadError:
        return
    longest = promise.get("max_norm", np.inf)
    X = rng.standard_normal((500, 5, 6))
    X *= np.minimum(1.0, longest / np.linalg.norm(X, axis=2, keepdims=True))
    y = box(X)
    off = np.abs(found.model(X) - y)
    assert np.mean(off > max(0.01 * np.ptp(y), 10 * found.residual * np.abs(y).max())) < 0.05


@pytest.mark.parametrize("form", ["bfloat16-scores", "float16-scores", "float16-weights", "exp-lines"])
def test_arithmetic_is_measured_and_no_bound_is_broken(form):
    accepted = 0
    for seed in range(12):
        d = (4, 8, 16)[seed % 3]
        W, v, _ = gaussian(d, seed)
        made = FORMATS[form]

        def box(X, W=W, v=v, made=made):
            x = made.tokens(X)
            return made.answer(made.attend(x, scores(x, W.astype(np.float32))) @ v.astype(np.float32))

        try:
            found = gh.recover(gh.ValueOracle(box, dim=d, dtype="float32"), family="attention", seed=seed)
        except gh.GlassheadError:
            continue
        accepted += 1
        assert np.linalg.norm(found.model.W - W.astype(np.float32)) <= found.bound
        assert np.linalg.norm(found.model.v - v.astype(np.float32)) <= found.bound_v
        assert found.bound < np.linalg.norm(W)
        assert found.confidence < 1 or form == "exp-lines"
    assert accepted >= (0 if form in ("float16-weights", "exp-lines") else 4)


@pytest.mark.parametrize("d", [1, 2, 4, 8])
@pytest.mark.parametrize("count", [14, 18, 30])
def test_answers_of_any_number_of_bits(d, count):
    """The format shows in the answers, and before anything is read from them, so bounds are true."""
    for seed in range(5):
        W, v, _ = gaussian(d, seed)

        def box(X, W=W, v=v):
            mantissa, exponent = np.frexp(attended(X, W, v))
            return np.ldexp(np.round(mantissa * 2.0**count) / 2.0**count, exponent)

        oracle = gh.ValueOracle(box, dim=d)
        try:
            found = gh.recover(oracle, family="attention", seed=seed)
        except gh.AccuracyUnreachable:
            assert count == 14
            continue
        assert oracle.roundoff >= 2.0**-count
        assert np.linalg.norm(found.model.W - W) <= found.bound
        assert np.linalg.norm(found.model.v - v) <= found.bound_v


def test_what_knows_nothing_is_refused():
    """A bias so large that the digits of the rest are lost, unless tokens may be long."""
    W, v, _ = gaussian(4, 0)

    def box(X):
        return (attended(X, W, v) + 3e5).astype(np.float32)

    with pytest.raises(gh.GlassheadError):
        gh.recover(gh.ValueOracle(box, dim=4, max_norm=0.5), family="attention")
    found = gh.recover(gh.ValueOracle(box, dim=4), family="attention")
    assert np.linalg.norm(found.model.W - W) <= found.bound < np.linalg.norm(W)


def test_the_judge_costs_what_it_says_and_says_what_it_saw():
    target = gh.Attention.random(8, seed=1)
    found = gh.recover(gh.ValueOracle(target))
    assert found.checked is not None
    assert found.checked.sequences == JUDGE_QUERIES["value"]
    assert 0.00099 < found.checked.within < 0.00101
    assert f"{found.checked.sequences} ordinary sequences" in str(found)


def test_checked_survives_saving(tmp_path):
    found = gh.recover(gh.Attention.random(3, seed=1))
    found.save(tmp_path)
    assert gh.load_recovery(tmp_path).checked == found.checked


def test_heads_whose_w_no_answer_shows_are_refused():
    """Key biases of a thousand settle every weight, and a bias of a million hides what is left."""
    accepted = 0
    for seed in range(3):
        rng = np.random.default_rng(seed)
        heads = [
            gh.Attention(rng.standard_normal((3, 3)), v=rng.standard_normal(3), key_bias=1e3 * rng.standard_normal(3))
            for _ in range(2)
        ]
        target = gh.MultiHead(heads, bias=1e6)
        try:
            found = gh.recover(gh.ValueOracle(target), family="multi-head", seed=seed)
        except gh.GlassheadError:
            continue
        accepted += 1
        assert gh.distance(found.model, target) < 0.1
    assert accepted < 3


@pytest.mark.parametrize("faint", [1e-3, 1e-2])
@pytest.mark.parametrize("promise", [{}, {"rtol": 2.0**-23}])
def test_a_faint_second_head_shows_in_the_odds_of_copies(faint, promise):
    """Bounds of W leave more open than it does, and the law of copies knows nothing of W."""
    W, v, rng = gaussian(5, 2)
    second, value = rng.standard_normal((5, 5)), faint * rng.standard_normal(5)

    def box(X):
        return (attended(X, W, v) + attended(X, second, value)).astype(np.float32)

    try:
        found = gh.recover(gh.ValueOracle(box, dim=5, **promise))
    except gh.GlassheadError:
        return
    assert found.heads == 2


def test_a_large_bias_does_not_hide_how_scores_are_rounded():
    made = FORMATS["bfloat16-scores"]
    for seed in range(4):
        W, v, _ = gaussian(3, seed)

        def box(X, W=W, v=v):
            x = made.tokens(X)
            return made.answer(made.attend(x, scores(x, W.astype(np.float32))) @ v.astype(np.float32) + np.float32(1e5))

        try:
            found = gh.recover(gh.ValueOracle(box, dim=3), family="attention", seed=seed)
        except gh.GlassheadError:
            continue
        assert np.linalg.norm(found.model.W - W.astype(np.float32)) <= found.bound


def test_float32_behind_a_read_out_in_float64_is_recovered():
    W, _, rng = gaussian(6, 1)
    V, readout = rng.standard_normal((6, 6)), rng.standard_normal(6)

    def box(X):
        x = X.astype(np.float32)
        shares = weights(np.einsum("bnd,bd->bn", x, x[:, -1] @ W.astype(np.float32).T))
        return np.einsum("bn,bnd->bd", shares, x @ V.astype(np.float32)).astype(np.float64) @ readout

    found = gh.recover(gh.ValueOracle(box, dim=6))
    assert np.linalg.norm(found.model.W - W) <= 1e-3 * np.linalg.norm(W)
