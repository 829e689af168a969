"""What `gh.from_http` says where there is no model that it could ask: one sentence, with what came and what to try."""

import gzip
import json
import ssl
from pathlib import Path

import numpy as np
import pytest

import glasshead as gh
from tests.boxes.scripted import hangs, says, serving

CERTIFICATE = Path(__file__).parent / "loopback.pem"  # of nobody, for 127.0.0.1
VECTORS = {"name": "tokens", "datatype": "FP64", "shape": [-1, -1, 4]}
SECRET = "s3cr3t-t0ken"
OUTPUT = {"name": "y", "datatype": "FP64", "shape": [-1]}


def model(*inputs, outputs=(OUTPUT,), answer=None):
    """A server that describes a model, answers 1 for each sequence or `answer`, and knows nothing else."""

    def act(request):
        if request.path == "/v2/models/head":
            said = {"name": "head", "platform": "", "inputs": list(inputs), "outputs": list(outputs)}
            return says(200, json.dumps(said))(request)
        if request.path == "/v2/models/head/infer":
            asked = json.loads(request.body)
            count = asked["inputs"][0]["shape"][0]
            if answer is not None:
                return says(200, answer)(request)
            ones = {"name": "y", "datatype": "FP64", "shape": [count], "data": [1.0] * count}
            return says(200, json.dumps({"id": asked["id"], "outputs": [ones]}))(request)
        return says(404, '{"detail": "Not Found"}')(request)

    return act


def refusal(*acts, **options):
    with serving(*acts) as server, pytest.raises((gh.OracleError, ValueError)) as error:
        gh.from_http(f"{server.url}/v2/models/head", **options)
    return str(error.value)


def test_a_server_without_extras_is_enough():
    with serving(model(VECTORS)) as server:
        oracle = gh.from_http(f"{server.url}/v2/models/head")
        assert oracle.notes[0] == "head of a server without a name, asked with FP64 as JSON"
        np.testing.assert_array_equal(oracle(np.ones((3, 2, 4))), np.ones(3))


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://127.0.0.1:1/v1/models/head:predict", r"/v2/models/NAME.*got .*/v1/ is another protocol"),
        ("http://127.0.0.1:1", r"expected the address of a model, http://HOST:PORT/v2/models/NAME"),
        ("http://127.0.0.1:1/v2", r"expected the address of a model"),
        ("127.0.0.1:8000/v2/models/head", "begins with http://"),
        ("http://[::1/v2/models/head", "Invalid IPv6 URL"),
        ("http://127.0.0.1:port/v2/models/head", "[Pp]ort"),
    ],
)
def test_addresses_that_cannot_be_right(url, words):
    with pytest.raises(ValueError, match=words):
        gh.from_http(url)


def test_an_address_that_is_no_string():
    with pytest.raises(TypeError, match="expected a URL as a string, got int"):
        gh.from_http(5)


def test_nobody_listens():
    with pytest.raises(gh.OracleError, match=r"expected an answer from .*got no connection .*refused.*server is up"):
        gh.from_http("http://127.0.0.1:9/v2/models/head")


def test_a_web_page():
    said = refusal(says(200, "<!DOCTYPE html><html><title>Welcome</title></html>"))
    assert "expected metadata of a model" in said
    assert "got 200 '<!DOCTYPE html><html><title>Welcome" in said
    assert "see whether this is http://HOST:PORT/v2/models/NAME" in said


def test_a_web_page_that_came_compressed():
    assert "got 200 '<html>" in refusal(says(200, gzip.compress(b"<html>"), Content_Encoding="gzip"))


def test_json_of_another_protocol():
    assert "got 404 'Not Found'" in refusal(says(404, '{"detail": "Not Found"}'))
    assert 'got 200 \'{"object": "list"' in refusal(says(200, '{"object": "list", "inputs": "text"}'))
    assert "got 200 '[1, 2]'" in refusal(says(200, "[1, 2]"))


def test_redirections_are_not_followed_with_questions():
    """Neither is the one of metadata, which often leads from http to https; what is optional may lead anywhere."""
    away = says(308, Location=f"https://elsewhere.example/{SECRET}")
    said = refusal(away, token=SECRET)
    assert "metadata of a model" in said
    assert "got 308, a redirection to https://elsewhere.example/***; give that address" in said

    def act(request):
        (away if request.path.endswith(("/v2", "/ready", "/infer")) else model(VECTORS))(request)

    said = refusal(act)
    assert "answers to 1 sequences of 3 tokens" in said
    assert "got 308, a redirection to https://elsewhere.example" in said


def test_a_server_that_hangs():
    assert "got nothing within 0.2 s (3 times in a row); see whether the server is up" in refusal(hangs, timeout=0.2)

    def act(request):
        (hangs if request.body else model(VECTORS))(request)

    said = refusal(act, timeout=0.7, attempts=2)
    assert "got nothing within 0.7 s (2 times in a row); give timeout= more seconds, or batch= fewer" in said


@pytest.mark.parametrize("datatype", ["INT64", "INT32", "BYTES"])
def test_token_ids_are_no_vectors(datatype):
    said = refusal(model({"name": "input_ids", "datatype": datatype, "shape": [-1, -1]}))
    assert f"expected an input of vectors, got input_ids {datatype} [-1, -1]" in said
    assert "needed is an endpoint that takes embedded tokens (inputs_embeds)" in said


@pytest.mark.parametrize(
    ("inputs", "options", "words"),
    [
        ([VECTORS, VECTORS | {"name": "mask"}], {}, "expected one input, got tokens FP64 [-1, -1, 4], mask FP64"),
        ([VECTORS | {"shape": [-1, 4]}], {}, "expected an input of shape [-1, -1, d]"),
        ([VECTORS | {"shape": [-1, 16, 4]}], {}, "sequences of any length, got tokens FP64 [-1, 16, 4]"),
        ([VECTORS | {"shape": None}], {}, "expected an input of shape [-1, -1, d]"),
        ([VECTORS | {"shape": [-1, -1, "4"]}], {}, "expected an input of shape [-1, -1, d]"),
        ([VECTORS | {"shape": [-1, -1, 0]}], {}, "expected an input of shape [-1, -1, d]"),
        ([VECTORS | {"datatype": ["FP64"]}], {}, "expected an input of vectors"),
        ([VECTORS], {"dim": 0}, "expected dim=4, as the server says"),
        ([VECTORS], {"dim": 5}, "expected dim=4, as the server says"),
        ([VECTORS | {"shape": [-1, -1, -1]}], {}, "expected dim=, since the server does not say it"),
        ([], {}, "expected dim=, since the server does not say what the model's input is"),
        ([VECTORS], {"batch": 0}, "expected batch to be an integer >= 1"),
        ([VECTORS], {"attempts": 0}, "expected attempts to be an integer >= 1"),
        ([VECTORS], {"timeout": -1}, "expected timeout to be a positive number"),
        ([VECTORS], {"timeout": None}, "expected timeout to be a positive number"),
        ([VECTORS], {"place": "last"}, "expected place, where the query token stands"),
        ([VECTORS], {"token": 5}, "expected token= to be a string"),
        ([VECTORS], {"answers": "vector"}, "expected answers to be one of"),
    ],
)
def test_inputs_that_cannot_be_asked(inputs, options, words):
    assert words in refusal(model(*inputs), **options)


@pytest.mark.parametrize("shape", [[-1, -1, -1], [1, -1, 4]])
def test_inputs_that_say_less_or_take_one_sequence_at_a_time(shape):
    with serving(model(VECTORS | {"shape": shape})) as server:
        oracle = gh.from_http(f"{server.url}/v2/models/head", dim=4)
        np.testing.assert_array_equal(oracle(np.ones((5, 2, 4))), np.ones(5))
        sizes = [json.loads(body)["inputs"][0]["shape"][0] for _, _, body in server.seen if body]
    assert max(sizes) == (1 if shape[0] == 1 else 5)


def test_a_server_that_describes_no_tensors():
    with serving(model(outputs=())) as server:
        assert gh.from_http(f"{server.url}/v2/models/head", dim=4, dtype="float32").dim == 4
        sent = json.loads(server.seen[-1][2])["inputs"][0]
    assert (sent["name"], sent["datatype"]) == ("input-0", "FP32")


def outputs(*tensors):
    return json.dumps({"outputs": list(tensors)})


NUMBER = {"name": "y", "datatype": "FP64", "shape": [1], "data": [1.0]}


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ('{"predictions": [1.0]}', "a list of outputs, got '{\"predictions\": [1.0]}'"),
        ("<html>", "expected JSON, got '<html>'"),
        (outputs(), "expected one output, got none; choose one with output="),
        (outputs(NUMBER, NUMBER | {"name": "z"}), "expected one output, got y, z; choose one with output="),
        (outputs(NUMBER | {"shape": [2], "data": [1.0, 2.0]}), "an answer for each of 1 sequences, got shape (2,)"),
        (outputs(NUMBER | {"shape": []}), "got shape ()"),
        (outputs(NUMBER | {"data": ["1.0"]}), 'got "1.0" among them'),
    ],
)
def test_answers_that_are_none(answer, words):
    assert words in refusal(model(VECTORS, answer=answer))


def test_an_output_that_is_not_among_those_that_came():
    assert "expected y, got z" in refusal(model(VECTORS, answer=outputs(NUMBER | {"name": "z"})), output="y")


def test_the_row_of_one_token():
    rows = {"name": "y", "datatype": "FP64", "shape": [1, 3, 2], "data": [1, 2, 3, 4, 5, 6]}
    with serving(model(VECTORS | {"shape": [1, -1, 4]}, answer=outputs(rows))) as server:
        X = np.ones((1, 3, 4))
        np.testing.assert_array_equal(gh.from_http(f"{server.url}/v2/models/head")(X), [[5, 6]])
        np.testing.assert_array_equal(gh.from_http(f"{server.url}/v2/models/head", place=0)(X), [[1, 2]])


def test_https_where_the_server_speaks_http():
    words = r"got no connection \(\[SSL.*\); see whether .* begins with http://"
    with serving(model(VECTORS)) as server, pytest.raises(gh.OracleError, match=words):
        gh.from_http(f"{server.url.replace('http', 'https')}/v2/models/head")


def test_certificates_are_verified(monkeypatch):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    with serving(model(VECTORS), context=context) as server:
        monkeypatch.delenv("SSL_CERT_FILE", raising=False)
        with pytest.raises(gh.OracleError, match=r"got no connection \(.*CERTIFICATE_VERIFY_FAILED.*set SSL_CERT_FILE"):
            gh.from_http(f"{server.url}/v2/models/head")
        assert not server.seen
        monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
        assert gh.from_http(f"{server.url}/v2/models/head", token="secret").dim == 4
