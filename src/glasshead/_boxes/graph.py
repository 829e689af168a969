"""The graph in an ONNX file: where token ids become vectors, and the part of it behind any inner tensor."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any

from .base import needs

SHAPE_ONLY = "Shape", "Size"  # of a tensor, whatever is in it
KEPT_VALUES = "Cast", "Identity", "DequantizeLinear", "Transpose"  # a table of vectors may be stored behind these


def producers(graph: Any) -> dict[str, Any]:
    return {name: node for node in graph.node for name in node.output if name}


def used(node: Any) -> Iterator[str]:
    """The tensors a node reads, those of the graphs inside it (branches, loops) included."""
    yield from filter(None, node.input)
    for attribute in node.attribute:
        for graph in (*attribute.graphs, *([attribute.g] if attribute.HasField("g") else [])):
            for inner in graph.node:
                yield from used(inner)
            yield from (output.name for output in graph.output)


def embeddings(graph: Any) -> list[str]:
    """The tensors in which token ids have become vectors, rows of a table; that of the longest table comes first."""
    made = producers(graph)
    tables = {tensor.name: tensor.dims for tensor in graph.initializer if len(tensor.dims) == 2}
    ids = {value.name for value in graph.input} - {tensor.name for tensor in graph.initializer}
    found: dict[str, int] = {}
    for node in graph.node:
        table = stored(node.input[0], made) if node.op_type == "Gather" else ""
        if table in tables and depends(node.input[1], ids, made):
            found[node.output[0]] = tables[table][0]
    return sorted(found, key=lambda name: -found[name])


def stored(name: str, made: dict[str, Any]) -> str:
    """The tensor that this one holds in another format."""
    while name in made and made[name].op_type in KEPT_VALUES:
        name = made[name].input[0]
    return name


def depends(name: str, on: set[str], made: dict[str, Any]) -> bool:
    """Whether the values of a tensor, and not its shape alone, come from certain others."""
    to_see, seen = [name], set[str]()
    while to_see:
        if (name := to_see.pop()) in on:
            return True
        if name in seen or name not in made or made[name].op_type in SHAPE_ONLY:
            continue
        seen.add(name)
        to_see += used(made[name])
    return False


def cut_at(path: str, tensor: str, output: str | None = None) -> bytes:
    """The file, with an inner tensor as an input in the place of what it is computed from."""
    onnx = needs("onnx", "onnx")
    model = onnx.shape_inference.infer_shapes(onnx.load(path))
    graph = model.graph
    made = producers(graph)
    if tensor not in made:
        near = embeddings(graph)[:1] + get_close_matches(tensor, made, n=3)
        raise ValueError(f"expected cut to name an inner tensor of the file, such as {near}; got {tensor!r}")
    known = next((value for value in graph.value_info if value.name == tensor), None)
    if known is None or not known.type.tensor_type.HasField("shape"):
        words = "its type and shape do not follow from the file"
        raise ValueError(f"expected cut to name a tensor of vectors, (batch, tokens, d); of {tensor!r} {words}")
    wanted = [value for value in graph.output if output in (None, value.name)]
    if not wanted:
        names = [value.name for value in graph.output]
        raise ValueError(f"expected output to name one of the file's, {names}; got {output!r}")
    kept, to_see = set[str](), [value.name for value in wanted]
    while to_see:
        if (name := to_see.pop()) in kept:
            continue
        kept.add(name)
        to_see += used(made[name]) if name in made and name != tensor else []
    if tensor not in kept:
        raise ValueError(f"expected cut to name a tensor that answers come from, got {tensor!r}, which no output needs")
    nodes = [node for node in graph.node if kept.intersection(node.output) and tensor not in node.output]
    part = onnx.helper.make_graph(
        nodes,
        graph.name or "graph",
        [known, *(value for value in graph.input if value.name in kept)],
        wanted,
        [value for value in graph.initializer if value.name in kept],
    )
    cut = onnx.helper.make_model(part, opset_imports=model.opset_import, functions=model.functions)
    cut.ir_version = model.ir_version
    return cut.SerializeToString()
