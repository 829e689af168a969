"""Where a box is, and the bearer token for it: what may be written in a URL, and which token may be sent there."""

from __future__ import annotations

import ipaddress
import os
import re
from urllib.parse import urlsplit

from .._types import no_type_check

TOKEN = "GLASSHEAD_TOKEN"  # of the environment


@no_type_check
def checked_token(url: str, token: str | None) -> str:
    """The token for `url`: the one given, or the environment's; "" for none. Never over an open line."""
    given = "token=" if token is not None else TOKEN
    token = os.environ.get(TOKEN, "") if token is None else token
    if not isinstance(token, str) or not re.fullmatch(r"[!-~]*", token := token.strip()):
        raise ValueError(f"expected {given} to be a string of printable ASCII without spaces, got something else")
    parts = urlsplit(url)
    if token and parts.scheme == "http" and not is_loopback(parts.hostname or ""):
        readable = f"the token of {given} would be readable on the way to {parts.hostname}"
        raise ValueError(f"expected https:// where a token is sent, got http://: {readable}; token='' sends none")
    return token


@no_type_check
def checked_url(url: str) -> str:
    """The URL without a slash at its end; http or https, and with nothing in it that is secret."""
    if not isinstance(url, str):
        raise TypeError(f"expected a URL as a string, got {type(url).__name__}")
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"expected a URL that begins with http:// or https:// and a host, got {url.split('@')[-1]!r}")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ValueError("expected a URL without user name, password, ? or #; a bearer token is given as token=")
    return url.rstrip("/")


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
