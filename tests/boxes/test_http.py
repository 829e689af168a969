"""`gh.from_http` against a real server of the Open Inference Protocol that does to clients what servers do."""

import numpy as np
import pytest

import glasshead as gh
from tests.boxes.served import Served

DIM = 4
HEAD = gh.Attention.random(DIM, seed=1)
LAYER = gh.MultiHead.random(DIM, 2, seed=2)
SECRET = "s3cr3t-t0ken"
RNG = np.random.default_rng(0)


def alone(X):
    """What the server computes: every sequence on its own."""
    return np.array([HEAD(np.array(x)) for x in X])


LOCAL = gh.recover(gh.ValueOracle(alone, DIM))


@pytest.fixture(scope="module")
def process(tmp_path_factory):
    path = tmp_path_factory.mktemp("served") / "head.safetensors"
    gh.save(HEAD, path)
    with Served(path) as server:
        yield server


@pytest.fixture
def server(process):
    process.change()
    return process


def same(found):
    """Bit for bit what a recovery finds without a server in between."""
    return all(np.array_equal(getattr(found.model, name), getattr(LOCAL.model, name)) for name in ("W", "v"))


def test_the_query_token_is_put_at_its_place(server):
    X = RNG.standard_normal((3, 4, DIM))
    oracle = gh.from_http(server.url, place=0)
    np.testing.assert_array_equal(oracle(X), alone(np.roll(X, 1, axis=1)))
    assert "the last row of a sequence is put first, and answered there" in oracle.notes


@pytest.mark.parametrize(
    ("options", "how"),
    [
        ({}, "in binary"),
        ({"json_only": True}, "as JSON"),
        ({"json_only": True, "nested": True}, "as JSON"),
        ({"column": True}, "in binary"),
        ({"json_only": True, "nested": True, "column": True}, "as JSON"),
    ],
)
def test_a_served_head_is_recovered_as_if_it_were_here(server, options, how):
    server.change(**options)
    oracle = gh.from_http(server.url)
    found = gh.recover(oracle)
    assert same(found)
    assert gh.distance(found.model, HEAD) < 1e-13
    assert (found.bound, found.reason) == (LOCAL.bound, LOCAL.reason)
    assert oracle.notes == (
        f"head of tests 2, asked with FP64 {how}",
        "answers are repeated bit for bit, alone and in a batch",
    )
    assert found.queries == LOCAL.queries + oracle.looked == server.stats()["answered"] == server.stats()["received"]


def test_an_address_with_a_version_and_one_that_ends_in_infer(server):
    X = RNG.standard_normal((3, 2, DIM))
    for url in (f"{server.url}/versions/1", f"{server.url}/infer", f"{server.url}/"):
        np.testing.assert_array_equal(gh.from_http(url)(X), alone(X))


def test_json_where_binary_would_be_possible(server):
    oracle = gh.from_http(server.url, binary=False)
    assert "as JSON" in oracle.notes[0]
    X = RNG.standard_normal((3, 2, DIM))
    np.testing.assert_array_equal(oracle(X), alone(X))
    with pytest.raises(ValueError, match='binary to be True, False or "auto"'):
        gh.from_http(server.url, binary="yes")


@pytest.mark.parametrize(("datatype", "bits"), [("FP32", 24), ("FP16", 11), ("BF16", 8)])
def test_shorter_formats(server, datatype, bits):
    server.change(datatype=datatype)
    oracle = gh.from_http(server.url)
    X = np.round(RNG.standard_normal((5, 2, DIM)) * 16) / 16  # in every format
    np.testing.assert_allclose(oracle(X), alone(X), rtol=2.0 ** (1 - bits))
    assert oracle.roundoff == 2.0**-bits
    with pytest.raises(ValueError, match=f"since the model takes {datatype}, got 'float64'"):
        gh.from_http(server.url, dtype="float64")
    server.change(datatype=datatype, json_only=True)
    if datatype != "FP32":
        with pytest.raises(gh.OracleError, match=f"got {datatype}, which travels only in binary.*binary_tensor_data"):
            gh.from_http(server.url)


def test_float32_is_recovered_to_the_digits_it_has(server):
    server.change(datatype="FP32", json_only=True)
    assert gh.distance(gh.recover(gh.from_http(server.url)).model, HEAD) < 1e-4


def test_answers_of_several_numbers(server, tmp_path):
    gh.save(LAYER, tmp_path / "layer.safetensors")
    server.change(model=str(tmp_path / "layer.safetensors"))
    X = RNG.standard_normal((3, 2, DIM))
    np.testing.assert_allclose(gh.from_http(server.url)(X), LAYER(X), rtol=1e-13)


def test_signs(server):
    oracle = gh.from_http(server.url, answers="sign")
    X = RNG.standard_normal((50, 2, DIM))
    np.testing.assert_array_equal(oracle(X), alone(X) > 0)


def test_one_of_several_outputs(server):
    server.change(outputs=["first", "second"])
    with pytest.raises(ValueError, match="output= to be one of first, second, got None"):
        gh.from_http(server.url)
    with pytest.raises(ValueError, match="output= to be one of first, second, got 'third'"):
        gh.from_http(server.url, output="third")
    X = RNG.standard_normal((3, 2, DIM))
    for binary in (True, False):
        np.testing.assert_array_equal(gh.from_http(server.url, output="second", binary=binary)(X), alone(X) + 1)


@pytest.mark.parametrize("answers", ["value", "sign"])
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"spoil": "nan"}, "finite"),
        ({"spoil": "nan", "json_only": True}, "finite"),
        ({"spoil": "null", "json_only": True}, "got null among them"),
        ({"wrong_id": True}, "got one with 'another': not to this request"),
    ],
)
def test_what_is_no_answer_is_never_one(server, options, words, answers):
    server.change(**options)
    with pytest.raises(gh.OracleError, match=words):
        gh.from_http(server.url, answers=answers)


@pytest.mark.parametrize("words", [False, True])
def test_a_server_that_takes_few_sequences_at_a_time(server, words):
    server.change(most=5, words=words)
    oracle = gh.from_http(server.url)
    found = gh.recover(oracle)
    stats = server.stats()
    assert same(found)
    assert stats["refused"] >= 2
    assert found.queries == stats["received"] == LOCAL.queries + oracle.looked + oracle.resent
    assert stats["answered"] == LOCAL.queries + oracle.looked


def test_requests_grow_again_where_the_server_takes_more(server):
    server.change(most=8)
    oracle = gh.from_http(server.url, batch=64)
    X = RNG.standard_normal((640, 2, DIM))
    np.testing.assert_array_equal(oracle(X), alone(X))
    assert server.stats()["refused"] == 4  # of 64, 32, 16, and of 16 again after a while
    server.change()
    np.testing.assert_array_equal(np.concatenate([oracle(X) for _ in range(4)]), np.tile(alone(X), 4))
    assert server.stats()["largest"] == 64


def test_a_single_sequence_that_is_too_large_is_said(server):
    server.change(most=0)
    with pytest.raises(gh.OracleError, match=r"answers to 1 sequences of 3 tokens.*got 413 'Request Entity Too Large'"):
        gh.from_http(server.url)


@pytest.mark.parametrize("status", [503, 400])
def test_a_model_that_is_not_ready_is_waited_for(server, status):
    server.change(not_ready=0.3, not_ready_status=status)
    assert gh.from_http(server.url).dim == DIM
    server.change(not_ready=1000, not_ready_status=status)
    with pytest.raises(gh.OracleError, match=rf"got {status} '.*\"ready\": false.*2 times in a row.*try again later"):
        gh.from_http(server.url, attempts=2)


def test_binary_where_the_server_cannot_read_it(server):
    server.change(json_only=True)
    with pytest.raises(gh.OracleError, match=r"got 400 'unexpected FP64'; see what .* log says, or try binary=False"):
        gh.from_http(server.url, binary=True)


def test_a_model_that_is_not_there(server):
    url = server.url.replace("head", "other")
    with pytest.raises(
        gh.OracleError, match=r"expected metadata of a model at .*/other, got 404 'nothing at /v2/models"
    ):
        gh.from_http(url)


def test_a_server_that_wants_a_token(server, monkeypatch):
    server.change(token=SECRET)
    with pytest.raises(gh.OracleError, match=r"got 401 'who is None\?'; give token=, or set GLASSHEAD_TOKEN"):
        gh.from_http(server.url)
    with pytest.raises(
        gh.OracleError, match=r"got 401 'who is Bearer \*\*\*\?'; see whether the token is the right one"
    ) as error:
        gh.from_http(server.url, token="mistaken")
    assert "mistaken" not in str(error.value)
    monkeypatch.setenv("GLASSHEAD_TOKEN", SECRET)
    oracle = gh.from_http(server.url)
    assert SECRET not in repr(oracle) + repr(oracle._f) + repr(vars(oracle._f)["_transport"]) + str(oracle.notes)
    monkeypatch.delenv("GLASSHEAD_TOKEN")
    server.change(token="changed")  # so that the next request is refused with what it sent
    with pytest.raises(gh.OracleError, match=r"who is Bearer \*\*\*\?") as error:
        oracle(np.ones((1, 2, DIM)))
    assert SECRET not in str(error.value)


FAULTS = ("busy", "limit", "unread", "dropped", "late", "truncated")


@pytest.mark.parametrize("kinds", [*([kind] for kind in FAULTS), FAULTS])
def test_a_fifth_of_all_requests_goes_wrong(server, kinds):
    server.change(faults=0.2, kinds=kinds, late=0.5, seed=3)
    oracle = gh.from_http(server.url, timeout=0.3 if "late" in kinds else 20)
    found = gh.recover(oracle)
    stats = server.stats()
    assert same(found)
    assert sum(stats[kind] for kind in kinds) >= 5
    assert found.queries == oracle.queries == LOCAL.queries + oracle.looked + oracle.resent
    assert found.queries >= stats["received"] >= LOCAL.queries
    if not {"unread", "late"} & set(kinds):
        assert found.queries == stats["received"]


def test_a_server_that_is_killed_and_started_again_and_again(tmp_path):
    gh.save(HEAD, tmp_path / "head.safetensors")
    with Served(tmp_path / "head.safetensors", "--sleep", 0.005) as server:
        oracle = gh.from_http(server.url)
        with server.killed_now_and_then(seed=1, least=0.05, most=0.3) as kills:
            found = gh.recover(oracle)
    assert kills
    assert same(found)
    assert found.queries == LOCAL.queries + oracle.looked + oracle.resent


@pytest.mark.parametrize("status", [503, 400, 404])
def test_a_model_that_is_loaded_again_in_the_middle(server, status):
    oracle = gh.from_http(server.url)
    server.change(not_ready=0.2, not_ready_status=status)
    X = RNG.standard_normal((3, 2, DIM))
    np.testing.assert_array_equal(oracle(X), alone(X))
    assert oracle.resent == server.stats()["received"] - 3 > 0
