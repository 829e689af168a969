"""Replicas on a Ray cluster: recoveries are those of one process, whatever becomes of the replicas meanwhile.

All tests of a process share one cluster, which ends with the oracle that has started it.
"""

import doctest
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import ray

import glasshead as gh
from glasshead._boxes import ray as adapter
from glasshead._cli.app import run

from . import replicated
from .replicated import HEAD, Mortal, deaths_in, one_by_one, same, seen_in

ROOT = Path(__file__).parents[2]
LOCAL = gh.recover(gh.ValueOracle(one_by_one, 8))
X = np.random.default_rng(0).standard_normal((9, 4, 8))


@pytest.fixture(scope="session", autouse=True)
def shared():
    oracle = gh.from_ray(lambda: one_by_one, 8, 2)
    yield oracle
    oracle.close()


def actors_of(oracle):
    return oracle._f._actors


def test_replicas_recover_as_one_process_does(shared):
    before = shared.queries
    found = gh.recover(shared)
    assert same(found, LOCAL)
    assert found.queries == LOCAL.queries + shared.looked
    assert (shared.queries - before, shared.resent) == (LOCAL.queries, 0)
    assert shared.notes[0] == "answered by 2 replicas on a Ray cluster"


def test_the_example_runs():
    examples = doctest.DocTestFinder().find(gh.from_ray, globs={"gh": gh})
    assert doctest.DocTestRunner().run(examples[0]) == (0, 3)


def test_signs_several_numbers_and_boxes_that_work_in_place():
    signs = gh.from_ray(lambda: one_by_one, 8, 1, answers="sign", batch=2)
    assert np.array_equal(signs(X), one_by_one(X) > 0)
    large = np.random.default_rng(1).standard_normal((300, 50, 8))  # comes read-only out of shared memory
    several = gh.from_ray(lambda: replicated.in_place, 8, 1)
    assert np.array_equal(several(large), replicated.three_numbers(large))


def test_replicas_that_end_their_own_process(tmp_path):
    oracle = gh.from_ray(lambda: Mortal(tmp_path, life=30, deaths=2), 8, 2)
    found = gh.recover(oracle)
    assert deaths_in(tmp_path) == 2
    assert same(found, LOCAL)
    assert found.queries == oracle.queries == LOCAL.queries + oracle.looked + oracle.resent
    assert LOCAL.queries + oracle.looked < seen_in(tmp_path) <= oracle.queries


@pytest.mark.parametrize("for_good", [False, True])
def test_a_replica_killed_from_outside(tmp_path, for_good):
    """Ray restarts one that is killed; one that is killed for good is replaced."""
    oracle = gh.from_ray(lambda: Mortal(tmp_path, life=10**6), 8, 2)
    asked = []

    def box(X):
        asked.append(len(X))
        if len(asked) == 10:
            ray.kill(actors_of(oracle)[0], no_restart=for_good)
        return oracle(X)

    assert same(gh.recover(gh.ValueOracle(box, 8)), LOCAL)
    for _ in range(200):  # the other replica does it alone until a new one is there
        if len(list(tmp_path.glob("seen-*"))) == 3:
            break
        box(X)
        time.sleep(0.05)
    assert len(list(tmp_path.glob("seen-*"))) == 3
    assert oracle.queries == oracle.looked + sum(asked) + oracle.resent
    assert seen_in(tmp_path) <= oracle.queries


def test_a_run_is_resumed_with_other_replicas(tmp_path, shared):
    class Power(BaseException):
        pass

    def stopping(done, planned, what):
        if done > 60:
            raise Power

    with pytest.raises(Power):
        gh.recover(shared, journal=tmp_path / "run.sqlite", progress=stopping)
    alone = gh.from_ray(lambda: Mortal(tmp_path, life=10**6), 8, 1)
    found = gh.recover(alone, journal=tmp_path / "run.sqlite")
    assert same(found, LOCAL)
    assert seen_in(tmp_path) < alone.looked + LOCAL.queries - 50  # the rest was in the journal
    assert LOCAL.queries + shared.looked + alone.looked < found.queries  # the first batch was asked again


def test_a_part_that_ends_every_replica(monkeypatch, tmp_path):
    monkeypatch.setattr(adapter, "PART_ATTEMPTS", 2)
    oracle = gh.from_ray(lambda: Mortal(tmp_path, life=9, deaths=100), 8, 1)
    with pytest.raises(gh.OracleError, match="expected answers to 9 sequences of 4 tokens, but 2 replicas in a row"):
        oracle(X)
    assert oracle.resent == 9
    oracle.close()


def test_what_the_box_raises_is_what_it_raises_in_this_process():
    with pytest.raises(gh.OracleError, match="the box raised KeyError: 'no such table'"):
        gh.from_ray(lambda: replicated.raises, 8, 1)
    with pytest.raises(gh.OracleError, match=r"expected answers of shape \(3,\), one per sequence, got \(1,\)"):
        gh.from_ray(lambda: replicated.too_few, 8, 1)


def test_factories_that_make_no_box():
    with pytest.raises(gh.OracleError, match="expected a box from the factory, got ZeroDivisionError"):
        gh.from_ray(lambda: 1 / 0, 8, 1)
    with pytest.raises(TypeError, match="expected the factory to return a callable box, got int"):
        gh.from_ray(lambda: 3, 8, 1)
    with pytest.raises(gh.OracleError, match="may have ended its process"):
        gh.from_ray(lambda: os._exit(1), 8, 1)
    lock = threading.Lock()
    with pytest.raises(TypeError, match=r"expected a factory that can be sent to other processes, got .*<lambda>"):
        gh.from_ray(lambda: lock, 8, 1)


def test_no_room_on_the_cluster(monkeypatch):
    monkeypatch.setattr(adapter, "PATIENCE", 1.0)
    with pytest.raises(gh.OracleError, match="expected room for 1 replicas on the cluster, got 0 within 1 s"):
        gh.from_ray(lambda: one_by_one, 8, 1, options={"num_gpus": 99})


@pytest.mark.parametrize("wrong", [0, -1, 1.5, True, "2"])
@pytest.mark.parametrize("name", ["replicas", "batch", "dim"])
def test_wrong_numbers(name, wrong):
    with pytest.raises(ValueError, match=f"expected {name} to be an integer >= 1, got"):
        gh.from_ray(lambda: one_by_one, **{"dim": 8, "replicas": 1, name: wrong})


def test_wrong_arguments():
    with pytest.raises(TypeError, match="expected a factory, a callable without arguments"):
        gh.from_ray(3, 8, 1)
    with pytest.raises(ValueError, match='expected address to be None, "auto" or the "host:port"'):
        gh.from_ray(lambda: HEAD, 8, 1, address="ray://127.0.0.1:10001")
    with pytest.raises(ValueError, match="since this process is on it"):
        gh.from_ray(lambda: HEAD, 8, 1, address="127.0.0.1:1")


def test_a_closed_oracle_says_so_and_its_processes_are_gone():
    oracle = gh.from_ray(lambda: lambda X: np.full(len(X), float(os.getpid())), 8, 1)
    pid = int(oracle(X)[0])
    oracle.close()
    with pytest.raises(gh.OracleError, match=r"call gh\.from_ray again"):
        oracle(X)
    assert gone(pid)


def gone(pid):
    for _ in range(200):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False


def test_the_command_line_asks_replicas(shared, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    gh.save(HEAD, "head.safetensors")
    Path("replica.py").write_text("from tests.boxes.replicated import HEAD\n\ndef answer(X): return HEAD(X)\n")
    options = ("--ray", "local", "--replicas", "1", "--json")
    monkeypatch.syspath_prepend(tmp_path)
    for target in (["head.safetensors"], ["replica:answer", "--dim", "8"]):
        assert run(["recover", *target, *options]) == 0
        said = json.loads(capsys.readouterr().out)
        assert (said["family"], said["queries"]) == ("attention", LOCAL.queries + 8)
    for wrong in (["head.safetensors", "--ray", "local"], ["http://127.0.0.1:1/v2/models/head", *options[:-1]]):
        assert run(["recover", *wrong]) == 2
        assert "expected --ray" in " ".join(capsys.readouterr().err.split())


PROGRAM = """
import sys
import glasshead as gh
import numpy as np
from tests.boxes.replicated import one_by_one
try:
    oracle = gh.from_ray(lambda: one_by_one, 8, 1, address=sys.argv[1])
except gh.OracleError as error:
    print(error)
else:
    print(oracle(np.ones((3, 2, 8))).shape)
    oracle.close()
    print(sys.modules["ray"].is_initialized())
"""


def test_another_process_joins_the_cluster_and_leaves_it_quietly(shared):
    there = ray.get_runtime_context().gcs_address
    expected = {there: "(3,)\nFalse\n", "127.0.0.1:1": "expected a Ray cluster at 127.0.0.1:1, got Connection"}
    for address, said in expected.items():
        program = [sys.executable, "-W", "error", "-c", PROGRAM, address]
        done = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, timeout=100)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith(said)
    assert shared(X).shape == (9,)
