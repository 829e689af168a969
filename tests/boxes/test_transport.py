"""One transport for every endpoint: what is tried again, what is counted, what is said, and what is never shown."""

import gc
import gzip
import logging
import socket
import time
import traceback
import warnings
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime, formatdate

import pytest

import glasshead as gh
from glasshead._boxes.address import checked_url
from glasshead._boxes.transport import Transport
from tests.boxes.scripted import drips, drops, hangs, says, serving, truncates

OK = says(200, "{}")
SECRET = "s3cr3t-t0ken"


def asked(server, **options):
    """A request of three sequences to a server, the transport, and the reply."""
    transport = Transport(server.url, **options)
    return transport, transport.post(f"{server.url}/box", b"abc", {"X-Test": "1"}, 3)


def test_a_request_that_is_answered_is_sent_once():
    with serving(says(200, '{"a": 1}')) as server:
        transport, reply = asked(server)
        assert (reply.status, reply.json(), transport.resent) == (200, {"a": 1}, 0)
        [(path, headers, body)] = server.seen
        assert (path, body, headers["X-Test"]) == ("/box", b"abc", "1")
        transport.close()


@pytest.mark.parametrize("fault", [says(429), says(503), says(502), drops, truncates])
def test_what_may_pass_is_tried_again_and_counted(fault):
    with serving(fault, fault, OK) as server:
        transport, reply = asked(server)
        assert reply.status == 200
        assert transport.resent == 2 * 3
        assert len(server.seen) == 3
        transport.close()


@pytest.mark.parametrize("fault", [hangs, drips])
def test_an_answer_that_is_late_as_a_whole_is_asked_for_again(fault):
    with serving(fault, OK) as server:
        transport, _ = asked(server, timeout=1.0)
        assert transport.resent == 3
        transport.close()


@pytest.mark.parametrize("status", [400, 401, 404, 413, 500])
def test_an_answer_that_will_stay_is_handed_on(status):
    with serving(says(status, '{"error": "no"}'), OK) as server:
        transport, reply = asked(server)
        assert (reply.status, reply.said, len(server.seen)) == (status, "no", 1)
        transport.close()


def test_a_pause_in_seconds_is_kept():
    with serving(says(429, Retry_After="0.4"), OK) as server:
        start = time.monotonic()
        transport, _ = asked(server)
        assert time.monotonic() - start >= 0.4
        transport.close()


def test_a_pause_until_a_date_follows_the_server_s_clock():
    before = datetime(2001, 1, 1, tzinfo=UTC)
    until = format_datetime(before + timedelta(seconds=1), usegmt=True)

    def act(request):
        request.send_response_only(503)
        request.send_header("Date", format_datetime(before, usegmt=True))
        request.send_header("Retry-After", until)
        request.send_header("Content-Length", "0")
        request.end_headers()

    with serving(act, OK) as server:
        start = time.monotonic()
        transport, _ = asked(server)
        assert time.monotonic() - start >= 1.0
        transport.close()


@pytest.mark.parametrize("pause", ["soon", formatdate(0, usegmt=True), "-3"])
def test_a_pause_that_makes_no_sense_is_none(pause):
    with serving(says(503, Retry_After=pause), OK) as server:
        transport, _ = asked(server)
        transport.close()


def test_a_pause_that_is_too_long_is_said():
    with serving(says(429, "slow down", Retry_After="3600"), OK) as server:
        with pytest.raises(gh.OracleError, match=r"pause of 3600 s, longer than the 120 s.*journal=") as error:
            asked(server)
        assert "slow down" in str(error.value)


def test_after_so_many_failures_in_a_row_it_is_said_what_came():
    with serving(says(503, "<html><h1>Busy</h1></html>")) as server:
        with pytest.raises(gh.OracleError, match=r"expected .* got 503 '<html><h1>Busy.* \(4 times in a row\); try"):
            asked(server, attempts=4)
        assert len(server.seen) == 4


def test_success_in_between_forgives():
    with serving(says(503), OK, says(503), OK) as server:
        transport = Transport(server.url, attempts=2)
        for _ in range(2):
            assert transport.post(server.url, b"", {}, 1).status == 200
        transport.close()


def test_a_port_where_nobody_listens_was_never_sent_anything():
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{held.getsockname()[1]}"
        transport = Transport(url)
        with pytest.raises(gh.OracleError, match=r"no connection .*refused.*3 times in a row.*is up") as error:
            transport.post(url, b"", {}, 5)
        assert transport.resent == 0
        assert (error.value.__cause__, error.value.__context__) == (None, None)
        transport.close()


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_redirections_are_not_followed_but_named(status):
    with serving(says(status, Location="https://elsewhere.example/box"), OK) as server:
        transport, reply = asked(server, token=SECRET)
        error = transport.refused(reply, "answers", "?")
        assert str(error) == (
            f"expected answers, got {status}, a redirection to https://elsewhere.example/box; give that address"
        )
        assert len(server.seen) == 1
        transport.close()


def test_a_body_that_was_compressed_unasked_is_read():
    with serving(says(200, gzip.compress(b'{"a": 1}'), Content_Encoding="gzip")) as server:
        transport, reply = asked(server)
        assert reply.json() == {"a": 1}
        assert server.seen[0][1]["Accept-Encoding"] == "identity"
        transport.close()


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ('{"error": "string"}', "string"),
        ('{"error": {"message": "object", "code": 400}}', "object"),
        ('{"detail": "Not Found"}', "Not Found"),
        ('{"detail": [{"loc": ["body"]}]}', '{"detail": [{"loc": ["body"]}]}'),
        ("<html>\n <title>Hi</title>", "<html> <title>Hi</title>"),
        ("x" * 500, "x" * 200 + ".."),
    ],
)
def test_errors_as_servers_put_them(body, said):
    with serving(says(400, body)) as server:
        transport, reply = asked(server)
        assert reply.said == said
        transport.close()


def everything_said(error):
    """All that a chain of exceptions shows or holds, a step deep."""
    words = ["".join(traceback.format_exception(error))]
    while error is not None:
        words += [repr(error), repr(vars(error)), repr(getattr(error, "_request", ""))]
        error = error.__cause__ or error.__context__
    return " ".join(words)


@pytest.mark.parametrize("fault", [says(503, f"you sent {SECRET}"), drops, hangs])
def test_a_token_is_sent_and_never_shown(fault, caplog):
    caplog.set_level(logging.DEBUG)
    with serving(fault) as server:
        transport = Transport(server.url, token=SECRET, attempts=2, timeout=0.3)
        with pytest.raises(gh.OracleError) as error:
            transport.post(server.url, b"", {}, 1)
        assert server.seen[0][1]["Authorization"] == f"Bearer {SECRET}"
        transport.close()
    assert SECRET not in everything_said(error.value) + caplog.text + repr(transport) + str(transport)


def test_the_token_of_the_environment(monkeypatch):
    monkeypatch.setenv("GLASSHEAD_TOKEN", f"{SECRET}\n")
    with serving(OK) as server:
        for options in ({}, {"token": "another"}, {"token": ""}):
            asked(server, **options)[0].close()
        sent = [headers.get("Authorization") for _, headers, _ in server.seen]
    assert sent == [f"Bearer {SECRET}", "Bearer another", None]


def test_a_token_is_not_sent_over_an_open_line(monkeypatch):
    with pytest.raises(
        ValueError, match=r"https:// where a token is sent.*readable on the way to far\.example"
    ) as error:
        Transport("http://far.example/v2", token=SECRET)
    assert SECRET not in everything_said(error.value)
    monkeypatch.setenv("GLASSHEAD_TOKEN", SECRET)
    with pytest.raises(ValueError, match="GLASSHEAD_TOKEN"):
        Transport("http://10.0.0.1:8000")
    Transport("http://10.0.0.1:8000", token="").close()
    Transport("https://far.example", token=SECRET).close()
    Transport("http://localhost:1", token=SECRET).close()
    Transport("http://[::1]:1", token=SECRET).close()


def test_a_token_that_no_header_can_hold_is_not_shown():
    with pytest.raises(ValueError, match="printable ASCII") as error:
        Transport("https://far.example", token=f"{SECRET}\nX: y")
    assert SECRET not in everything_said(error.value)


def test_who_refuses_hears_about_tokens():
    with serving(says(401, '{"error": "who?"}')) as server:
        transport, reply = asked(server)
        assert "GLASSHEAD_TOKEN" in str(transport.refused(reply, "answers", "?"))
        transport.close()
        transport, reply = asked(server, token="wrong")
        assert "token is the right one" in str(transport.refused(reply, "answers", "?"))
        transport.close()


def test_no_proxy_on_the_way_to_this_machine(monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    with serving(OK) as server:
        transport, reply = asked(server, token=SECRET)
        assert reply.status == 200
        transport.close()


@pytest.mark.parametrize(
    "url", ["ftp://a/b", "localhost:8000", "http://", "http://user:pass@host/v2", "http://a/b?key=1", "http://a/b#c"]
)
def test_addresses_that_are_none(url):
    with pytest.raises(ValueError, match="expected a URL") as error:
        checked_url(url)
    assert "pass@" not in str(error.value)


def test_connections_are_kept_and_closed():
    with serving(OK) as server, warnings.catch_warnings():
        warnings.simplefilter("error")
        transport, _ = asked(server)
        for _ in range(5):
            transport.post(server.url, b"", {}, 1)
        pool = transport._client._transport._pool
        assert len(pool.connections) == 1
        del transport
        gc.collect()
        assert not pool.connections
