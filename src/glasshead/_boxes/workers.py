"""`ray_executor`: the workers of a Ray cluster as a `concurrent.futures.Executor`.

    with ray_executor("local", 4) as executor:
        for setting, result in as_finished(function, settings, executor):
            ...

`ray_executor(address: str | None, workers: int | None = None) -> RayExecutor`. `submit`, `map` and `cancel` are as in
the standard library, and so is `as_completed`. What a function raises is raised by `result()`, as it is. A worker that
is lost is replaced by Ray, and what it was doing is done again from the start: a function must give the same when it is
run twice. Arrays among its arguments may come read-only.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor, as_completed
from typing import Any, TypeVar

from .._errors import OracleError
from .._validate import whole
from .cluster import Cluster, join_cluster, told
from .replicas import Raised, result_of

Arguments = TypeVar("Arguments", bound=tuple[Any, ...])
Result = TypeVar("Result")

RETRIES = 4  # times that a function is run again whose worker was lost: after that it is the function that ends workers


def ray_executor(address: str | None, workers: int | None = None) -> RayExecutor:
    """An executor that runs so many functions at a time on a Ray cluster, by default one for each of its processors.

    `address` is that of a cluster, "auto" for the one on this machine, "local" or None for the one that this process is
    on, or else one that is started here. Use it in a `with` block, whose end leaves the cluster; where an exception
    ends the block, what is still running is stopped and what waits is not begun.
    """
    if workers is not None:
        whole(workers, "workers", least=1)
    cluster = join_cluster(address, workers or 1)
    return RayExecutor(cluster, workers or max(1, int(cluster.ray.cluster_resources().get("CPU", 1))))


def as_finished(
    function: Callable[..., Result], settings: Sequence[Arguments], executor: Executor | None = None
) -> Iterator[tuple[Arguments, Result]]:
    """Each setting, the arguments of a call, with what came of it as soon as that is there.

    Without an executor they are run here, one after the other.
    """
    if executor is None:
        for setting in settings:
            yield setting, function(*setting)
        return
    futures = {executor.submit(function, *setting): setting for setting in settings}
    for future in as_completed(futures):
        yield futures[future], future.result()


class RayExecutor(ThreadPoolExecutor):
    """Each thread has one function at a time run on the cluster, and waits for what comes of it."""

    def __init__(self, cluster: Cluster, workers: int):
        super().__init__(workers, thread_name_prefix="ray-executor")
        self._cluster, self._ray = cluster, cluster.ray
        # On a cluster started here the threads say how much runs at a time; elsewhere a function takes a processor.
        usual = {"num_cpus": 0} if cluster.started else {"num_cpus": 1, "scheduling_strategy": "SPREAD"}
        self._task = self._ray.remote(result_of).options(max_retries=RETRIES, retry_exceptions=False, **usual)
        self._running: set[Any] = set()
        self._stopped = False
        self._leave = weakref.finalize(self, cluster.leave, [])

    def submit(self, fn: Callable[..., Any], /, *args: Any, **keywords: Any) -> Future[Any]:
        return super().submit(self._run, fn, args, keywords)

    def _run(self, fn: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        name = getattr(fn, "__qualname__", type(fn).__qualname__)
        try:
            call = self._task.remote(fn, args, keywords)
        except Exception as error:
            words = f"a function and arguments that can be sent to other processes, got {name}"
            raise TypeError(f"expected {words}: {told(error)}") from error
        self._running.add(call)
        try:
            if self._stopped:
                self._ray.cancel(call, force=True)
            found = self._ray.get(call)
        except self._ray.exceptions.RayError as error:
            raise OracleError(f"expected the result of {name} from the Ray cluster, got {told(error)}") from error
        finally:
            self._running.discard(call)
        if isinstance(found, Raised):
            raise found.error
        return found

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Leave the cluster once all is done; with `cancel_futures`, once what is running there was stopped."""
        if cancel_futures:
            self._stopped = True
            super().shutdown(wait=False, cancel_futures=True)
            for call in tuple(self._running):
                self._ray.cancel(call, force=True)
        super().shutdown(wait=wait)
        self._leave()

    def __exit__(self, kind: Any, *about: Any) -> bool | None:
        self.shutdown(cancel_futures=kind is not None)
        return False
