"""Tensors as the Open Inference Protocol (KServe V2) sends them: as JSON, flat or nested, and in binary behind it.

A message is a JSON object with a list of tensors in it, `inputs` of a request or `outputs` of a response. `packed` and
`unpacked` are each other's inverse, bit for bit, and know nothing of HTTP but the one header that the binary extension
needs; a client and a server use them alike.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from .._errors import OracleError

LENGTH_HEADER = "Inference-Header-Content-Length"
BF16 = "BF16"  # of which numpy knows nothing: the upper half of a float32
DATATYPES = {
    "FP64": np.dtype("<f8"),
    "FP32": np.dtype("<f4"),
    "FP16": np.dtype("<f2"),
    BF16: np.dtype("<f4"),
    "BOOL": np.dtype("?"),
    **{f"INT{bits}": np.dtype(f"<i{bits // 8}") for bits in (8, 16, 32, 64)},
    **{f"UINT{bits}": np.dtype(f"<u{bits // 8}") for bits in (8, 16, 32, 64)},
}
MOST_AXES = 32  # of an array of numpy
BINARY_ONLY = "FP16", BF16  # the protocol has no way to write them as JSON
PYTHON = {"f": {float, int}, "i": {int}, "u": {int}, "b": {bool}}  # what JSON may write for a kind of datatype


@dataclass(frozen=True)
class Tensor:
    """An array with a name and a datatype of the protocol; BF16 is held as float32."""

    name: str
    array: np.ndarray
    datatype: str


def packed(
    message: Mapping[str, Any], key: str, tensors: Sequence[Tensor], binary: bool
) -> tuple[bytes, dict[str, str]]:
    """The body of a message with `tensors` under `key`, and its headers; data are flat, or binary behind the JSON."""
    entries, data = [], []
    for tensor in tensors:
        entry: dict[str, Any] = {"name": tensor.name, "shape": list(tensor.array.shape), "datatype": tensor.datatype}
        if binary:
            data.append(to_bytes(tensor))
            entry["parameters"] = {"binary_data_size": len(data[-1])}
        elif tensor.datatype in BINARY_ONLY:
            raise ValueError(f"expected binary=True for {tensor.datatype}, which the protocol cannot write as JSON")
        else:
            entry["data"] = tensor.array.astype(DATATYPES[tensor.datatype], copy=False).ravel().tolist()
        entries.append(entry)
    head = json.dumps({**message, key: entries}, allow_nan=False).encode()
    if not binary:
        return head, {"Content-Type": "application/json"}
    return b"".join([head, *data]), {"Content-Type": "application/octet-stream", LENGTH_HEADER: str(len(head))}


def unpacked(body: bytes, headers: Mapping[str, str], key: str) -> tuple[dict[str, Any], list[Tensor]]:
    """The message in a body without what is under `key`, and that as tensors; `headers` by names in small letters.

    Whatever is not as the protocol has it, and a number that is none, is an `OracleError` that says so.
    """
    length = headers.get(LENGTH_HEADER.lower(), "")
    if length and not (re.fullmatch("[0-9]{1,15}", length) and int(length) <= len(body)):
        raise OracleError(
            f"expected {LENGTH_HEADER} to be a number up to {len(body)}, the size of the body, got {length[:50]!r}"
        )
    end = int(length) if length else len(body)
    try:
        message = json.loads(body[:end])
    except (ValueError, RecursionError) as error:
        raise OracleError(f"expected JSON, got {body[:200].decode('utf-8', 'replace')!r}: {error}") from None
    if not (isinstance(message, dict) and isinstance(message.get(key), list)):
        raise OracleError(f"expected a JSON object with a list of {key}, got {body[:200].decode('utf-8', 'replace')!r}")
    tensors = []
    for entry in message.pop(key):
        tensor, end = one_tensor(entry, body, end)
        tensors.append(tensor)
    if end != len(body):
        raise OracleError(f"expected {end} bytes with all tensors, got {len(body)}")
    return message, tensors


def one_tensor(entry: Any, body: bytes, start: int) -> tuple[Tensor, int]:
    """A tensor of a message, and where the binary data behind its own begin."""
    entry = entry if isinstance(entry, dict) else {}
    name, shape, datatype, extra = (entry.get(key) for key in ("name", "shape", "datatype", "parameters"))
    if not (isinstance(name, str) and is_shape(shape) and isinstance(datatype, str) and datatype in DATATYPES):
        words = f"a name, a shape and a datatype among {', '.join(DATATYPES)}"
        raise OracleError(f"expected a tensor with {words}, got {json.dumps(entry)[:200]}")
    size = extra.get("binary_data_size") if isinstance(extra, dict) else None
    if size is None:
        return Tensor(name, from_list(entry.get("data"), name, shape, datatype), datatype), start
    width = 2 if datatype == BF16 else DATATYPES[datatype].itemsize
    if type(size) is not int or size != math.prod(shape) * width or start + size > len(body):
        have = f"{size} announced and {len(body) - start} sent"
        raise OracleError(f"expected {math.prod(shape) * width} bytes of {datatype} {shape} for {name!r}, got {have}")
    return Tensor(name, from_bytes(body[start : start + size], datatype).reshape(shape), datatype), start + size


def is_shape(shape: Any) -> bool:
    """A list of whole numbers that an array may have."""
    whole = isinstance(shape, list) and all(type(n) is int and n >= 0 for n in shape)
    return whole and len(shape) <= MOST_AXES and math.prod(n or 1 for n in shape) < 2**60


def from_list(data: Any, name: str, shape: list[int], datatype: str) -> np.ndarray:
    """An array of the numbers of a JSON list, flat or nested; null, text, and lists of unequal lengths are refused."""
    if datatype in BINARY_ONLY:
        raise OracleError(
            f"expected {datatype} of {name!r} as binary data, got JSON, which the protocol has not for it"
        )
    data, lengths = flattened(data if isinstance(data, list) else [data])
    dtype = DATATYPES[datatype]
    if wrong := set(map(type, data)) - PYTHON[dtype.kind]:
        first = next(x for x in data if type(x) in wrong)
        raise OracleError(f"expected numbers of {datatype} in {name!r}, got {json.dumps(first)[:200]} among them")
    if lengths not in ([math.prod(shape)], shape):
        raise OracleError(f"expected data of {name!r} of shape {shape}, flat or nested, got {lengths}")
    try:
        with np.errstate(over="ignore"):  # what is too large is not finite then, which is checked where answers are
            return np.array(data, dtype).reshape(shape)
    except OverflowError as error:
        raise OracleError(f"expected numbers of {datatype} in {name!r}, got a larger one: {error}") from None


def flattened(data: list[Any]) -> tuple[list[Any], list[int]]:
    """What lists of lists hold, and their lengths; a list beside one of another length stays a list."""
    lengths = [len(data)]
    while (
        data and isinstance(data[0], list) and {len(x) if isinstance(x, list) else -1 for x in data} == {len(data[0])}
    ):
        lengths.append(len(data[0]))
        data = list(chain.from_iterable(data))
    return data, lengths


def to_bytes(tensor: Tensor) -> bytes:
    array = np.ascontiguousarray(tensor.array, DATATYPES[tensor.datatype])
    return upper_half(array).tobytes() if tensor.datatype == BF16 else array.tobytes()


def from_bytes(data: bytes, datatype: str) -> np.ndarray:
    if datatype == BF16:
        return (np.frombuffer(data, "<u2").astype("<u4") << 16).view("<f4")
    return np.frombuffer(data, DATATYPES[datatype])


def upper_half(array: np.ndarray) -> np.ndarray:
    """The bfloat16 next to each float32, to even where two are as near, as the upper 16 of its bits."""
    bits = array.view("<u4")
    rounded = ((bits + (((bits >> 16) & 1) + 0x7FFF)) >> 16).astype("<u2")
    return np.where(np.isfinite(array), rounded, (bits >> 16).astype("<u2"))
