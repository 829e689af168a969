"""Whatever a client sends, the server says in one sentence what is wrong with it, with a status from 400 to 499."""

import json
import struct

import pytest

import glasshead as gh
from tests.serve.running import HEADER, Running, question

DIM = 3
MOST_BYTES = 4000


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    path = tmp_path_factory.mktemp("served") / "head.safetensors"
    gh.save(gh.Attention.random(DIM, seed=1), path)
    with Running(path, "--max-batch", 4, "--max-tokens", 5, "--max-bytes", MOST_BYTES) as running:
        yield running
        assert running.ask("/infer", question(DIM))[0] == 200  # whatever came, it answers
        assert "rror" not in running.log.replace('"level": "warning"', "")


def entry(**changed):
    return question(DIM, entry=changed)


def without(name):
    message = question(DIM)
    del message["inputs"][0][name]
    return message


def nested(depth):
    return '{"inputs":' + "[" * depth + "]" * depth + "}"


JSON = {
    "nothing": ("", "expected JSON, got ''"),
    "no JSON": ("{", "expected JSON"),
    "text that is none": (b"\xff\xfe\x00", "expected JSON"),
    "a list": ("[]", "a JSON object with a list of inputs"),
    "null": ("null", "a JSON object with a list of inputs"),
    "no inputs": ({}, "a JSON object with a list of inputs"),
    "too deep": (nested(1800), "expected JSON"),
    "deep enough to be read": (nested(400), "a tensor with a name"),
    "a long number": ('{"inputs": [' + "9" * 3900 + "]}", ""),
    "inputs of none": ({"inputs": []}, "expected one input, 'tokens', got []"),
    "two inputs": ({"inputs": question(DIM)["inputs"] * 2}, "expected one input"),
    "an input of another name": (entry(name="ids"), "expected one input, 'tokens', got ['ids']"),
    "a name that cannot be encoded": ('{"inputs": [{"name": "\\ud800"}]}', "a tensor with a name"),
    "no name": (without("name"), "a tensor with a name"),
    "no shape": (without("shape"), "a tensor with a name, a shape"),
    "no datatype": (without("datatype"), "a tensor with a name"),
    "no data": (without("data"), "got null among them"),
    "ids": (entry(datatype="INT64", data=[1] * DIM), "tokens of FP64, FP32, FP16, BF16, got INT64"),
    "text": (entry(datatype="BYTES"), "a datatype among"),
    "FP16 as JSON": (entry(datatype="FP16"), "expected FP16 of 'tokens' as binary data"),
    "too few numbers": (entry(data=[1.0]), "of shape [1, 1, 3], flat or nested, got [1]"),
    "words": (entry(data=["a", "b", "c"]), 'got "a" among them'),
    "truth": (entry(data=[True] * DIM), "got true among them"),
    "null among numbers": (entry(data=[1.0, None, 2.0]), "got null among them"),
    "NaN": (entry(data=[1.0, float("nan"), 2.0]), "finite"),
    "an infinity": (entry(data=[1.0, float("inf"), 2.0]), "finite"),
    "a huge number": (json.dumps(entry()).replace("0.5", "1e999"), "finite"),
    "a huge whole number": (entry(data=[10**400, 1, 1]), "got a larger one"),
    "too large for float32": (entry(datatype="FP32", data=[1e39] * DIM), "finite"),
    "too large for the model": (entry(data=[1e308] * DIM), "sequence 0 overflows"),
    "one axis": (entry(shape=[DIM]), "expected tokens of shape [B, N, 3]"),
    "another dimension": (question(DIM + 1), "expected tokens of shape [B, N, 3]"),
    "no sequence": (entry(shape=[0, 1, DIM], data=[]), "at least one sequence"),
    "no token": (entry(shape=[1, 0, DIM], data=[]), "at least one sequence of one token"),
    "a negative size": (entry(shape=[-1, 1, DIM]), "a tensor with a name, a shape"),
    "an endless size": (entry(shape=[2**62, 1, DIM]), "a tensor with a name, a shape"),
    "many axes": (entry(shape=[1] * 99), "a tensor with a name, a shape"),
    "an id that is none": (question(DIM, id=7), "expected id to be a string, got a int"),
    "parameters that are none": (question(DIM, parameters=[1]), "expected parameters to be an object"),
    "a number for a truth": (question(DIM, parameters={"binary_data_output": 1}), "to be true or false, got 1"),
    "outputs that are none": (question(DIM, outputs={"name": "answers"}), "expected outputs to be a list"),
    "an unknown output": (question(DIM, outputs=[{"name": "logits"}]), "expected the output 'answers'"),
    "an output twice": (question(DIM, outputs=[{"name": "answers"}] * 2), "expected the output 'answers'"),
}


@pytest.mark.parametrize("what", JSON)
def test_what_is_wrong_is_said(server, what):
    body, words = JSON[what]
    status, message, _ = server.ask("/infer", body)
    assert (status, list(message)) == (400, ["error"])
    assert words in message["error"]


BINARY = {
    "fewer bytes than announced": ({"binary_data_size": 24}, b"\0" * 23, "got 24 announced and 23 sent"),
    "more bytes than announced": ({"binary_data_size": 24}, b"\0" * 25, "bytes with all tensors"),
    "another size": ({"binary_data_size": 8}, b"\0" * 8, "expected 24 bytes of FP64 [1, 1, 3]"),
    "a negative size": ({"binary_data_size": -24}, b"\0" * 24, "expected 24 bytes"),
    "a size that is no whole number": ({"binary_data_size": 24.0}, b"\0" * 24, "expected 24 bytes"),
    "a size in words": ({"binary_data_size": "24"}, b"\0" * 24, "expected 24 bytes"),
    "no size": ({}, b"\0" * 24, "got null among them"),
    "NaN": ({"binary_data_size": 24}, struct.pack("<3d", 1, float("nan"), 1), "finite"),
}


@pytest.mark.parametrize("what", BINARY)
def test_binary_tensors_that_are_none(server, what):
    parameters, data, words = BINARY[what]
    tensor = {"name": "tokens", "shape": [1, 1, DIM], "datatype": "FP64", "parameters": parameters}
    head = json.dumps({"inputs": [tensor]}).encode()
    status, message, _ = server.ask("/infer", head + data, **{HEADER: len(head)})
    assert status == 400
    assert words in message["error"]


@pytest.mark.parametrize("length", ["-1", "x", "1e3", "99999", "9" * 5000, "0", "7", "\xb2"])
def test_a_header_that_lies_about_the_json(server, length):
    status, message, _ = server.ask("/infer", question(DIM), **{HEADER: length})
    assert status == 400
    assert message["error"]


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/", 404),
        ("/v1/models/head:predict", 404),
        ("/v2/", 404),
        ("/v2/models/other", 404),
        ("/v2/models/other/ready", 404),
        ("/v2/models/other/infer", 404),
        ("/v2/models/head/versions/2", 404),
        ("/v2/models/head/versions/2/ready", 404),
        ("/v2/models/head/versions/2/infer", 404),
        ("/v2/models/%00/ready", 404),
        ("/v2/models/..%2f..%2fetc/ready", 404),
        ("/v2/models/head/infer/more", 404),
    ],
)
def test_what_is_not_there(server, path, status):
    for body in (None, question(DIM)):
        found, message, _ = server.ask(path, body)
        assert found in (status, 405)
        assert isinstance(message["error"], str)


def test_other_methods(server):
    for method, path in (("DELETE", "/infer"), ("PUT", "/infer"), ("GET", "/infer"), ("POST", "/ready")):
        status, message, _ = server.ask(path, b"", method=method)
        assert (status, message) == (405, {"error": "Method Not Allowed"})


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (question(DIM, sequences=5), "expected at most 4 sequences in a request's batch, got 5"),
        (question(DIM, tokens=6), "expected at most 5 tokens"),
        (b" " * (MOST_BYTES + 1), "expected a body of at most 4000 bytes"),
        (b" " * 10**6, "expected a body of at most 4000 bytes"),
    ],
)
def test_what_is_too_large(server, body, words):
    status, message, _ = server.ask("/infer", body)
    assert status == 413
    assert words in message["error"]


def test_a_body_in_pieces_that_is_too_large(server):
    head = b"POST %b/infer HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" % server.path.encode()
    found = server.raw(head + 5 * (b"400\r\n" + b" " * 0x400 + b"\r\n"))
    assert b" 413 " in found.partition(b"\r\n")[0]


def test_a_body_that_is_compressed(server):
    assert server.ask("/infer", b"\x1f\x8b", Content_Encoding="gzip")[0] == 415


@pytest.mark.parametrize(
    "data",
    [
        b"\0\r\n\r\n",
        b"hello\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"POST /v2 HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n",
        b"POST /v2 HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        b"GET /" + b"x" * 10**5 + b" HTTP/1.1\r\n\r\n",
        b"POST /v2 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ],
)
def test_what_is_no_request_at_all(server, data):
    first = server.raw(data).partition(b"\r\n")[0]
    assert first == b"" or b" 4" in first[:13], first


def test_a_client_that_goes_away_and_one_that_sends_less_than_it_says(server):
    head = b"POST %b/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{" % server.path.encode()
    assert server.raw(head) == b""  # within a second: it is waited for, and then it is gone
    assert server.ask("/ready")[0] == 200
