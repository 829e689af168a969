"""Replicas on the workers of an executor: recoveries are those of one process, and what breaks is said."""

import doctest
import multiprocessing
import os
import pickle
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest

import glasshead as gh
from glasshead._boxes.replicas import cut

from . import replicated
from .replicated import HEAD, Mortal, deaths_in, one_by_one, same

LOCAL = gh.recover(gh.ValueOracle(one_by_one, 8))
X = np.random.default_rng(0).standard_normal((9, 4, 8))


def processes(workers=2):
    return ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn"))


@pytest.fixture(scope="module")
def pool():
    with processes() as executor:
        yield executor


@pytest.fixture
def threads():
    with ThreadPoolExecutor(3) as executor:
        yield executor


@pytest.mark.parametrize("batch", [1, 3, 1000])
def test_threads_recover_as_one_process_does(threads, batch):
    oracle = gh.from_executor(threads, one_by_one, 8, batch=batch)
    found = gh.recover(oracle)
    assert same(found, LOCAL)
    assert found.queries == LOCAL.queries + oracle.looked
    assert oracle.notes[0] == "answered by 3 workers of a ThreadPoolExecutor"


def test_processes_recover_as_one_process_does(pool):
    assert same(gh.recover(gh.from_executor(pool, one_by_one, 8)), LOCAL)


def test_signs_are_asked_too(pool):
    oracle = gh.from_executor(pool, one_by_one, 8, answers="sign", flips=0.0)
    assert oracle.answers == "sign"
    assert np.array_equal(oracle(X), one_by_one(X) > 0)


def test_several_numbers_and_boxes_that_work_in_place(pool):
    asked = X.copy()
    assert np.array_equal(gh.from_executor(pool, replicated.in_place, 8, batch=2)(asked), replicated.three_numbers(X))
    assert np.array_equal(asked, X)


def test_the_example_runs():
    names = {"gh": gh, "ThreadPoolExecutor": ThreadPoolExecutor}
    examples = doctest.DocTestFinder().find(gh.from_executor, globs=names)
    assert doctest.DocTestRunner().run(examples[0]) == (0, 2)


@pytest.mark.parametrize(("length", "replicas", "batch"), [(9, 2, 100), (9, 20, 100), (100, 2, 7), (1, 1, 1)])
def test_parts_are_even_and_in_order(length, replicas, batch):
    parts = cut(np.arange(length), replicas, batch)
    sizes = [len(part) for part in parts]
    assert np.array_equal(np.concatenate(parts), np.arange(length))
    assert max(sizes) <= batch
    assert max(sizes) - min(sizes) <= 1
    assert len(parts) >= min(length, replicas)


class Late(Executor):
    """Answers a part only when its result is wanted, the latest first; counts those that wait."""

    def __init__(self):
        self.waiting, self.most = [], 0

    def submit(self, f, /, *args):
        future = Future()
        future.result = partial(self.answered, future)
        self.waiting.append((future, f, args))
        self.most = max(self.most, len(self.waiting))
        return future

    def answered(self, wanted):
        while not wanted.done():
            future, f, args = self.waiting.pop()
            future.set_result(f(*args))
        return Future.result(wanted)


class Remembering(ThreadPoolExecutor):
    """Gives a call that was there before the result that it had, as Dask does."""

    def __init__(self):
        super().__init__(1)
        self.known = {}

    def submit(self, f, /, *args):
        call = pickle.dumps((f, args))
        if call not in self.known:
            self.known[call] = super().submit(f, *args)
        return self.known[call]


def test_a_question_that_is_asked_again_is_answered_again():
    with Remembering() as executor:
        oracle = gh.from_executor(executor, replicated.with_fresh_noise, 8)
        assert (oracle(X) != oracle(X)).all()


def test_order_is_kept_and_few_parts_wait_whoever_is_ready_first():
    executor = Late()
    oracle = gh.from_executor(executor, one_by_one, 8, replicas=2, batch=1)
    assert np.array_equal(oracle(X), one_by_one(X))
    assert executor.most == 4


def test_without_a_word_of_the_executor_there_are_as_many_replicas_as_processors():
    oracle = gh.from_executor(Late(), one_by_one, 8)
    assert oracle.notes[0] == f"answered by {os.cpu_count()} workers of a Late"


def test_what_the_box_raises_is_what_it_raises_in_this_process(pool, threads):
    for executor in (pool, threads):
        with pytest.raises(gh.OracleError, match="the box raised KeyError: 'no such table'") as failed:
            gh.from_executor(executor, replicated.raises, 8, replicas=1)
        assert "in raises" in failed.value.__cause__.__notes__[0]
        with pytest.raises(gh.OracleError, match="Trouble: out of order today"):
            gh.from_executor(executor, replicated.raises_trouble, 8)
        with pytest.raises(gh.OracleError) as failed:
            gh.from_executor(executor, replicated.refuses, 8)
        assert str(failed.value) == "not today"
        assert failed.value.query.shape == (3, 8)
    assert same(gh.recover(gh.from_executor(pool, one_by_one, 8)), LOCAL)  # it has survived all that


def test_answers_that_do_not_fit_their_part_are_refused(threads):
    with pytest.raises(gh.OracleError, match=r"expected answers of shape \(2,\), one per sequence, got \(1,\)"):
        gh.from_executor(threads, replicated.too_few, 8, replicas=2)(X)
    with pytest.raises(gh.OracleError, match=r"expected answers of shape \(1, 3\), one per sequence, got \(1,\)"):
        gh.from_executor(threads, replicated.other_shapes, 8, replicas=2)(X)


def test_a_worker_killed_in_mid_run(tmp_path):
    box = Mortal(tmp_path, life=60)
    with processes(1) as executor:
        executor.submit(os.getpid).result()
        oracle = gh.from_executor(executor, box, 8)
        with pytest.raises(gh.OracleError, match=r"got BrokenProcessPool: .*make a new executor") as failed:
            gh.recover(oracle, journal=tmp_path / "run.sqlite")
        assert "the box raised" not in str(failed.value)
    assert deaths_in(tmp_path) == 1
    with processes(1) as executor:
        found = gh.recover(gh.from_executor(executor, box, 8), journal=tmp_path / "run.sqlite")
    assert same(found, LOCAL)


def test_an_executor_that_was_shut_down():
    with ThreadPoolExecutor(1) as executor:
        oracle = gh.from_executor(executor, one_by_one, 8)
    with pytest.raises(gh.OracleError, match="cannot schedule new futures after shutdown; make a new executor"):
        oracle(X)


def test_boxes_that_cannot_travel(pool, threads):
    with pytest.raises(TypeError, match=r"sent to other processes, .*or use threads, got .*<lambda>"):
        gh.from_executor(pool, lambda X: HEAD(X), 8)
    assert same(gh.recover(gh.from_executor(pool, one_by_one, 8)), LOCAL)
    assert gh.from_executor(threads, lambda X: HEAD(X), 8).queries == 8


@pytest.mark.parametrize("wrong", [0, -1, 1.5, True, "2"])
@pytest.mark.parametrize("name", ["replicas", "batch", "dim"])
def test_wrong_numbers(threads, name, wrong):
    with pytest.raises(ValueError, match=f"expected {name} to be an integer >= 1, got"):
        gh.from_executor(threads, one_by_one, **{"dim": 8, name: wrong})


def test_wrong_arguments(threads):
    with pytest.raises(TypeError, match="expected an executor with submit"):
        gh.from_executor(2, one_by_one, 8)
    with pytest.raises(TypeError, match="expected a callable box"):
        gh.from_executor(threads, 3, 8)
    with pytest.raises(ValueError, match="expected answers to be one of"):
        gh.from_executor(threads, one_by_one, 8, answers="both")
