"""The log of a server: one JSON object per line, about each request and whatever else there is to say.

Nothing that a client has sent is in it, neither its token nor its numbers nor the address it tried: a route of the
server is named, or none.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from threading import Lock
from typing import Any


class Log:
    """Writes lines to a text stream, each whole and at once, from any thread."""

    def __init__(self, stream: Any):
        self._stream, self._lock = stream, Lock()

    def write(self, **fields: Any) -> None:
        line = json.dumps({"time": datetime.now(UTC).isoformat(timespec="milliseconds"), **fields})
        with self._lock:
            self._stream.write(line + "\n")
            self._stream.flush()


class Lines(logging.Handler):
    """What uvicorn has to say, as lines of the log: warnings and errors, in its own words and without values."""

    def __init__(self, log: Log):
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        kind = record.exc_info and record.exc_info[0]
        raised = {} if not kind else {"raised": kind.__name__}
        self._log.write(level=record.levelname.lower(), message=str(record.msg).partition("\n")[0], **raised)


@contextmanager
def logged(log: Log) -> Generator[None]:
    """What uvicorn says goes into the log."""
    logger, handler = logging.getLogger("uvicorn"), Lines(log)
    logger.addHandler(handler)
    before, logger.propagate = logger.propagate, False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = before
