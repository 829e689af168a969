"""Torch modules and callables on tensors as oracles: they are asked as they want to be, and what stands in the way is
named."""

import doctest
import sys

import numpy as np
import pytest
import torch

import glasshead as gh

from .local import tensors_of

RNG = np.random.default_rng(5)
HEAD = gh.Attention.random(8, seed=3)
X = RNG.standard_normal((4, 6, 16))


def encoder_layer(dtype=torch.float64, seed=0, dropout=0.0, **kw):
    torch.manual_seed(seed)
    return torch.nn.TransformerEncoderLayer(16, 2, 32, dropout=dropout, dtype=dtype, **kw).eval()


def directly(layer, X, place=-1):
    T = torch.tensor(X, dtype=layer.linear1.weight.dtype)
    with torch.no_grad():
        out = layer(T) if layer.self_attn.batch_first else layer(T.transpose(0, 1)).transpose(0, 1)
    return out[:, place].double().numpy()


class Pooled(torch.nn.Module):
    """A module of a user: sequences first, an answer for each sequence in a dict, and one for each token."""

    def __init__(self):
        super().__init__()
        self.layer = encoder_layer()
        self.readout = torch.nn.Linear(16, 3, dtype=torch.float64)

    def forward(self, X):
        tokens = self.readout(self.layer(X))
        return {"pooled": tokens.mean(dim=0), "tokens": tokens, "first": tokens[:1]}


def test_a_head_in_torch_is_recovered_like_the_same_head_in_numpy():
    here, there = gh.recover(gh.ValueOracle(HEAD)), gh.recover(gh.from_torch(tensors_of(HEAD), 8))
    assert here.family == there.family == "attention"
    assert np.abs(there.model.W - here.model.W).max() < 1e-12
    assert np.abs(there.model.v - here.model.v).max() < 1e-12


def test_the_example_runs():
    examples = doctest.DocTestFinder().find(gh.from_torch, globs={"gh": gh, "torch": torch})
    assert doctest.DocTestRunner().run(examples[0]) == (0, 3)


@pytest.mark.parametrize("batch_first", [True, False])
def test_multihead_attention_is_recovered(batch_first):
    torch.manual_seed(1)
    layer = torch.nn.MultiheadAttention(16, 2, batch_first=batch_first, dtype=torch.float64).eval()
    found = gh.recover(gh.from_torch(layer, 16))
    assert gh.distance(found.model, gh.MultiHead.from_torch(layer)) < 1e-9


@pytest.mark.parametrize("place", [-1, 0])
@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("known", [True, False])
def test_a_layer_answers_as_when_called_directly(place, batch_first, known):
    layer = encoder_layer(batch_first=batch_first)
    oracle = gh.from_torch(layer if known else lambda T: layer(T), 16, place)
    np.testing.assert_allclose(
        oracle(X), directly(layer, np.roll(X, 1, axis=1) if place == 0 else X, place), atol=1e-14
    )
    assert ("it takes sequences first, (N, B, d)" in oracle.notes) is not batch_first
    assert any("put first" in note for note in oracle.notes) is (place == 0)
    assert oracle.queries == oracle.looked + 4
    assert (oracle.looked == 8) is known


def test_an_encoder_and_its_layer_are_asked_alike():
    layer = encoder_layer(batch_first=True)
    encoder = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    np.testing.assert_allclose(gh.from_torch(encoder, 16)(X), directly(layer, gh_tokens(layer, X)), atol=1e-13)


def gh_tokens(layer, X):
    with torch.no_grad():
        return layer(torch.tensor(X)).numpy()


def test_causal_boxes_show_their_batch():
    layer, mask = encoder_layer(), torch.nn.Transformer.generate_square_subsequent_mask
    for batch_first in (True, False):
        layer.self_attn.batch_first = batch_first

        def causal(T, axis=int(batch_first)):
            return layer(T, src_mask=mask(T.shape[axis], dtype=torch.float64), is_causal=True)

        np.testing.assert_allclose(gh.from_torch(causal, 16)(X), directly(layer, X), atol=1e-13)


def test_what_a_module_returns_is_chosen_from():
    module = Pooled().eval()
    with torch.no_grad():
        wanted = {key: value.numpy() for key, value in module(torch.tensor(X).transpose(0, 1)).items()}
    for output, answers in {
        "pooled": wanted["pooled"],
        "tokens": wanted["tokens"][-1],
        "first": wanted["first"][0],
        (lambda found: found["tokens"][..., 1]): wanted["tokens"][-1, :, 1],
    }.items():
        oracle = gh.from_torch(module, 16, output=output)
        np.testing.assert_allclose(oracle(X), answers, atol=1e-14)
        assert "it takes sequences first, (N, B, d)" in oracle.notes
    layer = encoder_layer(batch_first=True)
    for output in (3, -1, slice(2, 5)):
        np.testing.assert_allclose(
            gh.from_torch(layer, 16, output=output)(X), directly(layer, X)[:, output], atol=1e-14
        )
    oracle = gh.from_torch(lambda T: (layer(T), None), 16)
    assert "the first of 2 things that it returns is read" in oracle.notes
    assert gh.from_torch(lambda T: {"only": layer(T)}, 16)(X).shape == (4, 16)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_narrow_numbers_are_named_and_stay_what_they_are(dtype):
    layer = encoder_layer(getattr(torch, dtype), batch_first=True)
    for box in (layer, lambda T: layer(T), layer.forward):
        oracle = gh.from_torch(box, 16, max_norm=10.0)
        assert oracle.notes[0] == f"it is asked in {dtype}"
        assert oracle.roundoff == gh._oracles.ROUNDOFF[dtype]
        assert np.array_equal(oracle(X), directly(layer, X))


def test_a_callable_can_be_told_its_format():
    head = tensors_of(HEAD)
    oracle = gh.from_torch(lambda T: head(T.double()), 8, dtype=torch.bfloat16)
    assert oracle.notes[0] == "it is asked in bfloat16"
    rounded = torch.tensor(X[..., :8]).bfloat16().double().numpy()
    np.testing.assert_allclose(oracle(X[..., :8]), HEAD(rounded), atol=1e-14)


def test_signs_of_a_float32_module_are_those_of_float32():
    layer = encoder_layer(torch.float32, batch_first=True)
    oracle = gh.from_torch(layer, 16, output=0, answers="sign", flips=0.1)
    assert oracle.answers == "sign"
    assert oracle.flips == 0.1
    assert oracle.roundoff == 2.0**-24
    assert np.array_equal(oracle(X), directly(layer, X)[:, 0] > 0)


def test_autocast_is_named_and_stays_on():
    layer = encoder_layer(torch.float32, batch_first=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        oracle = gh.from_torch(layer, 16)
        inside = directly(layer, X)
    assert any("autocast to bfloat16 is on" in note for note in oracle.notes)
    assert oracle.roundoff == 2.0**-8
    assert np.array_equal(oracle(X), inside)
    plain = gh.from_torch(layer, 16)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert np.array_equal(plain(X), gh.from_torch(layer, 16)(X)) is False
    assert not any("autocast" in note for note in plain.notes)


@pytest.mark.parametrize("precision", ["highest", "medium"])
def test_products_of_fewer_digits_are_named_where_they_are_allowed(precision):
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        notes = {kind: gh.from_torch(encoder_layer(kind), 16).notes for kind in (torch.float32, torch.float64)}
    finally:
        torch.set_float32_matmul_precision(before)
    assert any("may be multiplied in" in note for note in notes[torch.float32]) is (precision == "medium")
    assert not any("may be multiplied in" in note for note in notes[torch.float64])


def test_no_gradients_and_no_traces_are_left():
    layer = encoder_layer(batch_first=True)
    seen = []
    layer.register_forward_hook(lambda *_: seen.append(torch.is_grad_enabled()))
    gh.from_torch(layer, 16)(X)
    assert seen
    assert not any(seen)
    assert layer(torch.tensor(X, requires_grad=True)).requires_grad
    assert all(parameter.grad is None for parameter in layer.parameters())


def test_many_tokens_are_asked_in_parts():
    layer = encoder_layer(batch_first=True)
    sizes = []
    layer.register_forward_pre_hook(lambda _, tokens: sizes.append(len(tokens[0])))
    long = RNG.standard_normal((3, 1800, 16))
    np.testing.assert_allclose(gh.from_torch(layer, 16)(long)[1], directly(layer, long[1:2])[0], atol=1e-12)
    assert sizes[-4:-1] == [1, 1, 1]


@pytest.mark.parametrize(
    ("module", "what"),
    [
        (encoder_layer(dropout=0.1), r"self_attn \(dropout=0.1\), dropout \(p=0.1\)"),
        (torch.nn.MultiheadAttention(16, 2, dropout=0.2), r"MultiheadAttention \(dropout=0.2\)"),
        (torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.BatchNorm1d(16)), r"1 \(BatchNorm1d of the batch\)"),
    ],
)
def test_training_mode_with_something_at_work_is_refused(module, what):
    module.train()
    with pytest.raises(
        ValueError, match=rf"expected a module that answers the same each time.*{what}.*module.eval\(\)"
    ):
        gh.from_torch(module, 16)
    assert module.training


def test_a_function_is_looked_through():
    layer, readout = encoder_layer(torch.float32, dropout=0.1, batch_first=True), torch.nn.Linear(16, 3)
    oracle = gh.from_torch(lambda T: readout(layer(T)), 16)
    assert (
        oracle.notes[0] == "it is in training mode, in which nothing was found that would make a difference"
    )  # readout
    assert "it is asked in float32" in oracle.notes
    layer.train()
    with pytest.raises(ValueError, match=r"in training mode, with .*self_attn \(dropout=0.1\)"):
        gh.from_torch(lambda T: readout(layer(T)), 16)
    with pytest.raises(ValueError, match="in training mode"):
        gh.from_torch(lambda T: layer(T), 16)
    assert layer.training
    assert readout.training


def test_training_mode_without_effect_is_noted():
    layer = encoder_layer(batch_first=True).train()
    oracle = gh.from_torch(layer, 16)
    assert "training mode, in which nothing was found" in oracle.notes[0]
    assert layer.training


def test_dropout_that_nothing_names_shows_in_the_first_look():
    oracle = gh.from_torch(lambda T: torch.nn.functional.dropout(T, 0.3)[:, -1], 16)
    assert "otherwise the next time" in oracle.notes[-1]


WRONG = {
    "dim": (lambda: gh.from_torch(encoder_layer(), 8), ValueError, "got dim=8 for tokens of length 16"),
    "no dim": (lambda: gh.from_torch(encoder_layer(), 0), ValueError, "expected dim to be an integer >= 1"),
    "dim of a stranger": (
        lambda: gh.from_torch(Pooled().eval(), 8),
        gh.OracleError,
        "is dim=8 right, and does it take batches",
    ),
    "ids": (
        lambda: gh.from_torch(torch.nn.Sequential(torch.nn.Embedding(9, 8), torch.nn.Linear(8, 8)), 8),
        gh.OracleError,
        "it takes token ids: pass a callable that takes vectors in their place",
    ),
    "keys of another length": (
        lambda: gh.from_torch(torch.nn.MultiheadAttention(16, 2, kdim=4).eval(), 16),
        ValueError,
        "tokens of length 16 and 4",
    ),
    "no callable": (lambda: gh.from_torch(3, 16), TypeError, "expected a callable box"),
    "place": (lambda: gh.from_torch(encoder_layer(), 16, 3), ValueError, "expected place, .*got 3"),
    "order": (lambda: gh.from_torch(encoder_layer(), 16, batch_first=1), ValueError, "expected batch_first to be True"),
    "told otherwise": (
        lambda: gh.from_torch(encoder_layer(), 16, batch_first=True),
        ValueError,
        "expected batch_first=False, as the layer itself says",
    ),
    "shown otherwise": (
        lambda: gh.from_torch(lambda T: T.sum(dim=(1, 2)), 16, batch_first=False),
        ValueError,
        "expected batch_first=True, since",
    ),
    "format": (lambda: gh.from_torch(abs, 16, dtype="int8"), ValueError, "expected dtype to be one of float64"),
    "keyword": (lambda: gh.from_torch(tensors_of(HEAD), 8, colour=1), TypeError, "colour"),
    "max_norm": (lambda: gh.from_torch(tensors_of(HEAD), 8, max_norm=-1), ValueError, "expected max_norm"),
    "a decoder": (
        lambda: gh.from_torch(torch.nn.TransformerDecoderLayer(16, 2).eval(), 16),
        ValueError,
        "nn.TransformerDecoderLayer, which attends to a second one: pass lambda X: module",
    ),
    "kind of output": (lambda: gh.from_torch(abs, 16, output=1.5), TypeError, "expected output to be an integer"),
    "no such name": (
        lambda: gh.from_torch(Pooled().eval(), 16, output="logits"),
        gh.OracleError,
        r"expected output to name one of \['pooled', 'tokens', 'first'\], got 'logits'",
    ),
    "no name": (lambda: gh.from_torch(Pooled().eval(), 16), gh.OracleError, r"name one of \['pooled', .* with output="),
    "no such number": (
        lambda: gh.from_torch(encoder_layer(), 16, output=16),
        gh.OracleError,
        "choose among the 16 numbers of an answer, got 16",
    ),
    "one number": (
        lambda: gh.from_torch(tensors_of(HEAD), 8, output=0),
        gh.OracleError,
        "choose among several numbers",
    ),
    "no tensor": (lambda: gh.from_torch(lambda T: None, 16), gh.OracleError, "to answer a tensor, got NoneType"),
    "a sum": (lambda: gh.from_torch(torch.sum, 16), gh.OracleError, r"got shape \(\) for an array of shape \(3, 5\)"),
    "turned around": (
        lambda: gh.from_torch(lambda T: T.transpose(0, 1), 16),
        gh.OracleError,
        r"expected answers of shape .*choose with output=",
    ),
    "NaN": (lambda: gh.from_torch(lambda T: T[:, -1].log(), 16), gh.OracleError, "expected finite answers, got"),
    "no values": (
        lambda: gh.from_torch(torch.nn.Linear(16, 2, device="meta"), 16),
        ValueError,
        "got some on the meta device",
    ),
    "eight bits": (
        lambda: gh.from_torch(encoder_layer().to(torch.float8_e5m2), 16),
        ValueError,
        "expected parameters of float64",
    ),
    "the batch": (
        lambda: gh.from_torch(lambda T: T.mean(dim=(0, 1)).expand(len(T), -1), 16),
        gh.TargetMismatch,
        "batch-dependent",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_be_asked_is_refused_with_a_sentence(case):
    ask, error, words = WRONG[case]
    with pytest.raises(error, match=words):
        ask()


def test_without_torch_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match=r"needs torch, .*pip install 'glasshead\[torch\]'"):
        gh.from_torch(abs, 4)
