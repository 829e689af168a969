"""Who may ask, how often and how much; and what the log says of it, and what it never says."""

import json
import socket
import time
from contextlib import suppress
from http.client import HTTPResponse

import numpy as np
import pytest

import glasshead as gh
from glasshead._serve import Settings
from tests.serve.running import Running, question

DIM = 3
HEAD = gh.Attention.random(DIM, seed=1)
FIRST, SECOND, WRONG = "f1rst-t0ken", "s3c0nd-t0ken", "mistaken-t0ken"
NUMBER = 0.123456789  # of an input


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("served") / "head.safetensors"
    gh.save(HEAD, path)
    return path


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


def test_tokens_and_their_quotas(path, tmp_path, monkeypatch):
    log = tmp_path / "log.jsonl"
    with Running(path, "--quota", 100, "--log", log, token=f"{FIRST},{SECOND}") as running:
        for headers in ({}, bearer(WRONG), {"Authorization": FIRST}, {"Authorization": f"bearer {FIRST}"}):
            for where in ("", "/infer", "/v2", "/docs", "/nowhere"):
                status, message, answer = running.ask(where, **headers)
                assert (status, answer["www-authenticate"]) == (401, "Bearer")
                assert "bearer token" in message["error"]
        monkeypatch.setenv("GLASSHEAD_TOKEN", FIRST)
        found = gh.recover(gh.from_http(running.url))
        assert gh.distance(found.model, HEAD) < 1e-13
        left = 100 - found.queries
        status, message, _ = running.ask("/infer", question(DIM, sequences=left + 1), **bearer(FIRST))
        assert (status, message["error"]) == (
            403,
            f"expected at most {left} more sequences, the rest of a quota of 100, got {left + 1}",
        )
        assert running.ask("/infer", question(DIM, sequences=left), **bearer(FIRST))[0] == 200
        assert running.ask("/infer", question(DIM), **bearer(FIRST))[0] == 403
        assert running.ask("/infer", question(DIM), **bearer(SECOND))[0] == 200
        with pytest.raises(gh.OracleError, match="got 403 'expected at most 0 more sequences"):
            gh.from_http(running.url)
        assert running.log == ""
        lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert all(token not in log.read_text() for token in (FIRST, SECOND, WRONG))
    counted = {
        name: sum(line["sequences"] for line in lines if line["client"] == name) for name in ("token 1", "token 2")
    }
    assert counted == {"token 1": 100, "token 2": 1}


def test_a_rate(path):
    with Running(path, "--rate", 4) as running:
        statuses = [running.ask("/ready") for _ in range(12)]
        late = [headers["retry-after"] for status, _, headers in statuses if status == 429]
        assert {status for status, _, _ in statuses} == {200, 429}
        assert set(late) == {"1"}
        assert running.ask("/infer", question(DIM, sequences=500))[:2] == (
            429,
            {"error": "expected at most 4 requests per second, got more: try again later"},
        )
        time.sleep(1)
        assert running.ask("/ready")[0] == 200
        X = np.random.default_rng(0).standard_normal((40, 2, DIM))
        oracle = gh.from_http(running.url, batch=20)
        np.testing.assert_allclose(oracle(X), HEAD(X), rtol=1e-14)
        assert 429 in [line["status"] for line in running.lines]


def test_a_body_that_does_not_arrive(path):
    """A client that stops in the middle is told so after its time, and keeps nobody else from being answered."""
    announced = b"POST /v2/models/head/infer HTTP/1.1\r\nHost: here\r\nContent-Length: 1000\r\n\r\n{"
    with Running(path, "--max-seconds", 0.5) as running:
        with socket.create_connection(("127.0.0.1", running.port), timeout=20) as stalled:
            stalled.sendall(announced)
            assert running.ask("/infer", question(DIM))[0] == 200
            reply = HTTPResponse(stalled)
            reply.begin()
            assert json.loads(reply.read()) == {"error": "expected the whole body within 0.5 s, got less"}
            assert (reply.status, stalled.recv(1)) == (408, b"")
        with socket.create_connection(("127.0.0.1", running.port), timeout=20) as trickling, suppress(ConnectionError):
            for part in [announced, *[b" "] * 200]:  # a byte now and then does not buy more time
                trickling.sendall(part)
                time.sleep(0.05)
        assert [line["status"] for line in running.lines] == [200, 408, 408]
    with Running(path, "--max-seconds", 0.5, token=FIRST) as running:
        assert running.raw(announced).startswith(b"HTTP/1.1 408")
        assert running.lines[0]["client"] == "127.0.0.1"
    assert Settings("head").max_seconds == 30


def test_the_log_has_neither_inputs_nor_addresses_that_were_tried(path):
    with Running(path) as running:
        asked = question(DIM, sequences=2, entry={"data": [NUMBER] * 2 * DIM}, id="an-id")
        assert running.ask(f"/infer?token={FIRST}", asked, **bearer(WRONG))[0] == 200
        running.ask(f"/v2/models/{FIRST}/infer", asked)
        running.ask(f"/{FIRST}")
        running.ask("/infer", "{" + SECOND)
        running.raw(f"GET {SECOND}\r\n\r\n".encode())
        lines, log = running.lines, running.log
    assert all(word not in log for word in (str(NUMBER), "an-id", FIRST, SECOND, WRONG))
    requests = [line for line in lines if "status" in line]
    assert [(line["status"], line["sequences"]) for line in requests] == [(200, 2), (404, 0), (404, 0), (400, 0)]
    assert requests[0]["route"] == "/v2/models/{name}/infer"
    assert set(requests[0]) == {"time", "client", "method", "route", "sequences", "status", "milliseconds"}
    assert all(line["client"] == "127.0.0.1" and line["milliseconds"] >= 0 for line in requests)


def test_another_host_without_a_token_is_warned_of(path):
    with Running(path, "--host", "0.0.0.0") as running:
        assert "warning whoever reaches 0.0.0.0 may ask: set GLASSHEAD_TOKEN" in running.log
    with Running(path, "--host", "0.0.0.0", token=FIRST) as running:
        assert running.log == ""


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--name", "a/b"], "expected --name to be up to 100 letters"),
        (["--name", ".."], "expected --name to be up to 100 letters"),
        (["--answers", "logits"], "expected answers to be one of"),
        (["--max-norm", "0"], "expected max_norm to be a positive number"),
        (["--max-seconds", "0"], "expected max_seconds to be a positive number"),
        (["--rate", "-1"], "expected rate to be a positive number"),
        (["--rate", "nan"], "expected rate to be a positive number"),
        (["--noise", "-1"], "expected noise to be a number >= 0"),
        (["--quota", "0"], "Invalid value for '--quota'"),
        (["--port", "70000"], "Invalid value for '--port'"),
        (["--host", "no such host"], "expected an address to listen at, got no such host"),
        (["--log", "nowhere/log"], "No such file"),
    ],
)
def test_options_that_cannot_be(cli, options, words):
    result = cli("serve", "target.safetensors", "--port", "0", *options)
    assert result.code == 2
    assert words in result.words


def test_models_that_cannot_be_served(cli):
    assert "not a safetensors file" in cli("serve", "junk.safetensors").words
    assert "no such model file" in cli("serve", "nowhere.safetensors").words
    gh.save(gh.FrontHead(np.eye(DIM)), "front.safetensors")
    assert "expected a model that answers by itself" in cli("serve", "front.safetensors").words
    gh.save(gh.Block.random(4, 2), "several.safetensors")
    refused = cli("serve", "several.safetensors", "--answers", "sign")
    assert (refused.code, "4 numbers per answer" in refused.words) == (2, True)


def test_a_port_that_is_taken(cli, path):
    with Running(path) as running:
        refused = cli("serve", str(path), "--port", str(running.port))
    assert (refused.code, "Address already in use" in refused.words) == (2, True)


def test_limits_without_options_are_those_of_the_settings(path):
    with Running(path) as running:
        assert running.ask("/versions/1/config")[1]["max_batch_size"] == Settings("head").max_batch
        assert running.ask("/infer", question(DIM, sequences=Settings("head").max_batch + 1))[0] == 413


def test_settings_say_what_they_expect():
    with pytest.raises(ValueError, match="expected max_batch to be an integer >= 1, got 0"):
        Settings("head", max_batch=0)
    with pytest.raises(ValueError, match="expected port to be a number from 0"):
        Settings("head", port=-1)
