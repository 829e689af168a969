"""The multi-head model: its definition, its ways of being made, and what it refuses."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import glasshead as gh

from .helpers import head, low_rank, sequences


def with_outputs(model, k, seed=0):
    """The same scores with k outputs."""
    rng = np.random.default_rng(seed)
    return gh.MultiHead(
        [gh.Attention(h.W, rng.standard_normal((h.dim, k)), key_bias=h.key_bias) for h in model.heads],
        bias=rng.standard_normal(k),
    )


MODELS = [
    gh.MultiHead([head(3, key_bias=1.0, bias=1.0)], bias=2.0),
    gh.MultiHead([head(4, seed=k, key_bias=k or None) for k in range(3)], bias=1.0),
    gh.MultiHead.random(6, heads=3, rank=2),
    gh.MultiHead([gh.Attention.random(6, rank=r) for r in (1, 2, 5)]),
    gh.MultiHead([gh.Attention.random(6, rank=2), low_rank(6, 1), head(6)]),
    with_outputs(gh.MultiHead.random(4, heads=3), 2),
    gh.MultiHead([head(3, dtype=np.float32, seed=k) for k in range(2)]),
]


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_is_the_sum_of_its_heads(model):
    rtol = 1e3 * np.finfo(model.dtype).eps
    for X in sequences(model.dim, [1, 2, 5]):
        expected = sum(one(X) for one in model.heads) + model.bias
        np.testing.assert_allclose(model(X), expected, rtol=rtol, atol=rtol)
        np.testing.assert_allclose(model(X[0]), expected[0], rtol=rtol, atol=rtol)
        assert model(X).dtype == model.dtype


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_parameters_side_by_side(model):
    count, d = len(model.heads), model.dim
    assert (model.W.shape, model.key_bias.shape) == ((count, d, d), (count, d))
    assert model.v.shape == (count, *model.heads[0].v.shape)
    assert not any(np.any(one.bias) for one in model.heads)
    assert model.numpy() is model
    again = gh.MultiHead(model.heads, bias=model.bias)
    assert gh.distance(again, model) == 0


def test_biases_of_heads_add_up():
    first, second = head(3, bias=1.0, seed=1), head(3, bias=1.0, seed=2)
    model = gh.MultiHead([first, second], bias=0.25)
    X = sequences(3, [4])[0]
    np.testing.assert_allclose(model(X), first(X) + second(X) + 0.25, rtol=1e-13)
    assert model.bias == pytest.approx(first.bias + second.bias + 0.25)


def test_one_precision_for_all():
    model = gh.MultiHead([head(3, dtype=np.float32), head(3)])
    assert model.dtype == model.heads[0].dtype == model([[1.0, 2.0, 3.0]]).dtype == np.float64


def test_no_sequences_no_answers():
    assert MODELS[1](np.zeros((0, 2, 4))).shape == (0,)
    assert MODELS[5](np.zeros((0, 2, 4))).shape == (0, 2)


def test_long_batches_are_cut(monkeypatch):
    monkeypatch.setattr("glasshead._models.multi_head.NUMBERS_AT_ONCE", 64)
    X = np.random.default_rng(0).standard_normal((50, 3, 4))
    np.testing.assert_allclose(MODELS[1](X), sum(one(X) for one in MODELS[1].heads) + MODELS[1].bias, rtol=1e-12)


def test_factors_are_never_multiplied_out():
    model = gh.MultiHead.random(2048, heads=8, rank=16)
    X = np.random.default_rng(0).standard_normal((3, 2, 2048)) / 45
    assert np.isfinite(model(X)).all()
    assert all(one._part.shape == (16, 2048) for one in model.heads)


def layer(rng, d, heads, X, scale=None):
    """A fused layer by its definition, its parameters and its output at the last token."""
    Q, K, V, W_o = rng.standard_normal((4, d, d))
    q_bias, k_bias, v_bias, o_bias = rng.standard_normal((4, d))
    rows = d // heads
    scale = rows**-0.5 if scale is None else scale
    out = []
    for h in range(heads):
        s = slice(h * rows, (h + 1) * rows)
        scores = scale * (X @ K[s].T + k_bias[s]) @ (Q[s] @ X[-1] + q_bias[s])
        weights = np.exp(scores - scores.max())
        out.append(weights / weights.sum() @ (X @ V[s].T + v_bias[s]))
    made = {"Q": Q, "K": K, "V": V, "W_o": W_o, "q_bias": q_bias, "v_bias": v_bias, "o_bias": o_bias}
    return made, W_o @ np.concatenate(out) + o_bias


@settings(max_examples=20)
@given(st.integers(1, 3), st.integers(1, 3), st.integers(1, 5), st.integers(0, 2**16))
def test_fused_projections(rows, heads, length, seed):
    rng = np.random.default_rng(seed)
    X, readout = rng.standard_normal((length, rows * heads)), rng.standard_normal(rows * heads)
    for scale in (None, 0.3):
        made, expected = layer(rng, rows * heads, heads, X, scale)
        whole = gh.MultiHead.from_projections(**made, heads=heads, scale=scale)
        np.testing.assert_allclose(whole(X), expected, rtol=1e-8, atol=1e-8)
        read = gh.MultiHead.from_projections(**made, heads=heads, scale=scale, readout=readout)
        np.testing.assert_allclose(read(X), expected @ readout, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("batch_first", [True, False])
def test_from_torch(bias, dtype, batch_first):
    torch.manual_seed(0)
    module = torch.nn.MultiheadAttention(12, 3, bias=bias, batch_first=batch_first, dtype=dtype).eval()
    if bias:  # torch starts them at zero
        torch.nn.init.normal_(module.in_proj_bias)
        torch.nn.init.normal_(module.out_proj.bias)
    X = torch.randn(4, 5, 12, dtype=dtype)
    x = X if batch_first else X.swapaxes(0, 1)
    out = module(x, x, x)[0].detach()
    last = (out[:, -1] if batch_first else out[-1]).numpy()
    model, read = gh.MultiHead.from_torch(module), gh.MultiHead.from_torch(module, readout=np.ones(12, np.float32))
    tolerance = 1e4 * torch.finfo(dtype).eps
    np.testing.assert_allclose(model(X.numpy()), last, atol=tolerance)
    np.testing.assert_allclose(read(X.numpy()), last.sum(axis=1), atol=tolerance)
    assert model.has_key_bias == bias
    assert model.dtype == last.dtype


def test_half_precision_layers_are_read_exactly():
    module = torch.nn.MultiheadAttention(4, 2).to(torch.bfloat16).eval()
    assert gh.MultiHead.from_torch(module).dtype == np.float32


def test_a_layer_in_training_drops_at_random():
    with pytest.warns(UserWarning, match="module.eval()"):
        gh.MultiHead.from_torch(torch.nn.MultiheadAttention(4, 2, dropout=0.1))


@pytest.mark.parametrize(
    ("module", "match"),
    [
        (torch.nn.MultiheadAttention(4, 2, kdim=3).eval(), "kdim = vdim = embed_dim = 4, got kdim=3, vdim=4"),
        (torch.nn.MultiheadAttention(4, 2, add_bias_kv=True).eval(), "without add_bias_kv"),
        (torch.nn.MultiheadAttention(4, 2, add_zero_attn=True).eval(), "attends to a token of its own"),
    ],
)
def test_layers_that_are_something_else(module, match):
    with pytest.raises(ValueError, match=match):
        gh.MultiHead.from_torch(module)


def test_other_modules():
    with pytest.raises(TypeError, match=r"expected a torch.nn.MultiheadAttention, got Linear"):
        gh.MultiHead.from_torch(torch.nn.Linear(2, 2))


eye = np.eye(4)
ERRORS = [
    (lambda: gh.MultiHead([]), ValueError, "heads >= 1, got 0"),
    (lambda: gh.MultiHead([eye]), TypeError, "every head to be a gh.Attention, got ndarray"),
    (lambda: gh.MultiHead([head(3), head(4)]), ValueError, "heads of one dimension, 3 like the first"),
    (lambda: gh.MultiHead([head(4), gh.Attention(eye, eye)]), ValueError, r"v of shape \(4,\), like the first"),
    (lambda: gh.MultiHead([head(4)], bias=[1.0, 2.0]), ValueError, "a bias of shape"),
    (lambda: gh.MultiHead.random(4, heads=0), ValueError, "heads >= 1, got 0"),
    (lambda: gh.MultiHead.random(4, heads=2, rank=5), ValueError, "a rank from 1 to dim = 4"),
    (lambda: gh.MultiHead.from_projections(eye, eye, eye, eye, 3), ValueError, "equally many rows for each of 3 heads"),
    (lambda: gh.MultiHead.from_projections(eye, eye, eye, eye[:, :2], 2), ValueError, "W_o with 4 columns"),
    (
        lambda: gh.MultiHead.from_projections(eye, eye, eye, eye, 2, q_bias=[1.0]),
        ValueError,
        r"q_bias of shape \(4,\)",
    ),
    (lambda: gh.MultiHead.from_projections(eye, eye, eye, eye, 2, o_bias=[1.0]), ValueError, r"o_bias of shape \(4,\)"),
    (lambda: gh.MultiHead.from_projections(eye, eye, eye, eye, 2, readout=[1.0]), ValueError, "readout of shape"),
    (lambda: gh.MultiHead.random(4, heads=2)(np.ones((2, 3))), ValueError, r"sequences of shape \(N, 4\)"),
]


@pytest.mark.parametrize(("call", "error", "match"), ERRORS, ids=[match for *_, match in ERRORS])
def test_refuses(call, error, match):
    with pytest.raises(error, match=match):
        call()


def test_random_is_random_by_seed():
    one, two = (gh.MultiHead.random(5, heads=2, seed=seed) for seed in (1, 2))
    assert gh.distance(one, gh.MultiHead.random(5, heads=2, seed=1)) == 0
    assert gh.distance(one, two) > 0.1
    assert gh.distance(*one.heads) > 0.1


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_save_and_load(model, tmp_path):
    loaded = gh.load(gh.save(model, tmp_path / "model.safetensors"))
    assert repr(loaded) == repr(model)
    assert loaded.tensors().keys() == model.tensors().keys()
    for name, tensor in model.tensors().items():
        assert np.array_equal(loaded.tensors()[name], tensor)


def test_repr_says_what_it_is():
    assert repr(MODELS[3]) == "MultiHead(dim=6, heads=3, rank=1..5, float64)"
    assert repr(MODELS[1]) == "MultiHead(dim=4, heads=3, key_bias, bias, float64)"
    assert repr(MODELS[5]) == "MultiHead(dim=4, heads=3, outputs=2, bias, float64)"
