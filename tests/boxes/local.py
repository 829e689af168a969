"""Boxes on this machine, for tests and benchmarks: a head in torch and in an ONNX file, and models of Hugging Face."""

from __future__ import annotations

import numpy as np
import onnx
import torch
import transformers
from onnx import TensorProto, helper, numpy_helper

KINDS = {"float64": TensorProto.DOUBLE, "float32": TensorProto.FLOAT, "float16": TensorProto.FLOAT16}


def tensors_of(head):
    """The same head, computed by torch."""
    W, v = torch.tensor(head.W), torch.tensor(head.v)
    return lambda T: torch.einsum("bn,bnd,d->b", torch.softmax(T @ W @ T[:, -1:].mT, dim=1)[..., 0], T, v)


def saved(path, nodes, inputs, outputs, tensors=()):
    """A file with these nodes; `inputs` and `outputs` are `(name, kind, shape)`."""
    values = [[helper.make_tensor_value_info(*one) for one in some] for some in (inputs, outputs)]
    weights = [numpy_helper.from_array(np.asarray(array), name) for name, array in tensors]
    graph = helper.make_graph(nodes, "box", *values, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, path)
    return path


def head_file(path, head, dtype="float64", axes=("B", "N"), more=(), rows=None):
    """A head, and beside its answer the hidden vector that it reads it from."""
    nodes = [
        helper.make_node("Gather", ["x", "last"], ["query"], axis=1),
        helper.make_node("MatMul", ["query", "Wt"], ["key"]),
        helper.make_node("Transpose", ["x"], ["turned"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["key", "turned"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["weights"], axis=2),
        helper.make_node("MatMul", ["weights", "x"], ["mean"]),
        helper.make_node("MatMul", ["mean", "v"], ["one"]),
        helper.make_node("Squeeze", ["one", "second"], ["y"]),
        helper.make_node("Squeeze", ["mean", "second"], ["hidden"]),
    ]
    numbers = [("Wt", head.W.T.astype(dtype)), ("v", head.v.astype(dtype))]
    tensors = [*numbers, ("last", np.array([-1])), ("second", np.array([1]))]
    kind, rows = KINDS[dtype], rows or axes[0]
    inputs = [("x", kind, [*axes, head.dim]), *more]
    return saved(path, nodes, inputs, [("y", kind, [rows]), ("hidden", kind, [rows, head.dim])], tensors)


def made(name, head="Model", layers=2, dtype=torch.float64, dim=16, heads=2, seed=7, **kw):
    """A small model of Hugging Face, `transformers.BertModel` for ("Bert", "Model"), with weights as they are drawn."""
    usual = {
        "hidden_size": dim,
        "num_attention_heads": heads,
        "intermediate_size": 2 * dim,
        "num_hidden_layers": layers,
    }
    own = {
        "GPT2": {"n_embd": dim, "n_head": heads, "n_layer": layers, "bos_token_id": 0, "eos_token_id": 0},
        "DistilBert": {"dim": dim, "n_heads": heads, "n_layers": layers, "hidden_dim": 2 * dim},
        "Bloom": {"hidden_size": dim, "n_head": heads, "n_layer": layers},
        "Albert": usual | {"embedding_size": 8},
        "OPT": usual | {"word_embed_proj_dim": dim},
    }
    sizes = own.get(name, usual)
    config = getattr(transformers, f"{name}Config")(vocab_size=40, initializer_range=0.2, **{**sizes, **kw})
    torch.manual_seed(seed)
    return getattr(transformers, name + head)(config).to(dtype).eval()


def in_float64(llama):
    """Norms and rotary positions of a LLaMA in float64, which transformers computes in float32."""
    for part in llama.modules():
        if hasattr(part, "variance_epsilon"):
            norm = torch.nn.RMSNorm(len(part.weight), part.variance_epsilon, dtype=torch.float64)
            norm.weight = part.weight
            part.forward = norm.forward
    width = llama.config.hidden_size // llama.config.num_attention_heads
    frequencies = 1e4 ** -(torch.arange(0, width, 2, dtype=torch.float64) / width)

    def turns(_, position_ids):
        angles = (position_ids[..., None] * frequencies).repeat(1, 1, 2)
        return angles.cos(), angles.sin()

    llama.base_model.rotary_emb.forward = turns
    return llama
