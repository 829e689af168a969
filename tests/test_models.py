import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import glasshead as gh

from .helpers import head, low_rank, sequences

dims = st.integers(1, 6)
seeds = st.integers(0, 2**16)


def naive(model, X):
    """The definition, token by token."""
    scores = [x @ (model.W @ X[-1] + model.key_bias) for x in X]
    weights = np.exp(np.array(scores) - max(scores))
    return weights @ (X @ model.v) / weights.sum() + model.bias


@pytest.mark.parametrize("length", [1, 2, 5])
@pytest.mark.parametrize("dim", [1, 3, 8])
def test_is_its_definition(dim, length):
    model = head(dim, key_bias=1.0, bias=2.0)
    X = sequences(dim, [length])[0]
    expected = [naive(model, x) for x in X]
    np.testing.assert_allclose(model(X), expected, rtol=1e-13)
    np.testing.assert_allclose(model(X[0]), expected[0], rtol=1e-13)


@given(dims, st.integers(1, 4), st.integers(1, 5), seeds)
def test_projections_merge(dim, rank, length, seed):
    """softmax(K x . (Q x_N + q_bias) scale) (V x + v_bias) . w_o is the merged head."""
    rng = np.random.default_rng(seed)
    Q, K, V = rng.standard_normal((3, rank, dim))
    w_o, q_bias, v_bias = rng.standard_normal((3, rank))
    X = rng.standard_normal((length, dim))
    model = gh.Attention.from_projections(Q, K, V, w_o, scale=0.3, q_bias=q_bias, v_bias=v_bias)
    scores = 0.3 * (X @ K.T) @ (Q @ X[-1] + q_bias)
    weights = np.exp(scores - scores.max())
    expected = weights / weights.sum() @ ((X @ V.T + v_bias) @ w_o)
    merged = gh.Attention(model.W, model.v, key_bias=model.key_bias, bias=model.bias)
    np.testing.assert_allclose(model(X), expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(merged(X), expected, rtol=1e-9, atol=1e-9)


@given(dims, st.integers(2, 6), seeds)
def test_the_order_of_other_tokens_does_not_matter(dim, length, seed):
    rng = np.random.default_rng(seed)
    model, X = head(dim, key_bias=1.0), rng.standard_normal((length, dim))
    shuffled = np.vstack([rng.permutation(X[:-1]), X[-1:]])
    np.testing.assert_allclose(model(shuffled), model(X), rtol=1e-9, atol=1e-12)


@given(dims, st.integers(1, 6), seeds)
def test_translation_moves_the_biases(dim, length, seed):
    """A head seen from another origin is a head with other biases: what `read_from_null_origin` relies on."""
    rng = np.random.default_rng(seed)
    model, X, origin = head(dim, key_bias=1.0, bias=1.0), rng.standard_normal((length, dim)), rng.standard_normal(dim)
    key_bias, bias = model.key_bias + model.W @ origin, model.bias + origin @ model.v
    moved = gh.Attention(model.W, model.v, key_bias=key_bias, bias=bias)
    np.testing.assert_allclose(moved(X), model(X + origin), rtol=1e-6, atol=1e-8)


@given(dims, st.floats(0.1, 10), seeds)
def test_scale_laws(dim, scale, seed):
    """Longer tokens and a smaller W are the same head."""
    model, X = head(dim), np.random.default_rng(seed).standard_normal((4, dim))
    scaled = gh.Attention(model.W / scale**2, model.v / scale)
    np.testing.assert_allclose(scaled(scale * X), model(X), rtol=1e-9, atol=1e-12)


def test_scores_of_1e300_do_not_overflow():
    model = gh.Attention(np.diag([1e300, 1.0]), [1.0, 2.0])
    with np.errstate(all="raise", under="ignore"):
        assert model([[1.0, 5.0], [-1.0, 3.0], [1.0, 1.0]]) == pytest.approx((11 + 3) / 2)


def test_vector_answers_are_scalar_answers_side_by_side():
    rng = np.random.default_rng(0)
    W, V, bias = rng.standard_normal((4, 4)), rng.standard_normal((4, 3)), rng.standard_normal(3)
    X = rng.standard_normal((5, 6, 4))
    expected = np.stack([gh.Attention(W, V[:, k], bias=bias[k])(X) for k in range(3)], axis=1)
    np.testing.assert_allclose(gh.Attention(W, V, bias=bias)(X), expected, rtol=1e-13)


def test_factored_heads_never_form_W():
    model = gh.Attention.random(4096, rank=128, seed=0)
    X = np.random.default_rng(0).standard_normal((4, 2, 4096)) / 64
    assert np.isfinite(model(X)).all()
    assert model._part.shape == (128, 4096)  # Q, and no W beside it


@pytest.mark.parametrize("model", [gh.Attention.random(12, rank=3), low_rank(9, 2), gh.Attention.random(5)])
def test_factor_goes_back(model):
    Q, K = model.factor()
    np.testing.assert_allclose(K.T @ Q, model.W, atol=1e-13)
    np.testing.assert_allclose(Q @ Q.T, K @ K.T, atol=1e-13)
    assert model.W_norm == pytest.approx(np.linalg.norm(model.W))


def test_factor_to_a_rank_is_the_nearest_of_that_rank():
    model = head(6)
    Q, K = model.factor(2)
    s = np.linalg.svd(model.W, compute_uv=False)
    assert np.linalg.norm(K.T @ Q - model.W) == pytest.approx(np.linalg.norm(s[2:]))
    assert low_rank(6, 2).factor(4)[0].shape == (4, 6)


def test_random_is_random_by_seed():
    assert gh.distance(gh.Attention.random(5, seed=1), gh.Attention.random(5, seed=1)) == 0
    assert gh.distance(gh.Attention.random(5, seed=1), gh.Attention.random(5, seed=2)) > 0.1
    assert np.linalg.matrix_rank(gh.Attention.random(9, rank=2).W) == 2


def test_computes_in_its_own_dtype():
    assert head(3, dtype=np.float32)(np.ones((2, 3, 3))).dtype == np.float32


@settings(max_examples=20)
@given(dims, seeds)
def test_distance_is_a_distance(dim, seed):
    a, b = (head(dim, key_bias=1.0, bias=1.0, seed=seed + k) for k in range(2))
    assert gh.distance(a, b) == gh.distance(b, a)
    assert gh.distance(a, a) == 0 < gh.distance(a, b) <= 2
    assert gh.distance(a, gh.Attention(a.W, a.v, key_bias=a.key_bias, bias=a.bias + 1)) > 0


def test_distance_ignores_what_no_query_sees():
    silent = [gh.Attention(head(3, seed=k).W, np.zeros(3)) for k in range(2)]
    assert gh.distance(*silent) == 0
    assert gh.distance(head(3), head(4)) == np.inf


@pytest.mark.parametrize("factor", [1e-200, 0.5, 3.0, 1e200])
def test_distance_up_to_scale(factor):
    a = head(4, key_bias=1.0, bias=1.0)
    b = gh.Attention(a.W, factor * a.v, key_bias=a.key_bias, bias=factor * a.bias)
    assert gh.distance(a, b) > 0.4
    assert gh.distance(a, b, up_to_scale=True) <= 1e-15
    flipped = gh.Attention(a.W, -a.v, key_bias=a.key_bias, bias=-a.bias)
    assert gh.distance(a, flipped, up_to_scale=True) > 1  # the factor is positive
    another = gh.Attention(a.W, factor * a.v, key_bias=a.key_bias, bias=a.bias)
    assert gh.distance(a, another, up_to_scale=True) > 0.1  # and the same for v and bias
    silent = [gh.Attention(head(3, seed=k).W, np.zeros(3), bias=k + 1.0) for k in range(2)]
    assert gh.distance(*silent, up_to_scale=True) == 0


@pytest.mark.parametrize(
    "model", [head(4, key_bias=1.0, bias=1.0), head(3, dtype=np.float32), gh.Attention.random(6, rank=2)], ids=repr
)
def test_save_and_load(model, tmp_path):
    loaded = gh.load(gh.save(model, tmp_path / "model.safetensors"))
    assert repr(loaded) == repr(model)
    for name, tensor in model.tensors().items():
        assert np.array_equal(loaded.tensors()[name], tensor)
    assert list(tmp_path.iterdir()) == [tmp_path / "model.safetensors"]
