"""From a model to a server that listens, and to its end: Ctrl-C or SIGTERM, once what was asked is answered."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

from .._boxes import needs
from .box import ServedBox
from .gate import Gate
from .log import Log, logged
from .settings import Settings

MOST_AT_ONCE = 64  # connections; one more gets 503
KEPT_ALIVE = 65  # seconds that a connection may be idle: longer than clients keep one that they do not use
LAST_ANSWERS = 10  # seconds for requests that are being answered when the server is stopped
BACKLOG = 128  # connections that may wait to be taken


def serve(model: Any, settings: Settings, log: Any, listening: Callable[[str], None]) -> None:
    """Serve `model` until a signal comes; `listening` is called with the model's address once there is somebody."""
    uvicorn = needs("uvicorn", "serve")
    needs("fastapi", "serve")
    from .application import application

    box, lines = ServedBox(model, settings), Log(log)
    with opened_socket(settings.host, settings.port) as listener, logged(lines), stopped_by_signals():
        config = uvicorn.Config(
            Gate(application(box, lines), settings, lines),
            http="h11",
            loop="asyncio",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,  # or a client could call itself another
            limit_concurrency=MOST_AT_ONCE,
            timeout_keep_alive=KEPT_ALIVE,
            timeout_graceful_shutdown=LAST_ANSWERS,
        )
        listening(address(listener, settings))
        uvicorn.Server(config).run(sockets=[listener])


def opened_socket(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listener = socket.create_server((host, port), family=family, backlog=BACKLOG)
    except (OSError, UnicodeError) as error:
        raise OSError(f"expected an address to listen at, got {host}, port {port}: {error}") from error
    # asyncio sends at once, without waiting 40 ms for a client's acknowledgement, where a socket is known to be TCP's.
    return socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP, fileno=listener.detach())


def address(listener: socket.socket, settings: Settings) -> str:
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    return f"http://{host}:{listener.getsockname()[1]}/v2/models/{settings.name}"


@contextmanager
def stopped_by_signals() -> Generator[None]:
    """uvicorn stops in good order when a signal comes, and then raises it again: by then there is nothing to stop."""
    signals = signal.SIGINT, signal.SIGTERM
    before = [signal.signal(one, lambda *_: None) for one in signals]
    try:
        yield
    finally:
        for one, handler in zip(signals, before, strict=True):
            signal.signal(one, handler)
