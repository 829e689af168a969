"""`glasshead serve` as a process: what it serves is recovered as if it were here, in every way it can be asked."""

import json
import re
import shlex
import signal
from pathlib import Path

import numpy as np
import pytest

import glasshead as gh
from glasshead._cli import serve
from tests.serve.running import HEADER, Running, question

DIM = 4
HEAD = gh.Attention.random(DIM, seed=1)
LAYER = gh.MultiHead.random(DIM, 2, seed=2)
RNG = np.random.default_rng(0)
X = RNG.standard_normal((3, 2, DIM))


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    path = tmp_path_factory.mktemp("served") / "head.safetensors"
    gh.save(HEAD, path)
    with Running(path) as running:
        yield running


@pytest.mark.parametrize("binary", [True, False])
def test_a_served_head_is_recovered_as_if_it_were_here(server, binary):
    oracle = gh.from_http(server.url, binary=binary)
    found, local = gh.recover(oracle), gh.recover(gh.ValueOracle(HEAD))
    np.testing.assert_array_equal(found.model.W, local.model.W)
    np.testing.assert_array_equal(found.model.v, local.model.v)
    assert (found.bound, found.reason) == (local.bound, local.reason)
    assert found.queries == local.queries + oracle.looked


def test_signs_are_recovered_too(server, tmp_path):
    small = gh.Attention.random(3, seed=1)
    gh.save(small, tmp_path / "signs.safetensors")
    with Running(tmp_path / "signs.safetensors", "--answers", "sign", "--name", "yes.or-no") as running:
        assert running.url.endswith("/v2/models/yes.or-no")
        assert running.ask()[1]["outputs"] == [{"name": "answers", "datatype": "BOOL", "shape": [-1]}]
        assert running.ask("/infer", question(3))[1]["outputs"][0]["data"] in ([True], [False])
        found = gh.recover(gh.from_http(running.url, answers="sign"), accuracy=1e-2)
    local = gh.recover(gh.SignOracle(small), accuracy=1e-2)
    np.testing.assert_array_equal(found.model.W, local.model.W)
    assert gh.distance(found.model, small, up_to_scale=True) < 1e-2


def test_a_run_s_folder_with_answers_of_several_numbers_and_every_defence(tmp_path):
    found = gh.recover(gh.ValueOracle(LAYER))
    found.save(tmp_path / "run")
    options = ("--decimals", 3, "--noise", 0.01, "--max-norm", 1.5, "--seed", 4)
    box = gh.defences.clipped(found.model, 1.5)
    box = gh.defences.rounded(gh.defences.noisy(box, 0.01, seed=4), 3)
    with Running(tmp_path / "run", *options) as running:
        oracle = gh.from_http(running.url)
        np.testing.assert_array_equal(oracle(X), box(X))
        assert running.ask()[1]["outputs"][0]["shape"] == [-1, *np.shape(LAYER(X))[1:]]


def test_every_address(server):
    about = {
        "name": "glasshead",
        "version": gh.__version__,
        "extensions": ["binary_tensor_data", "model_configuration"],
    }
    assert server.ask("/v2")[:2] == (200, about)
    assert server.ask("/v2/health/live")[:2] == (200, {"live": True})
    assert server.ask("/v2/health/ready")[:2] == (200, {"ready": True})
    metadata = {
        "name": "head",
        "versions": ["1"],
        "platform": "glasshead",
        "inputs": [{"name": "tokens", "datatype": "FP64", "shape": [-1, -1, DIM]}],
        "outputs": [{"name": "answers", "datatype": "FP64", "shape": [-1]}],
    }
    for version in ("", "/versions/1"):
        assert server.ask(version)[:2] == (200, metadata)
        assert server.ask(f"{version}/ready")[:2] == (200, {"name": "head", "ready": True})
        answer = HEAD(np.full((1, 1, DIM), 0.5)).tolist()
        status, message, _ = server.ask(f"{server.path}{version}/infer", question(DIM, id="7"))
        assert (status, message["id"], message["outputs"][0]["data"]) == (200, "7", answer)
    assert "id" not in server.ask("/infer", question(DIM))[1]


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("datatype", ["FP64", "FP32"])
def test_json(server, datatype, nested):
    data = X.astype("f8" if datatype == "FP64" else "f4").astype(float)
    entry = {"shape": list(X.shape), "datatype": datatype, "data": data.tolist() if nested else data.ravel().tolist()}
    status, message, _ = server.ask("/infer", question(DIM, entry=entry))
    (output,) = message["outputs"]
    assert (status, output["name"], output["shape"], output["datatype"]) == (200, "answers", [3], "FP64")
    assert output["data"] == HEAD(data).tolist()


@pytest.mark.parametrize(("datatype", "kind"), [("FP64", "<f8"), ("FP32", "<f4"), ("FP16", "<f2"), ("BF16", "<u2")])
@pytest.mark.parametrize("wanted", ["everywhere", "this output", "not this output"])
def test_binary(server, datatype, kind, wanted):
    short = np.round(16 * X) / 16  # in every format
    data = (short.astype("<f4").view("<u4") >> 16 if datatype == "BF16" else short).astype(kind).tobytes()
    entry = {"name": "tokens", "shape": list(X.shape), "datatype": datatype}
    message = {"inputs": [entry | {"parameters": {"binary_data_size": len(data)}}], "id": "binary"}
    message["parameters"] = {"binary_data_output": wanted != "this output"}
    if wanted != "everywhere":
        message["outputs"] = [{"name": "answers", "parameters": {"binary_data": wanted == "this output"}}]
    head = json.dumps(message).encode()
    status, answer, headers = server.ask("/infer", head + data, **{HEADER: len(head)})
    assert status == 200
    if wanted == "not this output":
        assert answer["outputs"][0]["data"] == HEAD(short).tolist()
    else:
        end = int(headers[HEADER.lower()])
        assert json.loads(answer[:end])["id"] == "binary"
        np.testing.assert_array_equal(np.frombuffer(answer[end:], "<f8"), HEAD(short))


def test_the_page_describes_what_there_is(server):
    status, page, _ = server.ask("/openapi.json")
    assert status == 200
    infer = page["paths"]["/v2/models/{name}/infer"]["post"]
    reference = infer["requestBody"]["content"]["application/json"]["schema"]["$ref"]
    assert page["components"]["schemas"][reference.rpartition("/")[2]]["required"] == ["inputs"]
    assert {"200", "400", "401", "403", "404", "413", "429"} <= set(infer["responses"])
    named = set(re.findall(r'"#/components/schemas/(\w+)"', json.dumps(page)))
    assert named <= set(page["components"]["schemas"])
    assert server.ask("/docs")[0] == 200


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_it_stops_when_it_is_told_to(tmp_path, how):
    gh.save(HEAD, tmp_path / "head.safetensors")
    with Running(tmp_path / "head.safetensors") as running:
        assert running.ask("/ready")[0] == 200
        assert running.stop(how) == (0, "stopped\n")


def test_help_has_examples_that_work(cli, folder):
    gh.recover(gh.ValueOracle(HEAD)).save("runs/first")
    shown = cli("serve", "--help")
    examples = re.findall(r"\[cyan\]glasshead (.*?)\[/\]", serve.EXAMPLES)
    assert (shown.code, len(examples)) == (0, 4)
    for example in examples:
        assert example in shown.words
        command, model, *options = shlex.split(re.sub(r"--port \d+", "", example))
        assert command == "serve"
        with Running(Path(model).absolute(), *options) as running:
            dim = running.ask()[1]["inputs"][0]["shape"][2]
            assert running.ask("/infer", question(dim))[0] == 200
