"""Functions on a Ray cluster through the standard executor protocol, as in this process, whatever becomes of them."""

import time
from concurrent.futures import CancelledError, as_completed
from threading import Lock

import numpy as np
import pytest

import glasshead as gh
from glasshead._boxes import as_finished, ray_executor

from .replicated import HEAD, Trouble, mortal, raised, recovered, stuck


@pytest.fixture(scope="module")
def executor():
    with ray_executor("local", 2) as found:
        yield found


def test_results_are_those_of_this_process_as_they_finish_and_in_order(executor):
    futures = {executor.submit(recovered, seed, dim=6): seed for seed in range(4)}
    for future in as_completed(futures):
        assert np.array_equal(future.result(), recovered(futures[future], dim=6))
    assert np.array_equal(list(executor.map(recovered, range(3))), [recovered(seed) for seed in range(3)])


def test_settings_with_their_results_on_workers_and_here(executor):
    settings = [(seed, dim) for seed in range(2) for dim in (2, 3)]
    found = dict(as_finished(recovered, settings, executor))
    here = list(as_finished(recovered, settings))
    assert [setting for setting, _ in here] == settings
    assert all(np.array_equal(found[setting], W) for setting, W in here)


def test_as_many_workers_as_processors():
    with ray_executor(None) as executor:
        assert executor._max_workers >= 1
        assert executor.submit(abs, -3).result() == 3


def test_what_was_lost_with_a_worker_is_done_again(executor, tmp_path):
    numbers = range(3)
    assert list(executor.map(mortal, [tmp_path] * 3, numbers)) == [number**2 for number in numbers]
    assert [(tmp_path / f"begun-{number}").stat().st_size for number in numbers] == [2] * 3


def test_a_function_that_ends_every_worker(executor, tmp_path):
    with pytest.raises(gh.OracleError, match="expected the result of mortal from the Ray cluster, got WorkerCrashed"):
        executor.submit(mortal, tmp_path, 0, lives=100).result()
    assert (tmp_path / "begun-0").stat().st_size == 5


def test_what_a_function_raises_is_raised(executor):
    with pytest.raises(KeyError, match="no such table") as failed:
        executor.submit(raised, KeyError("no such table")).result()
    assert "raised on a worker" in failed.value.__notes__[0]
    with pytest.raises(gh.BudgetExceeded) as failed:
        executor.submit(gh.recover, HEAD, budget=10).result()
    assert (failed.value.budget, "cannot suffice" in str(failed.value)) == (10, True)
    with pytest.raises(RuntimeError, match="Trouble: out of order today"):
        executor.submit(lambda: raised(Trouble("out of order", "today"))).result()


def test_what_cannot_be_sent(executor):
    lock = Lock()
    with pytest.raises(TypeError, match="expected a function and arguments that can be sent to other processes, got"):
        executor.submit(lambda: lock).result()


def test_an_exception_ends_what_runs_and_what_waits(tmp_path):
    with pytest.raises(KeyboardInterrupt), ray_executor("local", 1) as executor:  # noqa: PT012
        first, second = executor.submit(stuck, tmp_path), executor.submit(stuck, tmp_path)
        while not list(tmp_path.glob("pid-*")):
            time.sleep(0.05)
        raise KeyboardInterrupt
    with pytest.raises(CancelledError):
        second.result()
    with pytest.raises(gh.OracleError, match="expected the result of stuck"):
        first.result()
    assert len(list(tmp_path.glob("pid-*"))) == 1


@pytest.mark.parametrize("wrong", [0, -1])
def test_wrong_numbers_of_workers(wrong):
    with pytest.raises(ValueError, match="expected workers to be an integer >= 1, got"):
        ray_executor("local", wrong)


def test_a_wrong_address():
    with pytest.raises(ValueError, match='expected address to be None, "auto" or the "host:port"'):
        ray_executor("ray://127.0.0.1:10001", 1)
