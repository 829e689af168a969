"""Models handed to other libraries answer there as they do here."""

import numpy as np
import pytest
import torch

import glasshead as gh


def layer(dim, heads, *, rank=None, outputs=None, key_bias=True, seed=0, dtype=np.float64):
    """A layer as it is trained: projections of d / H rows, with biases; `rank` leaves Q and V fewer than that."""
    rng = np.random.default_rng((seed, dim, heads))
    width, outputs = dim // heads, outputs or dim
    Q, K, V = rng.standard_normal((3, heads, width, dim)) / np.sqrt(dim)
    if rank is not None:
        Q[:, rank:] = V[:, rank:] = 0
    Q, K, V = (part.reshape(dim, dim).astype(dtype) for part in (Q, K, V))
    W_o = rng.standard_normal((outputs, dim)).astype(dtype)
    q_bias = rng.standard_normal(dim).astype(dtype) if key_bias else None
    v_bias, o_bias = rng.standard_normal(dim).astype(dtype), rng.standard_normal(outputs).astype(dtype)
    return gh.MultiHead.from_projections(Q, K, V, W_o, heads, q_bias=q_bias, v_bias=v_bias, o_bias=o_bias)


def whole(model):
    """The same model without its factors."""
    heads = [gh.Attention(head.W, head.v, key_bias=head.key_bias) for head in model.heads]
    return gh.MultiHead(heads, bias=model.bias)


LAYERS = {
    "a layer": layer(12, 3),
    "without key biases": layer(12, 3, key_bias=False),
    "without factors": whole(layer(12, 3)),
    "of low rank, key biases beside W": layer(12, 3, rank=2),
    "the same without factors": whole(layer(12, 3, rank=2)),
    "one head": layer(8, 1),
    "a head that takes the mean": gh.MultiHead([gh.Attention(np.zeros((4, 4)), np.eye(4))], bias=1.0),
    "a head that is silent": gh.MultiHead([gh.Attention(np.eye(4), np.zeros((4, 4)))]),
    "key biases far larger than W": gh.MultiHead(
        [gh.Attention(1e-9 * head.W, head.v, key_bias=head.key_bias) for head in layer(12, 3).heads]
    ),
    "one gh.Attention": gh.Attention(np.diag([3.0, 0, 0]), np.ones((3, 3)), key_bias=[0, 1.0, 0], bias=[1, 2, 3]),
}


def tokens(model, length=7, batch=5):
    return np.random.default_rng(length).standard_normal((batch, length, model.dim))


@pytest.fixture(params=LAYERS)
def model(request):
    return LAYERS[request.param]


@pytest.mark.parametrize("length", [1, 2, 9])
def test_a_torch_layer_answers_like_the_model(model, length):
    X, exported = tokens(model, length), model.to_torch()
    assert isinstance(exported, torch.nn.MultiheadAttention)
    assert not exported.training
    with torch.no_grad():
        answers = exported(*[torch.tensor(X)] * 3)[0][:, -1]
    np.testing.assert_allclose(answers, model(X), atol=1e-10)


def test_projections_are_a_layer_again(model):
    found = model.to_projections()
    again = gh.MultiHead.from_projections(
        found.Q, found.K, found.V, found.O, found.heads, q_bias=found.q_bias, v_bias=found.v_bias, o_bias=found.o_bias
    )
    np.testing.assert_allclose(again(tokens(model)), model(tokens(model)), atol=1e-10)
    assert not found.k_bias.any()
    assert not found.v_bias.any()


def test_both_factors_are_equally_large(model):
    """K and [Q, q_bias], where a key bias larger than W counts as large as W; V and O."""
    found = model.to_projections()
    heads = getattr(model, "heads", [model])
    scale = [min(1.0, (head.W_norm or 1.0) / max(np.linalg.norm(head.key_bias), 1e-300)) for head in heads]
    Q = np.c_[found.Q, found.q_bias * np.repeat(scale, found.width)]
    for one, other in ((Q, found.K), (found.V, found.O.T)):
        one, other = found.by_head(one), found.by_head(other)
        np.testing.assert_allclose(one @ one.swapaxes(1, 2), other @ other.swapaxes(1, 2), atol=1e-12)


class BertAttention(torch.nn.Module):
    """The attention of a Hugging Face BERT, under its names, without dropout and LayerNorm."""

    def __init__(self, dim, heads):
        super().__init__()
        linear = {name: torch.nn.Linear(dim, dim) for name in ("query", "key", "value")}
        self.self = torch.nn.ModuleDict(linear)
        self.output = torch.nn.ModuleDict({"dense": torch.nn.Linear(dim, dim)})
        self.heads = heads

    def forward(self, hidden):
        parts = [self.self[name](hidden) for name in ("query", "key", "value")]
        query, key, value = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in parts)
        weights = (query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5).softmax(-1)
        return self.output["dense"]((weights @ value).transpose(1, 2).flatten(-2))


def test_a_bert_answers_like_the_model(model):
    heads = len(getattr(model, "heads", [model]))
    bert = BertAttention(model.dim, heads).double()
    bert.load_state_dict(model.to_transformers("bert"))
    with torch.no_grad():
        answers = bert(torch.tensor(tokens(model)))[:, -1]
    np.testing.assert_allclose(answers, model(tokens(model)), atol=1e-10)
    prefixed = model.to_transformers("bert", prefix="encoder.layer.0.attention.")
    assert "encoder.layer.0.attention.output.dense.bias" in prefixed


def in_transformer_lens(named, X):
    """The attention of TransformerLens at the last token, as it is written there."""
    q, k, v = (np.einsum("bnm,hme->bnhe", X, named[f"W_{part}"]) + named[f"b_{part}"] for part in "QKV")
    if named.frequencies is not None:
        angles = np.outer(np.arange(X.shape[1]), np.tile(named.frequencies, 2))[:, None]
        half, cos, sin = len(named.frequencies), np.cos(angles), np.sin(angles)
        q, k = (x * cos + np.concatenate([-x[..., half:], x[..., :half]], axis=-1) * sin for x in (q, k))
    scores = np.einsum("bhe,bnhe->bhn", q[:, -1], k) / np.sqrt(q.shape[-1])
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    return np.einsum("bhn,bnhe,hem->bm", weights, v, named["W_O"]) + named["b_O"]


def test_transformer_lens_answers_like_the_model(model):
    named = model.to_transformer_lens()
    heads = len(getattr(model, "heads", [model]))
    assert named["W_Q"].shape == (heads, model.dim, model.dim // heads)
    assert named["W_O"].shape == (heads, model.dim // heads, model.dim)
    np.testing.assert_allclose(in_transformer_lens(named, tokens(model)), model(tokens(model)), atol=1e-10)


@pytest.mark.parametrize("rank", [4, 6, 8])
def test_transformer_lens_answers_like_a_block_that_turns(rank):
    turning = gh.Rotary.random(16, heads=3, rank=rank, seed=2)
    v = np.random.default_rng(0).standard_normal((3, 16, 4)) @ np.random.default_rng(1).standard_normal((3, 4, 16))
    heads = [gh.Attention(turning.W(h, 0), v[h], key_bias=turning.key_bias(h, 0)) for h in range(3)]
    model = gh.Block(heads, norms=[gh.Norm("rms", 1e-6)], rotary=turning)
    named, X = model.to_transformer_lens(width=8), model.front(tokens(model))
    np.testing.assert_allclose(in_transformer_lens(named, X), model.attended(X), atol=1e-10)
    found = model.to_projections(width=8)
    np.testing.assert_array_equal(found.frequencies, named.frequencies)
    assert np.abs(found.frequencies[: rank // 2] - turning.frequencies[0]).max() == 0


def test_what_was_recovered_is_put_back_into_the_layer():
    torch.manual_seed(0)
    box = torch.nn.MultiheadAttention(16, 4, batch_first=True, dtype=torch.float64).eval()
    torch.nn.init.normal_(box.in_proj_bias)

    def ask(X):
        with torch.no_grad():
            return box(*[torch.tensor(X)] * 3)[0][:, -1].numpy()

    found = gh.recover(gh.ValueOracle(ask, dim=16))
    X = tokens(found.model)
    with torch.no_grad():
        answers = found.model.to_torch()(*[torch.tensor(X)] * 3)[0][:, -1].numpy()
    np.testing.assert_allclose(answers, found.model(X), atol=1e-10)
    np.testing.assert_allclose(answers, ask(X), atol=1e-8)


def test_formats_stay():
    model = layer(8, 2, dtype=np.float32)
    exported, X = model.to_torch(), tokens(model).astype(np.float32)
    assert exported.in_proj_weight.dtype == torch.float32
    with torch.no_grad():
        np.testing.assert_allclose(exported(*[torch.tensor(X)] * 3)[0][:, -1], model(X), atol=1e-5)
    assert whole(model).to_projections().Q.dtype == np.float32  # whose W is rounded, and so of full rank


@pytest.mark.parametrize("outputs", [None, 1, 5])
def test_any_number_of_outputs_and_any_width(outputs):
    rng = np.random.default_rng(0)
    v = rng.standard_normal((6, 4) if outputs is None else (6, 4, outputs))
    model = gh.MultiHead(
        [gh.Attention(rng.standard_normal((4, 4)), own, key_bias=own.T[0] if outputs else own) for own in v]
    )
    named = model.to_transformer_lens(width=4)
    assert named["W_Q"].shape == (6, 4, 4)
    expected = model(tokens(model)).reshape(5, -1)
    np.testing.assert_allclose(in_transformer_lens(named, tokens(model)), expected, atol=1e-10)
    assert model.to_projections(4).O.shape == (outputs or 1, 24)


def test_factors_of_all_heads():
    model = layer(12, 3, rank=2)
    mixed = gh.MultiHead([*model.heads, gh.Attention(np.eye(12), np.eye(12))])
    for rank, rows in ((None, 12), (5, 5)):
        Q, K = mixed.factor(rank)
        assert Q.shape == K.shape == (4, rows, 12)
        np.testing.assert_allclose((K.swapaxes(1, 2) @ Q)[:3], mixed.W[:3], atol=1e-13)
    Q, K = mixed.factor()
    np.testing.assert_allclose(K.swapaxes(1, 2) @ Q, mixed.W, atol=1e-13)


def test_what_is_chosen_is_said():
    model = layer(12, 3)
    said = [
        model.to_projections().chosen,
        model.to_torch().chosen,
        model.to_transformers("bert").chosen,
        model.to_transformer_lens().chosen,
    ]
    assert len(set(said)) == 1
    assert "the output bias is the model's" in said[0]


def test_an_output_bias_that_nobody_knows_is_zero_and_said():
    from glasshead._models.fused import Layer, projections

    found = projections(Layer(layer(12, 3).heads, None))
    assert not found.o_bias.any()
    assert "the output bias is not known and set to 0" in found.chosen


def test_ranks_that_do_not_fit_are_refused():
    rng = np.random.default_rng(0)
    full = gh.MultiHead([gh.Attention(rng.standard_normal((6, 6)), np.ones((6, 6))) for _ in range(2)])
    for export in (full.to_projections, full.to_torch, full.to_transformer_lens, lambda: full.to_transformers("bert")):
        with pytest.raises(ValueError, match=r"W of head 0 has rank 6, but there are 3 rows per head.*width=6"):
            export()
    one_row = np.outer(np.ones(6), np.arange(6.0))
    with pytest.raises(ValueError, match="v of head 0 has rank 6, but there are 5 rows"):
        gh.Attention(one_row, np.eye(6)).to_projections(5)


def test_a_key_bias_outside_of_the_column_space_is_refused():
    heads = [gh.Attention(head.W, head.v, key_bias=np.ones(12)) for head in layer(12, 3).heads]
    with pytest.raises(ValueError, match="the key bias of head 0 lies outside of the column space of K"):
        gh.MultiHead(heads).to_projections()
    gh.MultiHead(heads).to_projections(width=5)  # one row more has room for it


@pytest.mark.parametrize("off", [1e-11, 1e-6])
def test_what_is_left_out_is_counted(off):
    model = layer(12, 3)
    heads = [gh.Attention(head.W + off * np.eye(12), head.v, key_bias=head.key_bias) for head in model.heads]
    noisy = gh.MultiHead(heads)
    if off > 1e-10:
        with pytest.raises(ValueError, match="W of head 0 has rank 12"):
            noisy.to_projections()
    found = noisy.to_projections(rtol=10 * off)
    assert 0.1 * off < found.lost < 10 * off
    assert f"a share of {found.lost:.1e} was left out" in found.chosen
    assert model.to_projections().lost < 1e-14


def test_layouts_that_do_not_exist_are_refused():
    with pytest.raises(ValueError, match="2 heads do not divide d = 3"):
        gh.MultiHead.random(3, 2).to_projections()
    with pytest.raises(ValueError, match=r"answers d = 4 numbers, this model one; to_projections"):
        gh.MultiHead.random(4, 2, rank=2).to_torch()
    with pytest.raises(ValueError, match=r"answers d = 12 numbers, this model 5"):
        layer(12, 3, outputs=5).to_transformers("bert")
    with pytest.raises(ValueError, match="expected one of 'bert', 'gpt2', 'llama', got 'gpt5'"):
        layer(12, 3).to_transformers("gpt5")
    with pytest.raises(ValueError, match="expected a width >= 1, got 0"):
        layer(12, 3).to_projections(0)


def test_circuits_are_maps_of_tokens():
    model = layer(12, 3)
    X = tokens(model, 2)
    scores = np.einsum("bd,hde,be->bh", X[:, 1], model.W_QK, X[:, 0])
    np.testing.assert_allclose(scores, np.stack([np.sum(X[:, 0] * (X[:, 1] @ h.W.T), axis=1) for h in model.heads]).T)
    np.testing.assert_array_equal(model.W_OV, model.v)
    block = gh.Block(model.heads)
    for name, maps in (("W_QK", model.W_QK), ("W_OV", model.W_OV)):
        s, values = getattr(model, f"{name}_singular_values"), getattr(model, f"{name}_eigenvalues")
        np.testing.assert_allclose(np.sum(s**2, axis=1), np.sum(maps**2, axis=(1, 2)))
        assert np.all(np.diff(s, axis=1) <= 0)
        assert s[:, 4:].max() < 1e-12  # of rank 4
        np.testing.assert_allclose(values.sum(axis=1), np.trace(maps, axis1=1, axis2=2), atol=1e-12)
        assert np.all(np.diff(np.abs(values), axis=1) <= 1e-12)
        np.testing.assert_array_equal(getattr(block, f"{name}_singular_values"), s)
    one = gh.MultiHead.random(4, 2)
    assert one.W_OV.shape == (2, 4, 1)
    with pytest.raises(ValueError, match="expected answers as long as tokens, d = 4, got 1"):
        one.W_OV_eigenvalues  # noqa: B018
