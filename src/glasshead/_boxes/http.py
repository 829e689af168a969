"""`gh.from_http`: a model behind an endpoint of the Open Inference Protocol (KServe V2), as an oracle."""

from __future__ import annotations

import re
from typing import Any
from uuid import uuid4

import numpy as np

from .._errors import OracleError
from .._oracles import ROUNDOFF, Oracle
from .._validate import whole
from .base import opened
from .metadata import VECTORS, Described, described, parts_of
from .transport import ATTEMPTS, TIMEOUT, Reply, Transport, busy
from .wire import BF16, Tensor, packed, unpacked

BATCH = 1024  # sequences in a request, unless the server wants fewer
GROW_AFTER = 32  # requests in a row that fit, until twice as many sequences are tried again; after a vain try, twice 32
TOO_LARGE = re.compile(
    r"batch.?size must be|too large|max(imum)? (allowed )?(request|batch|body|payload|message)|exceed"
)


def from_http(
    url: str,
    *,
    token: str | None = None,
    answers: str = "value",
    dim: int | None = None,
    output: str | None = None,
    place: int = -1,
    batch: int = BATCH,
    binary: bool | str = "auto",
    timeout: float = TIMEOUT,
    attempts: int = ATTEMPTS,
    **promise: Any,
) -> Oracle:
    """An oracle on a model that a server of the Open Inference Protocol (KServe V2: Triton, MLServer, KServe) serves.

    >>> oracle = gh.from_http("http://localhost:8000/v2/models/head")
    >>> found = gh.recover(oracle)

    The model takes vectors, one input of FP64, FP32, FP16 or BF16 [-1, -1, d], and gives one number for each sequence,
    or several; of an output with one row for each token, the row at `place` is read, and `output` names the one of
    several outputs. Requests hold up to `batch` sequences, fewer where the server refuses as many, and travel in binary
    where it says that it can (`binary="auto"`). A request that fails is sent up to `attempts` times, all counted.
    `token` is a bearer token, by default the environment's GLASSHEAD_TOKEN. `promise` are the keywords of
    `gh.ValueOracle`, or with `answers="sign"` of `gh.SignOracle`.
    """
    whole(batch, "batch", 1)
    whole(attempts, "attempts", 1)
    _, model = parts_of(url)
    transport = Transport(model, token=token, timeout=timeout, attempts=attempts)
    with transport.token_hidden():
        about = described(
            transport, model, dim=dim, output=output, binary=binary, dtype=promise.get("dtype", "float64")
        )
    wire = VECTORS[about.datatype]
    if np.dtype(promise.setdefault("dtype", wire)).itemsize > np.dtype(wire).itemsize:
        raise ValueError(f"expected dtype={wire!r}, since the model takes {about.datatype}, got {promise['dtype']!r}")
    how = f"{about.datatype} {'in binary' if about.binary else 'as JSON'}"
    notes = [f"{model.rpartition('/v2/models/')[2]} of {about.server}, asked with {how}"]
    box = Endpoint(transport, f"{model}/infer", about, batch, place)
    oracle = opened(box, about.dim, answers=answers, notes=notes, **promise)
    if about.datatype == BF16:
        oracle.rounds_tokens(ROUNDOFF["bfloat16"])
    return oracle


class Endpoint:
    """Sends a batch to a server, in as many requests as it wants, and reads the answers."""

    def __init__(self, transport: Transport, url: str, about: Described, batch: int, place: int):
        self.batch = batch
        self._transport, self._url, self._about, self._place = transport, url, about, place
        self._size = 1 if about.alone else batch
        self._most = self._size
        self._fitted, self._patience, self._trying = 0, GROW_AFTER, False
        self._refused = 0

    @property
    def resent(self) -> int:
        return self._transport.resent + self._refused

    def __call__(self, X: np.ndarray) -> np.ndarray:
        parts, start = [], 0
        while start < len(X):
            part = X[start : start + self._size]
            with self._transport.token_hidden():
                reply, asked = self._send(part)
                if wants_fewer(reply) and len(part) > 1:
                    self._shrink(len(part))
                    continue
                parts.append(self._read(reply, asked, part))
            start += len(part)
            self._grow(len(part))
        return np.concatenate(parts)

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
            raise self._transport.refused(reply, what, "see what the server's log says")
        message, tensors = unpacked(reply.body, reply.headers, "outputs")
        if (message.get("id") or asked) != asked:
            raise OracleError(
                f"expected the answer with id {asked!r}, got one with {message['id']!r}: not to this request"
            )
        named = [tensor.array for tensor in tensors if self._about.output in (None, tensor.name)]
        if len(named) != 1:
            names = ", ".join(tensor.name for tensor in tensors) or "none"
            raise OracleError(f"expected {self._about.output or 'one output'}, got {names}; choose one with output=")
        answers = named[0][:, self._place] if named[0].ndim == 3 else named[0]
        if answers.ndim not in (1, 2) or len(answers) != len(X):
            raise OracleError(f"expected an answer for each of {len(X)} sequences, got shape {named[0].shape}", X[0])
        return answers[:, 0] if answers.shape[1:] == (1,) else answers

    def _shrink(self, refused: int) -> None:
        self._refused += refused
        self._size, self._fitted = refused // 2, 0
        if self._trying:
            self._patience, self._trying = 2 * self._patience, False

    def _grow(self, fitted: int) -> None:
        if fitted < self._size:
            return
        self._fitted += 1
        if self._trying:
            self._patience, self._trying = GROW_AFTER, False
        if self._fitted >= self._patience and self._size < self._most:
            self._size, self._fitted, self._trying = min(2 * self._size, self._most), 0, True

    def __repr__(self) -> str:
        return f"Endpoint({self._url!r}, {self._about.datatype}, batch={self.batch})"


def wants_fewer(reply: Reply) -> bool:
    """Does the server want fewer sequences in a request? Triton says so with 400 and words."""
    return reply.status == 413 or (reply.status in (400, 500) and TOO_LARGE.search(reply.said.lower()) is not None)


def restarting(reply: Reply) -> bool:
    """May the model, which was there, be back soon?"""
    return busy(reply) or reply.status == 404 or (reply.status == 400 and "not ready" in reply.said.lower())
