"""Recoveries are noticed early, clients that send words never."""

import numpy as np
import pytest
from bench import stored
from bench import watch as measured
from bench import watch_others as others

import glasshead as gh
from glasshead._serve import Watch
from tests.serve.honest import Habits, batches, vocabulary
from tests.serve.others import KINDS, asked
from tests.serve.running import Running


def watched(box, dim, watch):
    def f(X):
        for x in X:
            watch.see(x[None])
        return box(X)

    f.dim = dim
    return f


def network(X):
    return np.tanh(gh.Transformer.random(16, 32, seed=1)(X))


@pytest.mark.parametrize(
    ("box", "dim", "asked", "promise"),
    [
        (gh.Attention.random(64, seed=1), 64, {}, {}),
        (gh.Attention.random(64, seed=2), 64, {}, {"max_norm": 1.0}),
        (gh.MultiHead.random(32, 4, rank=8, seed=1), 32, {}, {}),
        (network, 16, {"family": "any-network"}, {}),
        (gh.Block.random(16, 2, seed=1), 16, {"family": "block"}, {}),
    ],
)
def test_recoveries_are_noticed_within_50_queries(box, dim, asked, promise):
    watch = Watch()
    gh.recover(gh.ValueOracle(watched(box, dim, watch), **promise), **asked)
    assert watch.noticed
    assert watch.sequences <= 50


def test_recoveries_from_signs_too():
    watch = Watch()
    gh.recover(gh.SignOracle(watched(gh.Attention.random(8, seed=1), 8, watch)), accuracy=1e-2)
    assert watch.noticed
    assert watch.sequences <= 50


@pytest.mark.parametrize("dim", [4, 8, 64])
def test_words_are_not(dim):
    rng = np.random.default_rng(dim)
    table = vocabulary(dim, rng)
    for _ in range(20):
        watch, habits = Watch(), Habits.random(rng)
        for X, roundoff in batches(table, habits, 200, rng):
            assert watch.see(X, roundoff) is None, habits
        assert watch.sequences == 200
        assert watch.score < 6, habits


@pytest.mark.parametrize(
    "X",
    [
        np.zeros((100, 3, 8)),
        np.ones((100, 2, 8)),
        np.full((100, 2, 8), 1e308),
        np.full((100, 2, 8), 5e-324),
        np.eye(100)[:, None, :3],
        np.zeros((0, 1, 8)),
    ],
)
def test_numbers_that_say_nothing(X):
    assert Watch().see(X) is None


def test_it_says_when_and_why_and_only_once():
    watch, rng = Watch(), np.random.default_rng(0)
    token = rng.standard_normal(8)
    scaled = np.linspace(1, 2, 40)[:, None, None] * token
    assert watch.see(rng.standard_normal((5, 30, 8))) is None
    assert watch.see(scaled) == {"sequences": 18, "moved": 12, "right angles": 0, "lengths": 0}
    assert watch.see(scaled) is None
    watch, together = Watch(), rng.standard_normal((40, 2, 8)) * np.array([[1.0], [5000.0]])
    assert watch.see(together) == {"sequences": 12, "moved": 0, "right angles": 0, "lengths": 12}


def test_tokens_that_are_repeated_or_zero_make_no_sentence():
    seen, padded = Watch().see(np.eye(40)[:, None]), np.zeros((40, 50, 40))
    padded[:, 10:30] = np.eye(40)[:, None]
    assert Watch().see(padded) == seen == {"sequences": 13, "moved": 0, "right angles": 12, "lengths": 0}
    padded[:, 30:] = np.random.default_rng(0).standard_normal((40, 20, 40))
    assert Watch().see(padded) is None


def test_a_server_warns_once_of_a_recovery_and_of_nobody_else(tmp_path):
    gh.save(gh.Attention.random(16, seed=1), tmp_path / "head.safetensors")
    rng = np.random.default_rng(1)
    with Running(tmp_path / "head.safetensors", "--watch", token="one,two") as running:
        honest = gh.from_http(running.url, token="two")
        for X, _ in batches(vocabulary(16, rng), Habits("any", True, "behind", True, 0.1, "float64"), 100, rng):
            honest(X)
        found = gh.recover(gh.from_http(running.url, token="one"))
        warnings = [line for line in running.lines if line.get("level") == "warning"]
    (warning,) = warnings
    assert (warning["client"], warning["message"]) == ("token 1", "asks as a recovery does")
    assert warning["sequences"] <= 50 < found.queries


def test_the_record_meets_its_limits_and_a_miss_gets_a_sentence():
    record = stored.load("watch")
    assert list(measured.broken(record)) == []
    record["rows"][0]["noticed"], record["honest"]["noticed"] = 51, 1
    assert len(list(measured.broken(record))) == 2


@pytest.mark.parametrize("kind", ["one-hot", "scaled", "hardly changing"])
def test_what_it_is_wrong_about(kind):
    rng = np.random.default_rng(0)
    sent = {
        "one-hot": np.eye(16)[rng.integers(16, size=100)],
        "scaled": rng.standard_normal(16) * rng.uniform(1, 2, (100, 1)),
        "hardly changing": 20 + np.cumsum(1e-3 * rng.standard_normal((100, 16)), axis=0),
    }[kind]
    assert Watch().see(sent[:, None]) is not None


def test_so_does_the_record_of_what_the_thresholds_were_not_chosen_on():
    record = stored.load("watch")["others"]
    assert list(others.broken(record)) == []
    assert sum(row["queries"] > 4000 for row in record["rows"]) >= 12
    assert sum(kind["clients"] for kind in record["honest"]) >= 1000
    record["rows"][0]["noticed"], record["honest"][0]["noticed"] = 10**6, 1
    assert len(list(others.broken(record))) == 2


@pytest.mark.parametrize("kind", KINDS)
def test_clients_that_send_no_sentences_are_not_noticed(kind):
    for client in range(5):
        rng, watch = np.random.default_rng([8, client]), Watch()
        for X, roundoff in asked(kind, 12, 100, rng):
            assert watch.see(X, roundoff) is None
        assert watch.score < 6
