"""In front of the application: who asks, whether that is allowed now, and how much has come in; one line of the log for
each request.

A client is a token where the server has tokens, otherwise an address.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import math
from collections import OrderedDict
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

from .box import Refusal
from .log import Log
from .settings import Settings
from .watch import Watch

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

MOST_CLIENTS = 1000  # remembered, since each takes memory; the one that was quiet for longest is forgotten


@dataclass
class Client:
    """What is remembered of a client: the requests it may send now, the sequences it has been answered, its watch."""

    name: str
    allowed: float
    since: float
    sequences: int = 0
    watch: Watch = field(default_factory=Watch)


class Gate:
    """An ASGI application around another: lets through what `settings` allow, and logs all of it."""

    def __init__(self, inside: Any, settings: Settings, log: Log):
        self._inside, self._settings, self._log = inside, settings, log
        self._clients: OrderedDict[str, Client] = OrderedDict()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        start, status = monotonic(), 500
        client = client_name(scope)
        state: dict[str, Any] = {"sequences": 0}
        scope["state"] = state

        async def sent(message: MutableMapping[str, Any]) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        try:
            try:
                client = self._name(scope)
                state["client"] = self._remembered(client)
                self._paced(state["client"])
            except Refusal:
                await self._body(scope, receive, kept=False)  # or the client, still sending, would not see the reason
                raise
            body = await self._body(scope, receive)
            await self._inside(scope, replayed(body, receive), sent)
        except Refusal as refusal:
            await refuse(refusal, sent)
        except ConnectionError:  # the client went away
            status = 499
        finally:
            spent = round(1e3 * (monotonic() - start), 3)
            route = getattr(scope.get("route"), "path", None)
            about = {"client": client, "method": scope["method"] if route else None, "route": route}
            self._log.write(**about, sequences=state["sequences"], status=status, milliseconds=spent)

    def _name(self, scope: Scope) -> str:
        """Who asks, or a `Refusal` of somebody without a token."""
        if not self._settings.tokens:
            return client_name(scope)
        given = b"".join(value for name, value in scope["headers"] if name == b"authorization")
        same = [hmac.compare_digest(given, b"Bearer " + token.encode()) for token in self._settings.tokens]
        if not any(same):
            raise Refusal(401, "expected a bearer token that this server knows, in a header Authorization")
        return f"token {same.index(True) + 1}"

    def _remembered(self, name: str) -> Client:
        if name not in self._clients:
            self._clients[name] = Client(name, max(1.0, self._settings.rate or 0.0), monotonic())
        self._clients.move_to_end(name)
        if len(self._clients) > MOST_CLIENTS:
            self._clients.popitem(last=False)
        return self._clients[name]

    def _paced(self, client: Client) -> None:
        """Count a request of those that come in every second; a `Refusal` says when the next one may."""
        rate = self._settings.rate
        if rate is None:
            return
        now = monotonic()
        client.allowed = min(max(1.0, rate), client.allowed + rate * (now - client.since))
        client.since = now
        if client.allowed < 1:
            wait = max(1, math.ceil((1 - client.allowed) / rate))
            raise Refusal(429, f"expected at most {rate:g} requests per second, got more: try again later", wait)
        client.allowed -= 1

    async def _body(self, scope: Scope, receive: Receive, kept: bool = True) -> bytes:
        headers = dict(scope["headers"])
        most = self._settings.max_bytes
        if headers.get(b"content-encoding", b"identity") != b"identity":
            raise Refusal(415, "expected a body as it is, got one with a Content-Encoding")
        announced = headers.get(b"content-length", b"0")
        if announced.isdigit() and (len(announced) > 15 or int(announced) > most):
            raise Refusal(413, f"expected a body of at most {most} bytes, got more")
        seconds = self._settings.max_seconds
        parts, size, more, end = [], 0, True, monotonic() + seconds
        while more:
            try:
                message = await asyncio.wait_for(receive(), max(0.0, end - monotonic()))
            except TimeoutError:
                raise Refusal(408, f"expected the whole body within {seconds:g} s, got less") from None
            if message["type"] == "http.disconnect":
                raise ConnectionError
            part = message.get("body", b"")
            parts += [part] * kept
            size, more = size + len(part), message.get("more_body", False)
            if size > most:
                raise Refusal(413, f"expected a body of at most {most} bytes, got more")
        return b"".join(parts)


def admitted(client: Client, sequences: int, settings: Settings) -> None:
    """Count sequences that are about to be answered; a `Refusal` where they are more than the client has left."""
    quota = settings.quota
    if quota is not None and client.sequences + sequences > quota:
        left = quota - client.sequences
        raise Refusal(403, f"expected at most {left} more sequences, the rest of a quota of {quota}, got {sequences}")
    client.sequences += sequences


def client_name(scope: Scope) -> str:
    return str((scope.get("client") or ("unknown",))[0])


def replayed(body: bytes, receive: Receive) -> Receive:
    """What an application receives: the body that has been read, and after it whatever comes."""
    parts = [{"type": "http.request", "body": body, "more_body": False}]

    async def next_one() -> MutableMapping[str, Any]:
        return parts.pop() if parts else await receive()

    return next_one


async def refuse(refusal: Refusal, send: Send) -> None:
    body = problem(str(refusal))
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    headers += [(name.encode(), value.encode()) for name, value in headers_of(refusal).items()]
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def headers_of(refusal: Refusal) -> dict[str, str]:
    """What a status has to say beside the reason."""
    if refusal.status == 401:
        return {"www-authenticate": "Bearer"}
    if refusal.status == 408:
        return {"connection": "close"}  # there are only so many, and this one may wait for a body for ever
    return {} if refusal.retry is None else {"retry-after": str(refusal.retry)}


def problem(why: str) -> bytes:
    """The body of every answer that is none; in ASCII, since a client may have sent what no encoding can write."""
    return json.dumps({"error": why}).encode()
