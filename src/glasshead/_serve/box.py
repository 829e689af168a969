"""A model as it is served: behind its defences, described as the protocol has it, and asked with one request."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from .. import defences
from .._boxes import VECTORS, Tensor, packed, unpacked
from .._errors import OracleError
from .._oracles import ROUNDOFF
from .._version import __version__
from .settings import Settings

INPUT, OUTPUT, MODEL_VERSION = "tokens", "answers", "1"
BINARY, CONFIGURATION = "binary_tensor_data", "model_configuration"  # names of extensions of the protocol
NOT_HERE = "classification", "shared_memory_region"  # what outputs may be asked for by extensions that are not served


class Refusal(Exception):
    """A request that is not answered: the status, and in words why; `retry` says in how many seconds it may be."""

    def __init__(self, status: int, why: str, retry: int | None = None):
        super().__init__(why)
        self.status, self.retry = status, retry


class BoxRequest(NamedTuple):
    """A request that can be answered: its id if it has one, the sequences, the unit roundoff of the numbers that they
    were sent as, and whether answers go back in binary."""

    id: str | None
    X: np.ndarray
    roundoff: float
    binary: bool


class ServedBox:
    """A model with the answers that its `settings` say, and the words of the protocol for both."""

    def __init__(self, model: Any, settings: Settings):
        self.settings, self.dim = settings, int(model.dim)
        self._model, self._answer = model, defended(model, settings)
        try:
            first = np.asarray(self._answer(np.zeros((1, 1, self.dim))))
        except ValueError as error:
            raise ValueError(f"expected a model that answers by itself, got {model}: {error}") from error
        self.outputs = first.shape[1:]
        if settings.answers == "sign" and self.outputs:
            raise ValueError(
                f"expected answers='value' for a model of {self.outputs[0]} numbers per answer, got 'sign'"
            )

    def about(self) -> dict[str, Any]:
        return {"name": "glasshead", "version": __version__, "extensions": [BINARY, CONFIGURATION]}

    def metadata(self) -> dict[str, Any]:
        """What the model takes and gives; the sizes -1 are free."""
        kind = "BOOL" if self.settings.answers == "sign" else "FP64"
        return {
            "name": self.settings.name,
            "versions": [MODEL_VERSION],
            "platform": "glasshead",
            "inputs": [{"name": INPUT, "datatype": "FP64", "shape": [-1, -1, self.dim]}],
            "outputs": [{"name": OUTPUT, "datatype": kind, "shape": [-1, *self.outputs]}],
        }

    def configuration(self) -> dict[str, Any]:
        """What `metadata` says, as Triton says it, for clients that look there: a batch is of sequences, and sizes are
        of one."""
        about = self.metadata()
        parts = {kind: [one_of_a_batch(tensor) for tensor in about[f"{kind}s"]] for kind in ("input", "output")}
        return {
            "name": about["name"],
            "platform": about["platform"],
            "backend": "",
            "max_batch_size": self.settings.max_batch,
            **parts,
        }

    def read(self, body: bytes, headers: Mapping[str, str]) -> BoxRequest:
        """The sequences in a request, checked; a `Refusal` says what is wrong with it."""
        try:
            message, tensors = unpacked(body, headers, "inputs")
        except (OracleError, RecursionError) as error:
            raise Refusal(400, str(error)) from None
        asked, parameters = message.get("id"), parameters_of(message)
        if asked is not None and not isinstance(asked, str):
            raise Refusal(400, f"expected id to be a string, got a {type(asked).__name__}")
        binary = wants_binary(message.get("outputs"), parameters.get("binary_data_output", False))
        if [tensor.name for tensor in tensors] != [INPUT]:
            raise Refusal(400, f"expected one input, {INPUT!r}, got {[tensor.name[:50] for tensor in tensors][:5]}")
        kind = tensors[0].datatype
        sent = ROUNDOFF["bfloat16" if kind == "BF16" else VECTORS.get(kind, "float64")]
        return BoxRequest(asked, self._sequences(tensors[0]), sent, binary)

    def _sequences(self, tensor: Tensor) -> np.ndarray:
        shape, settings = tensor.array.shape, self.settings
        if tensor.datatype not in VECTORS:
            raise Refusal(400, f"expected {INPUT} of {', '.join(VECTORS)}, got {tensor.datatype}")
        if len(shape) != 3 or shape[2] != self.dim or 0 in shape:
            words = f"[B, N, {self.dim}] with at least one sequence of one token"
            raise Refusal(400, f"expected {INPUT} of shape {words}, got {list(shape)}")
        for have, most, what in (
            (shape[0], settings.max_batch, "sequences"),
            (shape[1], settings.max_tokens, "tokens"),
        ):
            if have > most:
                raise Refusal(413, f"expected at most {most} {what} in a request's batch, got {have}")
        if not np.isfinite(tensor.array).all():
            raise Refusal(400, f"expected {INPUT} to be finite numbers, got NaN, an infinity, or a number too large")
        return tensor.array.astype(np.float64)

    def answered(self, asked: BoxRequest) -> tuple[bytes, dict[str, str]]:
        """The body of the answers, and its headers."""
        with np.errstate(all="ignore"):  # of numbers too large for the model, which is said next
            answers = np.asarray(self._answer(asked.X))
        finite = np.isfinite(answers).reshape(len(answers), -1).all(axis=1)
        if not finite.all():
            raise Refusal(400, f"expected tokens that the model has an answer to, sequence {finite.argmin()} overflows")
        kind = "FP64"
        if self.settings.answers == "sign":
            answers, kind = answers > 0, "BOOL"
        message = {"model_name": self.settings.name, "model_version": MODEL_VERSION}
        if asked.id is not None:
            message["id"] = asked.id
        return packed(message, "outputs", [Tensor(OUTPUT, answers, kind)], asked.binary)


def one_of_a_batch(tensor: Mapping[str, Any]) -> dict[str, Any]:
    """A tensor of the metadata as Triton's configuration has it: a single number is a list of one, reshaped to none."""
    sizes = tensor["shape"][1:]
    found = {"name": tensor["name"], "data_type": f"TYPE_{tensor['datatype']}", "dims": sizes or [1]}
    return found if sizes else found | {"reshape": {"shape": []}}


def defended(model: Any, settings: Settings) -> Callable[[np.ndarray], Any]:
    """The model with its tokens clipped, then its answers made noisy, then rounded, as far as `settings` say so."""
    box = model
    if settings.max_norm is not None:
        box = defences.clipped(box, settings.max_norm)
    if settings.noise is not None:
        box = defences.noisy(box, settings.noise, settings.seed)
    return box if settings.decimals is None else defences.rounded(box, settings.decimals)


def parameters_of(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    parameters = entry.get("parameters") or {}
    if not isinstance(parameters, dict):
        raise Refusal(400, f"expected parameters to be an object, got a {type(parameters).__name__}")
    return parameters


def wants_binary(outputs: Any, everywhere: Any) -> bool:
    """How the answers are to travel: the output may say so for itself, else the request does."""
    outputs = [] if outputs is None else outputs
    if not (isinstance(outputs, list) and all(isinstance(one, dict) for one in outputs)):
        raise Refusal(400, "expected outputs to be a list of objects with a name")
    if any(one.get("name") != OUTPUT for one in outputs) or len(outputs) > 1:
        raise Refusal(400, f"expected the output {OUTPUT!r}, of which there is one, got another or more")
    parameters = parameters_of(outputs[0]) if outputs else {}
    for name in NOT_HERE:
        if name in parameters:
            raise Refusal(
                400, f"expected answers to be asked for as they are, got {name}, which this server does not do"
            )
    wanted = parameters.get("binary_data", everywhere)
    if not isinstance(wanted, bool):
        raise Refusal(400, f"expected binary_data and binary_data_output to be true or false, got {wanted!r}"[:200])
    return wanted
