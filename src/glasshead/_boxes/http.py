"""`gh.from_http`: a model behind an endpoint of the Open Inference Protocol (KServe V2), as an oracle."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import numpy as np

from .._errors import OracleError
from .._oracles import ROUNDOFF, Oracle
from .._types import no_type_check
from .._validate import whole
from .address import checked_url
from .base import check_box
from .layout import Layout, checked_place
from .metadata import VECTORS, Described, described, server_and_model
from .parts import Parts, wants_fewer
from .transport import ATTEMPTS, TIMEOUT, Reply, Transport, busy
from .wire import BF16, Tensor, packed, unpacked

REQUEST_SEQUENCES = 1024  # sequences in a request, unless the server wants fewer


@no_type_check
def from_http(
    url: str,
    *,
    token: str | None = None,
    answers: str = "value",
    dim: int | None = None,
    output: str | None = None,
    place: int = -1,
    batch: int = REQUEST_SEQUENCES,
    binary: bool | str = "auto",
    timeout: float = TIMEOUT,
    attempts: int = ATTEMPTS,
    **promise: Any,
) -> Oracle:
    """An oracle on a model that a server of the Open Inference Protocol (KServe V2: Triton, MLServer, KServe) serves.

    >>> oracle = gh.from_http("http://localhost:8000/v2/models/head")
    >>> found = gh.recover(oracle)

    The model takes vectors, one input of FP64, FP32, FP16 or BF16 [-1, -1, d], and gives one number for each sequence,
    or several, or one row for each token. The last row of a sequence, its query token, is put at `place`, -1 for the
    last or 0 for the first, and answered there; `output` names the one of several outputs. Requests hold up to `batch`
    sequences, fewer where the server refuses as many, and travel in binary where it says that it can (`binary="auto"`).
    A request that fails is sent up to `attempts` times, all counted. `token` is a bearer token, by default the
    environment's GLASSHEAD_TOKEN. `promise` are the keywords of `gh.ValueOracle`, or with `answers="sign"` of
    `gh.SignOracle`.
    """
    for value, name in ((batch, "batch"), (attempts, "attempts")):
        whole(value, name, least=1)
    layout = Layout(place=checked_place(place))
    if binary not in (True, False, "auto"):
        raise ValueError(f'expected binary to be True, False or "auto", got {binary!r}')
    _, model = server_and_model(checked_url(url))
    transport = Transport(model, token=token, timeout=timeout, attempts=attempts)
    with transport.token_hidden():
        about = described(
            transport, model, dim=dim, output=output, binary=binary, dtype=promise.get("dtype", "float64")
        )
    wire = VECTORS[about.datatype]
    if np.dtype(promise.setdefault("dtype", wire)).itemsize > np.dtype(wire).itemsize:
        raise ValueError(f"expected dtype={wire!r}, since the model takes {about.datatype}, got {promise['dtype']!r}")
    how = f"{about.datatype} {'in binary' if about.binary else 'as JSON'}"
    notes = [f"{model.rpartition('/v2/models/')[2]} of {about.server}, asked with {how}", *layout.notes]
    box = Endpoint(transport, f"{model}/infer", about, batch, layout)
    rounds = ROUNDOFF["bfloat16"] if about.datatype == BF16 else 0.0
    return check_box(box, about.dim, answers=answers, notes=notes, rounds=rounds, **promise)


class Endpoint:
    """Sends a batch to a server, in as many requests as it wants, and reads the answers."""

    def __init__(self, transport: Transport, url: str, about: Described, batch: int, layout: Layout):
        self.batch = batch
        self._transport, self._url, self._about, self._layout = transport, url, about, layout
        self._parts = Parts(1 if about.alone else batch)

    @property
    def resent(self) -> int:
        return self._transport.resent + self._parts.refused

    def __call__(self, X: np.ndarray) -> np.ndarray:
        with self._transport.token_hidden():
            return self._parts.ask(self._layout.sent(X), self._ask)

    def _ask(self, X: np.ndarray) -> np.ndarray | None:
        """The answers to a request, or None where it is too large."""
        reply, asked = self._send(X)
        return None if len(X) > 1 and wants_fewer(reply) else self._read(reply, asked, X)

    def _send(self, X: np.ndarray) -> tuple[Reply, str]:
        """The reply to a request, and the id that it must have."""
        about, asked = self._about, uuid4().hex
        message: dict[str, Any] = {"id": asked}
        if about.binary:
            message["parameters"] = {"binary_data_output": True}
        if about.output is not None:
            message["outputs"] = [{"name": about.output}]
        body, headers = packed(message, "inputs", [Tensor(about.input, X, about.datatype)], about.binary)
        return self._transport.post(self._url, body, headers, len(X), again=restarting), asked

    def _read(self, reply: Reply, asked: str, X: np.ndarray) -> np.ndarray:
        if reply.status != 200:
            what = f"answers to {len(X)} sequences of {X.shape[1]} tokens from {self._url}"
            hint = "see what the server's log says" + (", or try binary=False" if self._about.binary else "")
            raise self._transport.refused(reply, what, hint)
        message, tensors = unpacked(reply.body, reply.headers, "outputs")
        if (message.get("id") or asked) != asked:
            raise OracleError(
                f"expected the answer with id {asked!r}, got one with {message['id']!r}: not to this request"
            )
        named = [tensor.array for tensor in tensors if self._about.output in (None, tensor.name)]
        if len(named) != 1:
            names = ", ".join(tensor.name for tensor in tensors) or "none"
            raise OracleError(f"expected {self._about.output or 'one output'}, got {names}; choose one with output=")
        answers = self._layout.read(named[0])
        if answers.ndim not in (1, 2) or len(answers) != len(X):
            raise OracleError(f"expected an answer for each of {len(X)} sequences, got shape {named[0].shape}", X[0])
        return answers[:, 0] if answers.shape[1:] == (1,) else answers

    def __repr__(self) -> str:
        return f"Endpoint({self._url!r}, {self._about.datatype}, batch={self.batch})"


def restarting(reply: Reply) -> bool:
    """May the model, which was there, be back soon?"""
    return busy(reply) or reply.status == 404 or (reply.status == 400 and "not ready" in reply.said.lower())
