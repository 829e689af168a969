"""What clients of others want of `glasshead serve` beside the protocol; `make interop` runs the clients themselves."""

import socket

import numpy as np
import pytest

import glasshead as gh
from glasshead._serve.process import opened_socket
from tests.serve.running import Running, question

DIM = 4


def answer(data_type, *sizes):
    entry = {"name": "answers", "data_type": data_type, "dims": list(sizes) or [1]}
    return entry if sizes else entry | {"reshape": {"shape": []}}


@pytest.mark.parametrize(
    ("outputs", "options", "output"),
    [
        ((), (), answer("TYPE_FP64")),
        ((3,), ("--max-batch", 7), answer("TYPE_FP64", 3)),
        ((), ("--answers", "sign"), answer("TYPE_BOOL")),
    ],
)
def test_the_model_is_described_as_triton_does(outputs, options, output, tmp_path):
    """perf_analyzer asks nothing before it has seen this; sizes are those of one sequence of a batch."""
    head = gh.Attention.random(DIM, seed=1)
    head = gh.Attention(head.W, np.ones((DIM, *outputs)))
    gh.save(head, tmp_path / "head.safetensors")
    with Running(tmp_path / "head.safetensors", *options) as server:
        status, found, _ = server.ask(server.path + "/config")
        assert (status, found) == (
            200,
            {
                "name": "head",
                "platform": "glasshead",
                "backend": "",
                "max_batch_size": 7 if "--max-batch" in options else 1024,
                "input": [{"name": "tokens", "data_type": "TYPE_FP64", "dims": [-1, DIM]}],
                "output": [output],
            },
        )
        assert server.ask("/versions/1/config")[:2] == (status, found)
        assert server.ask("/versions/2/config")[0] == server.ask("/v2/models/nobody/config")[0] == 404


def test_answers_are_sent_without_waiting():
    """asyncio switches Nagle's algorithm off only where it sees that the protocol is TCP; else an answer, which leaves
    in two parts, waits 40 ms for a client that acknowledges late."""
    with opened_socket("127.0.0.1", 0) as listener, socket.create_connection(listener.getsockname()):
        connection, _ = listener.accept()
        with connection:
            assert listener.proto == connection.proto == socket.IPPROTO_TCP


@pytest.mark.parametrize("parameters", [{"classification": 1}, {"shared_memory_region": "x", "binary_data": True}])
def test_what_is_not_served_is_refused(parameters, tmp_path):
    """tritonclient can ask for the largest answers, or to have them elsewhere: others in their place would be wrong."""
    gh.save(gh.Attention.random(DIM, seed=1), tmp_path / "head.safetensors")
    with Running(tmp_path / "head.safetensors") as server:
        outputs = [{"name": "answers", "parameters": parameters}]
        status, found, _ = server.ask("/infer", question(DIM, outputs=outputs))
        assert (status, next(iter(parameters)) in found["error"]) == (400, True)
        assert server.ask("/infer", question(DIM, outputs=[{"name": "answers", "parameters": {"other": 1}}]))[0] == 200
