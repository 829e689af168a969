"""HTTP for every box that is an endpoint: one connection that is kept, failures that are tried again and counted, and
one sentence where that does not help. A bearer token is sent, and shown nowhere.

httpx2 it is: the maintained successor of httpx, typed, with time-outs on by default and certificates always verified.
"""

from __future__ import annotations

import json
import random
import re
import weakref
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from time import monotonic, sleep
from typing import Any, ClassVar
from urllib.parse import urlsplit

from .._errors import OracleError
from .._types import no_type_check
from .._validate import positive
from .address import checked_token, is_loopback
from .base import CONNECT, GOES_ON, needs, quoted

ATTEMPTS = 10  # failures in a row before a box is given up: half a minute of waiting in between
FIRST_ATTEMPTS = 3  # the same, as long as nobody was ever reached: the address may be wrong
FIRST_WAIT, LONGEST_WAIT = 0.1, 30.0  # seconds; twice as long after every failure
MOST_ASKED = 120.0  # seconds: a server that asks for a longer pause is given up for now
TIMEOUT = 60.0  # seconds for an answer
LATER = f"try again later: {GOES_ON}"
ADDRESS = "see whether the server is up and the address is right"
JITTER = random.SystemRandom()  # not the generator that a user may have seeded
BUSY = 408, 425, 429, 502, 503, 504  # answers that may be others the next time


@dataclass(frozen=True)
class Reply:
    """What a server answered; `headers` by their names in small letters."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    reached: ClassVar = True
    stays: ClassVar = False
    hint: ClassVar = LATER

    def json(self) -> Any:
        """The body as JSON, or None where it is none."""
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            return None

    @property
    def said(self) -> str:
        """The error as servers put it (`{"error": ..}`, `{"detail": ..}`), or how the body begins."""
        said = self.json()
        for key in ("error", "detail", "message"):
            if isinstance(said, dict) and said.get(key):
                said = said[key]
        if not isinstance(said, str):
            said = self.body.decode("utf-8", "replace")
        return quoted(said)

    @property
    def pause(self) -> float:
        """Seconds that the server asks to wait, given as such or as a date by its own clock; 0 where it asks none."""
        asked = self.headers.get("retry-after", "").strip()
        if re.fullmatch(r"\d+(\.\d*)?", asked):
            return float(asked)
        try:
            until = parsedate_to_datetime(asked)
            now = parsedate_to_datetime(self.headers["date"]) if "date" in self.headers else datetime.now(UTC)
            return max(0.0, (until - now).total_seconds())
        except (TypeError, ValueError):
            return 0.0

    def __str__(self) -> str:
        if where := self.headers.get("location"):
            return f"{self.status}, a redirection to {where}"
        return f"{self.status} {self.said!r}" if self.body else f"{self.status} without a body"


@dataclass(frozen=True)
class NoReply:
    """A request that got no answer: why, and what to try; may it have reached the server; will it stay so?"""

    words: str
    hint: str
    reached: bool = True
    stays: bool = False
    pause: ClassVar = 0.0

    def __str__(self) -> str:
        return self.words


def busy(reply: Reply) -> bool:
    return reply.status in BUSY


class Transport:
    """Sends requests to the server of `url`. `resent` counts sequences that were sent more than once."""

    @no_type_check
    def __init__(self, url: str, *, token: str | None = None, timeout: float = TIMEOUT, attempts: int = ATTEMPTS):
        self._errors = needs("httpx2", "http")
        self._token = checked_token(url, token)
        self.timeout = positive(timeout, "timeout")
        self.attempts = attempts
        self.resent = 0
        self._met = False
        try:
            self._errors.URL(url)
        except self._errors.InvalidURL as error:
            raise ValueError(f"expected a URL, got {url!r}: {error}") from error
        near = is_loopback(urlsplit(url).hostname or "")
        client = self._errors.Client(
            headers={"Accept-Encoding": "identity"}
            | ({"Authorization": f"Bearer {self._token}"} if self._token else {}),
            mounts={"http://": None, "https://": None} if near else None,  # no proxy on the way to this machine
            follow_redirects=False,
        )
        self._client = client
        self.close = weakref.finalize(self, client.close)

    def get(self, url: str, again: Callable[[Reply], bool] = busy) -> Reply:
        """What the server says about itself, which takes no long time."""
        with self.token_hidden():
            return self._send("GET", url, b"", {}, 0, again, min(self.timeout, CONNECT))

    def post(
        self,
        url: str,
        body: bytes,
        headers: Mapping[str, str],
        sequences: int,
        again: Callable[[Reply], bool] = busy,
    ) -> Reply:
        """The reply to a request that asks so many sequences, whatever its status; redirections are not followed.

        Where nothing came, or an answer of which `again` says that the next may be another, it is sent again.
        """
        with self.token_hidden():
            return self._send("POST", url, body, headers, sequences, again, self.timeout)

    def refused(self, reply: Reply, asked: str, hint: str) -> OracleError:
        """The error about a reply that is not what was asked for, in one sentence."""
        if reply.status in (401, 403):
            hint = "see whether the token is the right one" if self._token else "give token=, or set GLASSHEAD_TOKEN"
        if "location" in reply.headers:
            hint = "give that address"
        return OracleError(f"expected {asked}, got {reply}; {hint}")

    @contextmanager
    def token_hidden(self) -> Generator[None]:
        """Takes the token out of errors in which a server's words are quoted, should it have repeated it."""
        try:
            yield
        except Exception as error:
            if self._token:
                error.args = tuple(w.replace(self._token, "***") if isinstance(w, str) else w for w in error.args)
            raise

    def _send(
        self,
        method: str,
        url: str,
        body: bytes,
        headers: Mapping[str, str],
        sequences: int,
        again: Callable[[Reply], bool],
        timeout: float,
    ) -> Reply:
        reached, failed = 0, 0
        while True:
            outcome = self._once(method, url, body, headers, timeout)
            reached += outcome.reached
            if outcome.reached and reached > 1:
                self.resent += sequences
            if isinstance(outcome, Reply):
                self._met = True
                if not again(outcome):
                    return outcome
            failed += 1
            got = f"{outcome} ({failed} times in a row)" if failed > 1 else f"{outcome}"
            if outcome.pause > MOST_ASKED:
                got += (
                    f", which asks for a pause of {outcome.pause:.0f} s, longer than the {MOST_ASKED:.0f} s waited here"
                )
            most = self.attempts if self._met else min(self.attempts, FIRST_ATTEMPTS)
            if outcome.stays or outcome.pause > MOST_ASKED or failed >= most:
                raise OracleError(f"expected an answer from {url}, got {got}; {outcome.hint}")
            pause = min(LONGEST_WAIT, FIRST_WAIT * 2.0 ** (failed - 1))
            sleep(max(pause * JITTER.uniform(0.5, 1.0), outcome.pause))

    def _once(self, method: str, url: str, body: bytes, headers: Mapping[str, str], timeout: float) -> Reply | NoReply:
        """One attempt. Nothing that the client library raises leaves here: it knows the headers."""
        slow = "give timeout= more seconds, or batch= fewer sequences" if body else ADDRESS
        late = NoReply(f"nothing within {timeout:g} s", slow)
        limits = self._errors.Timeout(timeout, connect=min(timeout, CONNECT))
        end = monotonic() + timeout  # of the whole answer: the library's own limits are for each piece of it
        try:
            with self._client.stream(method, url, content=body, headers=dict(headers), timeout=limits) as response:
                parts = []
                for part in response.iter_bytes():
                    parts.append(part)
                    if monotonic() > end:
                        return late
                return Reply(response.status_code, dict(response.headers), b"".join(parts))
        except (self._errors.ConnectError, self._errors.ConnectTimeout, self._errors.ProxyError) as error:
            words = f"no connection ({error or 'nobody answers'})"
            if "CERTIFICATE_VERIFY_FAILED" in words:
                return NoReply(words, "for an authority of your own set SSL_CERT_FILE to its file", False, stays=True)
            if "SSL" in words:
                return NoReply(words, "see whether the address begins with http:// instead", False, stays=True)
            return NoReply(words, ADDRESS, reached=False)
        except self._errors.TimeoutException:
            return late
        except self._errors.RequestError as error:
            return NoReply(f"a broken connection ({error or type(error).__name__})", "see what the server's log says")

    def __repr__(self) -> str:
        return f"Transport(timeout={self.timeout:g}, resent={self.resent})"
