"""`gh.from_completions`: a language model that takes vectors as prompts (vLLM), as an oracle for logits of its next
token."""

from __future__ import annotations

import base64
import io
import json
import re
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from .._errors import OracleError
from .._oracles import ROUNDOFF, SINGLE, Oracle
from .._types import no_type_check
from .._validate import positive, whole
from .address import checked_url
from .base import LOOK_TOKENS, check_box, needs
from .logprobs import NEEDED_SERVER, are_logits, token_numbers
from .parts import Parts, wants_fewer
from .transport import ATTEMPTS, TIMEOUT, Reply, Transport

PROMPTS_AT_ONCE = 256  # prompts in a request; vLLM takes up to 1024, and is not quicker with more than these
CHECKED_TOKENS = 64  # tokens of the sequences with which a recovery is checked
# Of log-probabilities in a difference of two: each is a difference itself, rounded before and after.
DIFFERENCE_ROUNDINGS = 4

# A sampler that changes no number, whatever the server or the model's folder have as defaults.
UNCHANGED = {
    "temperature": 1.0,
    "top_p": 1.0,
    "top_k": -1,
    "min_p": 0.0,
    "repetition_penalty": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
}

# What a server says against a request, and what to do about it; the first that fits.
HINTS = (
    (r"enable.prompt.embeds", "start the server with --enable-prompt-embeds"),
    (r"hidden.?size", "give the model's as dim="),
    (r"logprob_token_ids.*(greater|max)", "give logprobs=-1 to read all tokens, or fewer token_ids"),
    (r"logprobs.*(greater|max|between|less)", "start the server with --max-logprobs -1"),
    (r"context length|max_model_len|too long", "start the server with a larger --max-model-len"),
    (r"out of range float|\bnan\b|not json compliant", "if its numbers overflow, give max_norm="),
    (r"model .*(not exist|not found|unknown)", "see which models the server has at /v1/models"),
    (r"prompt|token.?ids", f"glasshead asks with vectors, not with text or token ids: needed is {NEEDED_SERVER}"),
)


@no_type_check
def from_completions(
    url: str,
    model: str,
    token_ids: Sequence[int],
    *,
    dim: int | None = None,
    dtype: str = "float32",
    logprobs: int | None = None,
    token: str | None = None,
    answers: str = "value",
    max_norm: float | None = None,
    batch: int = PROMPTS_AT_ONCE,
    timeout: float = TIMEOUT,
    attempts: int = ATTEMPTS,
    **promise: Any,
) -> Oracle:
    """An oracle on a language model behind a completions endpoint that takes vectors as prompts: the logits of
    `token_ids`, as the next token after a sequence of vectors of length `dim`.

    >>> oracle = gh.from_completions("http://localhost:8000/v1", "llama", range(128), dim=64)
    >>> oracle(np.ones((2, 5, 64))).shape
    (2, 127)

    The server is a vLLM that was started with `--enable-prompt-embeds`. With `--logprobs-mode raw_logits` an answer has
    one number for each token; else the server gives log-probabilities, and an answer has what each logit is above the
    first one's, k = len(token_ids) - 1 numbers; where these are float32, a `tolerance` for their rounding is promised
    unless one is given. Vectors are sent as `dtype`, which is to be the model's, and whether
    they are rounded to less inside is looked at. `logprobs=None` asks for exactly `token_ids`; a server that does not
    know `logprob_token_ids` is asked for the `logprobs` most probable ones, -1 for all. Requests have up to `batch`
    prompts; one that fails is sent up to `attempts` times, all counted. `token` is a bearer token, by default the
    environment's GLASSHEAD_TOKEN. `promise` are the keywords of `gh.ValueOracle`, or with `answers="sign"` of
    `gh.SignOracle`. `oracle.notes` says what was found out.
    """
    wanted = checked_tokens(token_ids)
    if dim is None:
        raise ValueError("expected dim=, the length of the model's vectors (hidden_size): the server does not say it")
    dim, batch = whole(dim, "dim", least=1), whole(batch, "batch", least=1)
    if dtype not in ROUNDOFF:
        raise ValueError(f"expected dtype to be one of {', '.join(ROUNDOFF)}, got {dtype!r}")
    if logprobs is not None:
        whole(logprobs, "logprobs", least=-1)
    base = re.sub(r"(/v1)?(/completions)?$", "/v1", checked_url(url))
    transport = Transport(base, token=token, timeout=timeout, attempts=whole(attempts, "attempts", least=1))
    box = Completions(transport, base, model, wanted, dtype, logprobs, batch)
    longest = np.inf if max_norm is None else positive(max_norm, "max_norm")
    with transport.token_hidden():
        notes = [*box.find_model(), *box.find_numbers(dim, longest)]
    promise = ({"tolerance": box.tolerance} if answers == "value" else {}) | promise
    kw = {"max_norm": max_norm, "dtype": "float32" if dtype == "bfloat16" else dtype, **promise}
    return check_box(box, dim, answers=answers, notes=notes, rounds=box.roundoff, asked=box.asked, **kw)


def checked_tokens(token_ids: Sequence[int]) -> list[int]:
    wanted = [whole(token, "each of token_ids", least=0) for token in token_ids]
    if not wanted or len(set(wanted)) < len(wanted):
        raise ValueError(f"expected token_ids to be different tokens of the vocabulary, got {wanted}")
    return wanted


class Completions:
    """Sends a batch of vectors as prompts of one new token, and reads the numbers of the wanted tokens."""

    def __init__(
        self,
        transport: Transport,
        base: str,
        model: str,
        wanted: list[int],
        dtype: str,
        logprobs: int | None,
        batch: int,
    ):
        self.torch = needs("torch", "torch")
        self.batch, self._parts = batch, Parts(batch)
        self.logits, self.roundoff, self.tolerance, self.asked = False, ROUNDOFF[dtype], 0.0, 0
        self._transport, self._base, self._model, self._wanted, self._dtype = transport, base, model, wanted, dtype
        asks = {"logprobs": len(wanted), "logprob_token_ids": wanted} if logprobs is None else {"logprobs": logprobs}
        self._request = {"model": model, "max_tokens": 1, "return_tokens_as_token_ids": True, **asks, **UNCHANGED}

    @property
    def resent(self) -> int:
        return self._transport.resent + self._parts.refused

    def __call__(self, X: np.ndarray) -> np.ndarray:
        with self._transport.token_hidden():
            numbers = self.read_raw(X)
        if not self.logits:
            numbers = numbers[:, 1:] - numbers[:, :1]
        return numbers[:, 0] if numbers.shape[1] == 1 else numbers

    def read_raw(self, X: np.ndarray) -> np.ndarray:
        """The numbers as the server gives them, (B, len(token_ids))."""
        return self._parts.ask(X, self._ask)

    def _ask(self, X: np.ndarray) -> np.ndarray | None:
        """The numbers of one request, or None where it has too many prompts."""
        body = json.dumps({**self._request, "prompt_embeds": [self._encoded(x) for x in X]}).encode()
        headers = {"Content-Type": "application/json"}
        reply = self._transport.post(f"{self._base}/completions", body, headers, len(X))
        if len(X) > 1 and wants_fewer(reply):
            return None
        if reply.status != 200:
            what = f"the next token after {len(X)} prompts of {X.shape[1]} vectors in dimension {X.shape[2]}"
            raise self._transport.refused(reply, what, hint(reply))
        return token_numbers(reply.json(), len(X), self._wanted)

    def _encoded(self, x: np.ndarray) -> str:
        file = io.BytesIO()
        self.torch.save(self.torch.tensor(x, dtype=getattr(self.torch, self._dtype)), file)
        return base64.b64encode(file.getvalue()).decode()

    def find_model(self) -> list[str]:
        """What the server says of its models, where it does: no query."""
        listed: Any = self._transport.get(f"{self._base}/models").json()
        data: Any = cast("dict[str, Any]", listed).get("data") if isinstance(listed, dict) else None
        models = cast("list[Any]", data if isinstance(data, list) else [None])
        if not all(isinstance(one, dict) and "id" in one for one in models):
            return [f"{self._model} at {self._base}"]
        found = [one for one in models if one["id"] == self._model]
        if not found:
            names = ", ".join(repr(one["id"]) for one in models)
            raise ValueError(f"expected model to be one that {self._base} has, {names}, got {self._model!r}")
        most = found[0].get("max_model_len")
        if isinstance(most, int) and most <= CHECKED_TOKENS:
            words = f"expected a model for {CHECKED_TOKENS} tokens and one more, with which a recovery is checked"
            raise OracleError(f"{words}, got {most}; start the server with a larger --max-model-len")
        return [f"{self._model} at {self._base}" + (f", up to {most - 1} tokens" if isinstance(most, int) else "")]

    def find_numbers(self, dim: int, longest: float) -> list[str]:
        """Two sequences, and one of them rounded to each narrower format: do vectors matter, are the numbers logits,
        and how coarsely are vectors rounded inside?"""
        narrower = [name for name in ROUNDOFF if ROUNDOFF[name] > ROUNDOFF[self._dtype]]
        drawn = np.random.default_rng(0).standard_normal((2, LOOK_TOKENS, dim))
        X = drawn * min(1.0, longest / float(np.linalg.norm(drawn, axis=2).max()))
        sent = np.stack([*X, *(self._rounded(X[0], name) for name in narrower)])
        numbers = self.read_raw(sent)
        self.asked = len(sent) + self.resent
        if (numbers[0] == numbers[1]).all():
            words = "expected answers that depend on the vectors, got the same numbers for two of them"
            raise OracleError(f"{words}; it may overlook prompt_embeds: needed is {NEEDED_SERVER}")
        self.logits = are_logits(numbers)
        if not self.logits and len(self._wanted) < 2:
            words = "expected at least two token_ids, since differences of log-probabilities are read, got one"
            raise ValueError(f"{words}; or start the server with --logprobs-mode raw_logits")
        alike = [name for name, row in zip(narrower, numbers[2:], strict=True) if (row == numbers[0]).all()]
        coarsest = max(alike, key=ROUNDOFF.__getitem__, default=self._dtype)
        self.roundoff = ROUNDOFF[coarsest]
        if not self.logits and (numbers == numbers.astype(np.float32)).all():
            self.tolerance = DIFFERENCE_ROUNDINGS * SINGLE * float(np.abs(numbers).max())
        above = f"what logits are above that of token {self._wanted[0]}, from log-probabilities"
        rounded = f" of float32, which are known to {self.tolerance:.1g}" if self.tolerance else ""
        inside = f", and rounded to {coarsest} inside" if alike else ""
        kind = "logits" if self.logits else above + rounded
        return [f"answers are {kind}", f"vectors are sent as {self._dtype}{inside}"]

    def _rounded(self, x: np.ndarray, dtype: str) -> np.ndarray:
        return self.torch.tensor(x).to(getattr(self.torch, self._dtype)).to(getattr(self.torch, dtype)).double().numpy()

    def __repr__(self) -> str:
        return f"Completions({self._base!r}, {self._model!r}, {len(self._wanted)} tokens)"


def hint(reply: Reply) -> str:
    said = reply.said.lower()
    return next((hint for words, hint in HINTS if re.search(words, said)), "see what the server's log says")
