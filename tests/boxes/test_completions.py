"""Language models that take vectors as prompts: what is read of them, and what stands in the way is named."""

import os
import subprocess
import sys

import numpy as np
import pytest
import torch

import glasshead as gh
from tests.boxes.completions_server import DIM, HEAD_DIM, TOKEN, VOCABULARY, head, llama

ALL = range(VOCABULARY)
X = np.random.default_rng(3).standard_normal((7, 5, DIM))
WITHIN = 1e-5  # of float32 logits, which are about 3


@pytest.fixture(scope="module")
def server():
    """The address of a server process, with a place for its manners."""
    command = [sys.executable, "-m", "tests.boxes.completions_server"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ) as process:
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
        process.stdin.close()
        process.wait(timeout=30)


@pytest.fixture(scope="module")
def logits():
    """The model's own, after each of `X`."""
    with torch.no_grad():
        return llama(torch.float32)(inputs_embeds=torch.tensor(X, dtype=torch.float32)).logits[:, -1].numpy()


def asked(server, manners="", model="float32", token_ids=ALL, dim=DIM, **kw):
    return gh.from_completions(f"{server}/{manners}".rstrip("/"), model, token_ids, dim=dim, **kw)


def test_logits_are_the_models_own(server, logits):
    oracle = asked(server, "logits")
    assert np.abs(oracle(X) - logits).max() < WITHIN
    assert "answers are logits" in oracle.notes
    assert "vectors are sent as float32" in oracle.notes


@pytest.mark.parametrize("kw", [{}, {"logprobs": -1}, {"logprobs": VOCABULARY}])
def test_differences_of_log_probabilities_are_differences_of_logits(server, logits, kw):
    oracle = asked(server, token_ids=[5, 2, 30, 11], **kw)
    assert np.abs(oracle(X) - (logits[:, [2, 30, 11]] - logits[:, [5]])).max() < WITHIN
    assert any("above that of token 5" in note for note in oracle.notes)


def test_every_sequence_counts(server):
    oracle = asked(server)
    assert oracle.looked == oracle.queries == 4 + 8  # two vectors and one in two narrower formats; batches
    oracle(X)
    assert oracle.queries - oracle.looked == len(X)


def test_a_server_that_takes_fewer_prompts_gets_fewer(server, logits):
    oracle = asked(server, "few")
    before = oracle.queries
    assert oracle(X).shape == (len(X), VOCABULARY - 1)
    assert oracle.queries - before == 2 * len(X)
    assert oracle.resent == len(X)
    oracle(X)
    assert oracle.queries - before == 3 * len(X)


def test_a_busy_server_is_asked_again_and_all_is_counted(server):
    oracle = asked(server, "busy")
    assert oracle.resent > 0
    assert oracle.queries - oracle.resent == 4 + 8
    assert (oracle(X) == asked(server)(X)).all()


@pytest.mark.parametrize("manners", ["logits", ""])
def test_a_head_of_float64_is_recovered(server, manners):
    oracle = asked(server, manners, "head", range(3), dim=HEAD_DIM, dtype="float64")
    v = head().v if manners == "logits" else head().v[:, 1:] - head().v[:, :1]
    assert gh.distance(gh.recover(oracle).model, gh.Attention(head().W, v)) < 1e-9


def test_a_head_behind_float32_log_probabilities_is_recovered_within_the_bound(server):
    """Small differences of them have few digits: a tolerance is promised for that."""
    oracle = asked(server, model="head32", token_ids=range(3), dim=HEAD_DIM)
    assert 1e-7 < oracle.tolerance < 1e-5
    assert any("which are known to" in note for note in oracle.notes)
    found = gh.recover(oracle)
    assert np.linalg.norm(found.model.W - head().W) < found.bound < 1e-3
    assert asked(server, model="head32", token_ids=range(3), dim=HEAD_DIM, tolerance=1e-4).tolerance == 1e-4
    assert asked(server, "logits", "head32", range(3), dim=HEAD_DIM).tolerance == 0
    assert asked(server, "", "head", range(3), dim=HEAD_DIM, dtype="float64").tolerance == 0


def test_signs_of_a_difference(server, logits):
    oracle = asked(server, token_ids=[5, 2], answers="sign")
    assert (oracle(X) == (logits[:, 2] > logits[:, 5])).all()


def test_vectors_that_are_rounded_inside_are_noticed(server):
    oracle = asked(server, model="bfloat16")
    assert "vectors are sent as float32, and rounded to bfloat16 inside" in oracle.notes
    assert oracle.roundoff == 2.0**-8
    assert asked(server, model="bfloat16", dtype="bfloat16").roundoff == 2.0**-8


def test_a_float64_promise_that_is_not_kept_is_noticed(server):
    assert "vectors are sent as float64, and rounded to float32 inside" in asked(server, dtype="float64").notes


@pytest.mark.parametrize("end", ["", "/", "/v1", "/v1/", "/v1/completions"])
def test_addresses_that_mean_the_same(server, end):
    assert gh.from_completions(server + end, "float32", ALL, dim=DIM)(X[:1]).shape == (1, VOCABULARY - 1)


def test_a_server_that_does_not_list_its_models(server):
    assert asked(server, "unlisted").notes[0] == f"float32 at {server}/unlisted/v1"


@pytest.mark.parametrize(
    ("manners", "kw", "words"),
    [
        ("closed", {}, "400 'You must set .*; start the server with --enable-prompt-embeds"),
        ("text", {}, "422 'body.prompt: .*not with text or token ids: needed is .*--enable-prompt-embeds"),
        ("deaf", {}, "depend on the vectors.*may overlook prompt_embeds"),
        ("single", {}, "expected 4 choices, one for each prompt, got 1"),
        ("silent", {}, "expected top_logprobs.*needed is a server that answers logprobs"),
        ("texts", {}, "tokens by their text.*return_tokens_as_token_ids"),
        ("top", {"token_ids": range(20)}, "only the 20 most probable, without .*give logprobs=-1.*--max-logprobs -1"),
        ("capped", {"logprobs": -1}, "greater than max allowed: 5'; start the server with --max-logprobs -1"),
        ("endless", {}, "for token 2, got -9999.0, which servers write for -9999 and all below"),
        ("null", {}, "expected a number for token 2, got None"),
        ("short", {}, "64 tokens and one more.*got 32; start the server with a larger --max-model-len"),
        ("secret", {"token": ""}, "401 .*; give token=, or set GLASSHEAD_TOKEN"),
        ("", {"dim": 8}, "hidden_size 16.*; give the model's as dim="),
        ("unlisted", {"model": "bert"}, "404 'The model `bert` does not exist.'; see which models the server has"),
    ],
)
def test_what_stands_in_the_way_is_named(server, manners, kw, words):
    with pytest.raises(gh.OracleError, match=words):
        asked(server, manners, **kw)


def test_numbers_that_overflow(server):
    oracle = asked(server, model="head", token_ids=range(3), dim=HEAD_DIM, dtype="float64")
    with pytest.raises(gh.OracleError, match=r"Out of range float.*give max_norm="):
        oracle(1e200 * X[:, :, :HEAD_DIM])


def test_a_token_is_sent_and_never_shown(server):
    assert asked(server, "secret", token=TOKEN)(X[:1]).shape == (1, VOCABULARY - 1)
    with pytest.raises(gh.OracleError, match="see whether the token is the right one") as caught:
        asked(server, "secret", token="an0ther-0ne")
    assert "an0ther-0ne" not in str(caught.value)


@pytest.mark.parametrize(
    ("kw", "words"),
    [
        ({"token_ids": []}, "expected token_ids to be different tokens"),
        ({"token_ids": [1, 1]}, "expected token_ids to be different tokens"),
        ({"token_ids": [-1, 2]}, "expected each of token_ids to be an integer >= 0"),
        ({"token_ids": [3]}, "expected at least two token_ids"),
        ({"dim": None}, "expected dim=, the length of the model's vectors"),
        ({"dtype": "int8"}, "expected dtype to be one of float64"),
        ({"logprobs": -2}, "expected logprobs to be an integer >= -1"),
        ({"batch": 0}, "expected batch"),
        ({"answers": "logits"}, "expected answers to be one of"),
        ({"model": "bert"}, "expected model to be one that .* has, 'float32', .*, got 'bert'"),
    ],
)
def test_arguments_that_cannot_be_meant(server, kw, words):
    with pytest.raises(ValueError, match=words):
        asked(server, **kw)
