"""What a server is told: its address, what it does to its answers, and what it lets a client do."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from .._boxes import TOKEN
from .._families import ANSWERS
from .._validate import positive, real, whole

MAX_BATCH = 1024  # sequences: what `gh.from_http` sends at a time
MAX_TOKENS = 4096  # of a sequence
MAX_BYTES = 64 * 2**20  # of a request's body
MAX_SECONDS = 30.0  # for a body to arrive: a client that announces more than it sends is not waited for
SEPARATOR = ","  # between tokens in the environment, one for each client
NAME = re.compile(r"[A-Za-z0-9_.-]{1,100}")  # of a model: what an address may hold without being escaped


@dataclass(frozen=True)
class Settings:
    """How a model is served; a wrong one is a ValueError. None is no limit and no defence."""

    name: str
    host: str = "127.0.0.1"
    port: int = 8000
    answers: str = "value"
    decimals: int | None = None
    noise: float | None = None
    max_norm: float | None = None
    max_batch: int = MAX_BATCH
    max_tokens: int = MAX_TOKENS
    max_bytes: int = MAX_BYTES
    max_seconds: float = MAX_SECONDS
    rate: float | None = None
    quota: int | None = None
    watch: bool = False
    seed: int = 0
    tokens: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.name) or set(self.name) == {"."}:
            raise ValueError(
                f"expected name= to be up to 100 letters, digits, dots, - and _, got {self.name!r}, which an address "
                "cannot hold as it is"
            )
        if self.answers not in ANSWERS:
            raise ValueError(f"expected answers to be one of {ANSWERS}, got {self.answers!r}")
        if not 0 <= whole(self.port, "port") < 2**16:
            raise ValueError(f"expected port to be a number from 0, for any that is free, to 65535, got {self.port}")
        for limit in ("max_batch", "max_tokens", "max_bytes", "quota"):
            if (value := getattr(self, limit)) is not None:
                whole(value, limit, least=1)
        for limit in ("max_seconds", "max_norm", "rate"):
            if (value := getattr(self, limit)) is not None:
                positive(value, limit)
        if self.noise is not None:
            real(self.noise, "noise", "a number >= 0", lambda x: x >= 0)
        if self.decimals is not None:
            whole(self.decimals, "decimals")
        whole(self.seed, "seed", least=0)


def tokens_of_environment() -> tuple[str, ...]:
    """The bearer tokens that GLASSHEAD_TOKEN names, one for each client, with commas in between."""
    listed = tuple(filter(None, (one.strip() for one in os.environ.get(TOKEN, "").split(SEPARATOR))))
    if not all(re.fullmatch(r"[!-~]+", one) for one in listed):
        raise ValueError(f"expected {TOKEN} to be printable ASCII without spaces, got something else")
    return listed
