"""What a server of the Open Inference Protocol (KServe V2) says about a model, and whether it can be asked."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from .._errors import OracleError
from .transport import Reply, Transport
from .wire import BINARY_ONLY

FORM = "http://HOST:PORT/v2/models/NAME[/versions/VERSION]"
VECTORS = {"FP64": "float64", "FP32": "float32", "FP16": "float16", "BF16": "float32"}  # how numpy holds them
NARROW = {"float32": "FP32", "float16": "FP16"}
NAMELESS = "input-0"  # the input's name where the server names none
NOT_READY = 400, 503  # what servers answer where a model is still being loaded


@dataclass(frozen=True)
class Described:
    """A model as its server describes it: the one input, the output to read, and how both travel."""

    server: str
    input: str
    datatype: str
    dim: int
    alone: bool
    output: str | None
    binary: bool


def server_and_model(url: str) -> tuple[str, str]:
    """The address of the server and that of the model, of the model's own address."""
    found = re.fullmatch(r"(.+)/v2/models/[^/]+(/versions/[^/]+)?", url.removesuffix("/infer"))
    if not found:
        hint = "; /v1/ is another protocol, but most of its servers speak both" if "/v1/" in url else ""
        raise ValueError(f"expected the address of a model, {FORM}, got {url!r}{hint}")
    return found[1], found[0]


def described(
    transport: Transport, url: str, *, dim: int | None, output: str | None, binary: bool | str, dtype: DTypeLike
) -> Described:
    """What the server at `url` says, checked; `dim` and `dtype` are used where it does not say them."""
    root, model = server_and_model(url)
    about = transport.get(f"{root}/v2").json()
    about = about if isinstance(about, dict) else {}
    transport.get(f"{model}/ready", again=not_ready)
    reply = transport.get(model)
    said = reply.json()
    inputs, outputs = tensors_of(said, "inputs"), tensors_of(said, "outputs")
    if reply.status != 200 or inputs is None or outputs is None:
        raise transport.refused(reply, f"metadata of a model at {model}", f"see whether this is {FORM}")
    extends = "binary_tensor_data" in str(about.get("extensions"))
    name, datatype, size, alone = the_input(inputs, dim, dtype)
    if datatype in BINARY_ONLY and not (extends or binary is True):
        only = f"which travels only in binary, and {root}/v2 does not list binary_tensor_data"
        raise OracleError(f"expected an input of FP64 or FP32, got {datatype}, {only}; binary=True tries all the same")
    names = [str(one.get("name")) for one in outputs]
    return Described(
        server=" ".join(str(about.get(key) or "") for key in ("name", "version")).strip() or "a server without a name",
        input=name,
        datatype=datatype,
        dim=size,
        alone=alone,
        output=the_output(names, output),
        binary=extends if binary == "auto" else bool(binary),
    )


def tensors_of(said: Any, key: str) -> list[dict[str, Any]] | None:
    """What metadata list under a key, which may be nothing; None where these are no metadata."""
    listed = (said.get(key) or []) if isinstance(said, dict) else None
    return listed if isinstance(listed, list) and all(isinstance(one, dict) for one in listed) else None


def not_ready(reply: Reply) -> bool:
    said = reply.json()
    return reply.status in NOT_READY or (isinstance(said, dict) and said.get("ready") is False)


def the_input(inputs: list[dict[str, Any]], dim: int | None, dtype: DTypeLike) -> tuple[str, str, int, bool]:
    """Name and datatype of the one input, the dimension of its vectors, and whether it takes one sequence at a time."""
    if not inputs:
        if dim is None:
            raise ValueError("expected dim=, since the server does not say what the model's input is, got None")
        return NAMELESS, NARROW.get(np.dtype(dtype).name, "FP64"), dim, False
    listed = ", ".join(f"{one.get('name')} {one.get('datatype')} {one.get('shape')}" for one in inputs)
    name, datatype, shape = (inputs[0].get(key) for key in ("name", "datatype", "shape"))
    if str(datatype) not in VECTORS:
        needed = "needed is an endpoint that takes embedded tokens (inputs_embeds), FP64 or FP32 [-1, -1, d]"
        raise OracleError(f"expected an input of vectors, got {listed}: token ids or text are no vectors; {needed}")
    if len(inputs) > 1:
        raise OracleError(f"expected one input, got {listed}; serve the model with the others filled in")
    match shape:
        case [-1 | 1 as sequences, -1, int() as size] if size == -1 or size > 0:
            pass
        case _:
            raise OracleError(f"expected an input of shape [-1, -1, d], sequences of any length, got {listed}")
    if dim is not None and size not in (-1, dim):
        raise ValueError(f"expected dim={size}, as the server says ({listed}), got {dim}")
    if dim is None and size == -1:
        raise ValueError(f"expected dim=, since the server does not say it ({listed}), got None")
    return str(name), str(datatype), dim or size, sequences == 1


def the_output(outputs: list[str], chosen: str | None) -> str | None:
    """The name of the output to read, or None where there is only one, whatever its name."""
    if chosen is None and len(outputs) > 1:
        raise ValueError(f"expected output= to be one of {', '.join(outputs)}, got None")
    if chosen is not None and outputs and chosen not in outputs:
        raise ValueError(f"expected output= to be one of {', '.join(outputs)}, got {chosen!r}")
    return chosen
