"""ONNX files as oracles: read from what they say themselves, cut where they take token ids, refused with a sentence
where they cannot be asked."""

import re
import sys
import warnings

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper
from onnxruntime.quantization import QuantType, quantize_dynamic

import glasshead as gh

from .local import KINDS, head_file, saved

HEAD = gh.Attention.random(8, seed=3)
X = np.random.default_rng(4).standard_normal((5, 6, 8))


class Encoder(torch.nn.Module):
    """Attention with a residual connection and a LayerNorm; with `ids`, tokens are rows of two tables, added up."""

    def __init__(self, dim=8, ids=False, batch_first=True):
        super().__init__()
        self.q, self.k, self.v, self.o = (torch.nn.Linear(dim, dim) for _ in range(4))
        self.norm, self.ids, self.batch_first = torch.nn.LayerNorm(dim), ids, batch_first
        self.places, self.words = torch.nn.Embedding(64, dim), torch.nn.Embedding(30, dim)

    def forward(self, X):
        X = self.words(X) + self.places(torch.arange(X.shape[1])) if self.ids else X
        return self.behind(X) if self.batch_first else self.behind(X.transpose(0, 1)).transpose(0, 1)

    def behind(self, X):
        weights = torch.softmax(self.q(X) @ self.k(X).transpose(1, 2), dim=-1)
        return self.norm(X + self.o(weights @ self.v(X)))


def exported(path, module, example, axes, name="x"):
    module.eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of an exporter that is being replaced by one with more dependencies
        dynamic = dict.fromkeys((name, "y"), axes)
        torch.onnx.export(
            module, (example,), path, dynamo=False, input_names=[name], output_names=["y"], dynamic_axes=dynamic
        )
    return path


@pytest.fixture
def file(tmp_path):
    return tmp_path / "box.onnx"


def test_a_head_in_a_file_is_recovered_like_the_same_head_in_numpy(file):
    oracle = gh.from_onnx(head_file(file, HEAD))
    assert oracle.dim == 8
    np.testing.assert_allclose(oracle(X), HEAD(X), atol=1e-14)
    here, there = gh.recover(gh.ValueOracle(HEAD)), gh.recover(oracle)
    assert here.family == there.family == "attention"
    assert np.abs(there.model.W - here.model.W).max() < 1e-12
    assert np.abs(there.model.v - here.model.v).max() < 1e-12


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("batch_first", [True, False])
def test_an_exported_encoder_answers_as_it_does_in_torch(file, dtype, batch_first):
    kind = getattr(torch, dtype)
    module = Encoder(batch_first=batch_first).to(kind)
    exported(file, module, torch.zeros(2, 3, 8, dtype=kind), {0: "one", 1: "other"})
    oracle = gh.from_onnx(str(file))
    with torch.no_grad():
        wanted = module.behind(torch.tensor(X, dtype=kind))[:, -1].numpy()
    np.testing.assert_allclose(oracle(X), wanted, atol=1e-5 if dtype == "float32" else 1e-11)
    assert ("it takes sequences first, (N, B, d)" in oracle.notes) is not batch_first
    assert ("it is asked in float32" in oracle.notes) is (dtype == "float32")
    assert gh.from_onnx(file, place=0, batch_first=batch_first)(X) == pytest.approx(wanted, abs=1e-5)


def test_float16_is_named(file):
    oracle = gh.from_onnx(head_file(file, HEAD, dtype="float16"), max_norm=4.0)
    assert oracle.notes[0] == "it is asked in float16"
    assert oracle.roundoff == 2.0**-11


def test_the_first_output_is_read_unless_another_is_named(file):
    head_file(file, HEAD)
    assert "its output 'y' is read, one of ['y', 'hidden']" in gh.from_onnx(file).notes
    assert gh.from_onnx(file, output="hidden")(X).shape == (5, 8)
    signs = gh.from_onnx(file, input="x", output="y", answers="sign")
    assert np.array_equal(signs(X), HEAD(X) > 0)


def test_some_of_the_numbers_of_an_answer(file):
    node = helper.make_node("Gather", ["x", "last"], ["y"], axis=1)
    passed_on(file, ["B", "N", 8], "float64", node, [("last", np.array(-1))], axes=2)
    for output in (2, slice(1, 4)):
        assert np.array_equal(gh.from_onnx(file, output=output)(X), X[:, -1, output])
    with pytest.raises(gh.OracleError, match="choose among the 8 numbers of an answer, got 8"):
        gh.from_onnx(file, output=8)


@pytest.mark.parametrize("size", [1, 4])
def test_a_batch_of_fixed_size_is_filled_up(file, size):
    oracle = gh.from_onnx(head_file(file, HEAD, axes=(size, "N"), rows=size))
    assert f"it takes batches of {size} only" in oracle.notes
    before = oracle.queries
    np.testing.assert_allclose(oracle(X), HEAD(X), atol=1e-14)
    assert oracle.queries - before == -(-len(X) // size) * size  # the copies that fill it up are sent, too


def test_a_batch_of_one_in_the_second_axis(file):
    nodes = [helper.make_node("Gather", ["x", "last"], ["y"], axis=0)]
    saved(
        file,
        nodes,
        [("x", KINDS["float64"], ["N", 1, 8])],
        [("y", KINDS["float64"], [1, 1, 8])],
        [("last", np.array([-1]))],
    )
    oracle = gh.from_onnx(file)
    assert np.array_equal(oracle(X), X[:, -1])
    assert "it takes sequences first, (N, B, d)" in oracle.notes


def test_a_number_for_each_token_of_a_batch_of_fixed_size(file):
    saved(
        file,
        [helper.make_node("ReduceSum", ["x", "third"], ["y"], keepdims=0)],
        [("x", KINDS["float64"], [2, "N", 8])],
        [("y", KINDS["float64"], [2, "N"])],
        [("third", np.array([2]))],
    )
    np.testing.assert_allclose(gh.from_onnx(file)(X), X[:, -1].sum(axis=1))


def masked_file(path, names):
    """The head, and some more inputs of ids whose sum is added; there is a use for each."""
    head_file(path, HEAD, more=[(name, TensorProto.INT64, ["B", "N"]) for name in names])
    model = onnx.load(path)
    for at, name in enumerate(names):
        model.graph.node.extend(
            [
                helper.make_node("ReduceSum", [name, "second"], [f"sum{at}"], keepdims=0),
                helper.make_node("Cast", [f"sum{at}"], [f"number{at}"], to=TensorProto.DOUBLE),
                helper.make_node("Add", ["y" if at == 0 else f"y{at}", f"number{at}"], [f"y{at + 1}"]),
            ]
        )
    model.graph.output[0].name = f"y{len(names)}"
    onnx.save(model, path)
    return path


def test_usual_inputs_are_filled(file):
    oracle = gh.from_onnx(masked_file(file, ["attention_mask", "token_type_ids", "position_ids"]))
    np.testing.assert_allclose(oracle(X), HEAD(X) + 6 + 0 + sum(range(6)), atol=1e-12)
    filled = [note for note in oracle.notes if "filled" in note]
    assert [note.rpartition(" ")[2] for note in filled] == ["ones", "zeros", "places"]


def decoder_file(path, merged):
    """As decoders are exported: ids, a table of their vectors, and keys of earlier tokens, which are put in front."""
    half = [("past_key_values.0.key", TensorProto.FLOAT, ["B", 2, "P", 4])]
    ids = [("input_ids", TensorProto.INT64, ["B", "N"])]
    switch = [("use_cache_branch", TensorProto.BOOL, [1])] if merged else []
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["tokens"]),
        helper.make_node("Reshape", ["tokens", "split"], ["heads"]),
        helper.make_node("Transpose", ["heads"], ["keys"], perm=[0, 2, 1, 3]),
        helper.make_node("Concat", ["past_key_values.0.key", "keys"], ["all"], axis=2),
        helper.make_node("ReduceSum", ["all", "axes"], ["sum"], keepdims=0),
        *([helper.make_node("Cast", ["use_cache_branch"], ["used"], to=TensorProto.FLOAT)] if merged else []),
        helper.make_node("Add", ["sum", "used"], ["out"]) if merged else helper.make_node("Identity", ["sum"], ["out"]),
        helper.make_node("Reshape", ["out", "joined"], ["y"]),
    ]
    table = np.arange(80, dtype=np.float32).reshape(10, 8)
    tensors = [
        ("table", table),
        ("split", np.array([0, 0, 2, 4])),
        ("axes", np.array([2])),
        ("joined", np.array([0, 8])),
    ]
    return saved(path, nodes, ids + half + switch, [("y", TensorProto.FLOAT, ["B", 8])], tensors)


@pytest.mark.parametrize("merged", [True, False])
def test_a_decoder_is_asked_without_earlier_tokens(file, merged):
    decoder_file(file, merged)
    with pytest.raises(ValueError, match=r"takes token ids, 'input_ids'.*: cut='tokens' asks what is behind"):
        gh.from_onnx(file)
    np.testing.assert_allclose(gh.from_onnx(file, cut="tokens")(X), X.sum(axis=1), atol=1e-5)


def ids_file(path):
    torch.manual_seed(0)
    module = Encoder(ids=True)
    return module, exported(path, module, torch.zeros(2, 3, dtype=torch.int64), {0: "B", 1: "N"}, "input_ids")


def test_a_file_of_token_ids_is_cut_where_the_sentence_says(file):
    module, _ = ids_file(file)
    with pytest.raises(ValueError, match=r"takes token ids, 'input_ids'.*cut='.*' asks what is behind") as said:
        gh.from_onnx(file)
    oracle = gh.from_onnx(file, cut=re.search("cut='(.*?)'", str(said.value))[1])
    assert oracle.dim == 8
    with torch.no_grad():
        tokens = torch.tensor(X, dtype=torch.float32) + module.places(torch.arange(6))
        np.testing.assert_allclose(oracle(X), module.behind(tokens)[:, -1].numpy(), atol=1e-5)
    assert "'input_ids' is filled with ones" in oracle.notes


def test_a_file_is_cut_at_any_tensor(file):
    """Behind the places, too: nothing of the ids is left, and their table neither."""
    module, _ = ids_file(file)
    add = next(node for node in onnx.load(file).graph.node if node.op_type == "Add")
    oracle = gh.from_onnx(file, cut=add.output[0])
    with torch.no_grad():
        np.testing.assert_allclose(oracle(X), module.behind(torch.tensor(X).float())[:, -1].numpy(), atol=1e-5)
    assert not any("filled" in note for note in oracle.notes)


def test_a_dynamically_quantised_file_is_batch_dependent(file, tmp_path):
    exported(file, Encoder(), torch.zeros(2, 3, 8), {0: "B", 1: "N"})
    assert gh.from_onnx(file).notes[0] == "it is asked in float32"
    quantised = tmp_path / "quantised.onnx"
    quantize_dynamic(file, quantised, weight_type=QuantType.QUInt8)
    with pytest.raises(gh.TargetMismatch, match="batch-dependent"):
        gh.from_onnx(quantised)


def no_embedding(path):
    nodes = [helper.make_node("Cast", ["ids"], ["y"], to=TensorProto.FLOAT)]
    return saved(path, nodes, [("ids", TensorProto.INT64, ["B", "N"])], [("y", TensorProto.FLOAT, ["B", "N"])])


def passed_on(path, shape, kind="float32", node=None, tensors=(), axes=None):
    node = node or helper.make_node("Identity", ["x"], ["y"])
    answered = [("y", KINDS[kind], [None] * (axes or len(shape)))]
    return saved(path, [node], [("x", KINDS[kind], shape)], answered, tensors)


def plain(path):
    return head_file(path, HEAD)


def two_inputs(path):
    inputs = [(name, TensorProto.FLOAT, ["B", "N", 8]) for name in "ab"]
    nodes = [helper.make_node("Add", ["a", "b"], ["y"])]
    return saved(path, nodes, inputs, [("y", TensorProto.FLOAT, ["B", "N", 8])])


def written(path, content):
    path.write_bytes(content)
    return path


WRONG = {
    "no file": (lambda p: p, {}, FileNotFoundError, "expected an ONNX file, there is none at"),
    "a folder": (lambda p: p.parent, {}, FileNotFoundError, "expected an ONNX file"),
    "nonsense": (lambda p: written(p, b"nonsense"), {}, ValueError, "an ONNX file that onnxruntime can run, got"),
    "nonsense to cut": (lambda p: written(p, b"nonsense"), {"cut": "t"}, ValueError, "an ONNX file that onnxruntime"),
    "nothing": (lambda p: written(p, b""), {}, ValueError, "an ONNX file that onnxruntime can run"),
    "input": (
        plain,
        {"input": "tokens"},
        ValueError,
        r"one of the file's, 'x' \(double, \['B', 'N', 8\]\); got 'tok",
    ),
    "output": (plain, {"output": "z"}, ValueError, "one of the file's, 'y' .*, 'hidden' .*got 'z'"),
    "output of a cut": (lambda p: ids_file(p)[1], {"cut": "/Add_output_0", "output": "z"}, ValueError, "got 'z'"),
    "an operation": (
        lambda p: passed_on(p, ["B", "N", 8], "float64", helper.make_node("Erf", ["x"], ["y"])),
        {},
        ValueError,
        "it has no float64 for some operations",
    ),
    "kind of output": (plain, {"output": 1.5}, TypeError, "expected output to be an integer"),
    "input and cut": (plain, {"input": "x", "cut": "mean"}, ValueError, "expected input= or cut="),
    "dim": (plain, {"dim": 4}, ValueError, "expected dim=8, which the file says of 'x', got dim=4"),
    "place": (plain, {"place": 2}, ValueError, "expected place"),
    "keyword": (plain, {"colour": 1}, TypeError, "colour"),
    "no dim": (lambda p: passed_on(p, ["B", "N", "d"]), {}, ValueError, "expected dim=, the length of tokens"),
    "length": (
        lambda p: head_file(p, HEAD, axes=("B", 4)),
        {},
        ValueError,
        r"'x' takes \['B', 4, 8\]: .*a fixed length",
    ),
    "both": (lambda p: head_file(p, HEAD, axes=(2, 4)), {}, ValueError, "a fixed length"),
    "told otherwise": (
        lambda p: head_file(p, HEAD, axes=(2, "N"), rows=2),
        {"batch_first": False},
        ValueError,
        "its sequences have a fixed length",
    ),
    "two axes": (
        lambda p: passed_on(p, ["B", 8]),
        {},
        ValueError,
        r"axes \(batch, tokens, d\), got 'x' \(float, \['B'",
    ),
    "two inputs": (two_inputs, {}, ValueError, "input= to say which of several takes the tokens: 'a'"),
    "a second input": (two_inputs, {"input": "a"}, ValueError, "got 'b' .*of which nothing is known"),
    "strange ids": (
        lambda p: masked_file(p, ["language"]),
        {},
        ValueError,
        r"got 'language' \(int64, .*nothing is known",
    ),
    "no embedding": (no_embedding, {}, ValueError, "takes token ids, 'ids'.*no embedding was found"),
    "no such tensor": (
        lambda p: ids_file(p)[1],
        {"cut": "/words/Gather_output"},
        ValueError,
        "expected cut to name an inner tensor of the file, such as .*/words/Gather_output_0.*got",
    ),
    "a tensor of no use": (plain, {"cut": "one", "output": "hidden"}, ValueError, "no output needs"),
    "a cut of two axes": (plain, {"cut": "y"}, ValueError, "its type and shape|with the axes"),
    "another layout": (
        lambda p: passed_on(p, ["B", "N", 8], node=helper.make_node("Transpose", ["x"], ["y"], perm=[2, 0, 1])),
        {},
        gh.OracleError,
        "expected answers of shape",
    ),
    "NaN": (
        lambda p: passed_on(p, ["B", "N", 8], node=helper.make_node("Log", ["x"], ["y"])),
        {},
        gh.OracleError,
        "expected finite answers",
    ),
    "wrong inside": (
        lambda p: passed_on(
            p,
            ["B", "N", "d"],
            node=helper.make_node("MatMul", ["x", "w"], ["y"]),
            tensors=[("w", np.eye(4, dtype=np.float32))],
        ),
        {"dim": 8},
        gh.OracleError,
        "the box raised .*is dim=8 right",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_be_asked_is_refused_with_a_sentence(case, file):
    made, kw, error, words = WRONG[case]
    with pytest.raises(error, match=words):
        gh.from_onnx(made(file), **kw)


def test_without_onnxruntime_the_extra_is_named(file, monkeypatch):
    head_file(file, HEAD)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(ImportError, match=r"needs onnxruntime, .*pip install 'glasshead\[onnx\]'"):
        gh.from_onnx(file)
