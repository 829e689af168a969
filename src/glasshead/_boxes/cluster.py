"""The Ray cluster that oracles and executors of this process are on: one that is there, or one started here, which
makes no noise, listens on this machine only and ends with the last of them."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import reduce
from threading import Event, RLock, Thread, current_thread, main_thread
from typing import Any

from .._errors import OracleError
from .base import CONNECT, needs, quoted

LOOPBACK = "127.0.0.1", "localhost"
# The second has Ray stay on the loopback address, on Linux as well.
HERE = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
OBJECTS = 2**29  # bytes of shared memory of a cluster started here: a few batches at a time


def inside(ray: Any, path: str) -> Any:
    """What Ray has not made public, or None in a version that has it elsewhere."""
    return reduce(lambda holder, name: getattr(holder, name, None), ["_private", *path.split(".")], ray)


@contextmanager
def staying_here(ray: Any) -> Generator[None]:
    """What is started meanwhile listens on this machine only and reports to nobody."""
    before = {name: os.environ.get(name) for name in HERE}
    constants = inside(ray, "ray_constants")
    many = getattr(constants, "ENABLE_RAY_CLUSTER", None)  # what the variable said when Ray was imported
    os.environ.update(HERE)
    if many is not None:
        constants.ENABLE_RAY_CLUSTER = False
    try:
        yield
    finally:
        if many is not None:
            constants.ENABLE_RAY_CLUSTER = many
        for name, value in before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value


@dataclass
class Cluster:
    """A connection of this process. `ours` means that it was made here, with that `address` if one was given, and is
    given up when nobody `uses` it."""

    ray: Any
    session: str
    address: str | None
    ours: bool
    started: bool
    uses: int = 0

    @property
    def there(self) -> bool:
        """Whether this process is still connected to it."""
        return self.ray.is_initialized() and session_name(self.ray) == self.session

    def leave(self, actors: list[Any]) -> None:
        """End these actors, and the connection where nobody uses it any more.

        It may be the garbage collector that calls this, in a thread of Ray, which could not wait for its own end.
        """
        if current_thread() is main_thread():
            self._leave(actors)
        else:
            Thread(target=self._leave, args=(actors,)).start()

    def _leave(self, actors: list[Any]) -> None:
        with LOCK:
            self.uses -= 1
            if not self.there:
                return
            for actor in actors:
                with suppress(Exception):  # it may be gone already
                    self.ray.kill(actor)
            if self.ours and self.uses == 0:
                self.ray.shutdown()


LOCK = RLock()
joined: Cluster | None = None


def join_cluster(address: Any, replicas: int) -> Cluster:
    """Connect to the cluster at `address`; without one to that which this process is on, or else start one here."""
    global joined
    if address is not None and (not isinstance(address, str) or "://" in address or not address):
        raise ValueError(f'expected address to be None, "auto" or the "host:port" of a cluster, got {address!r}')
    with LOCK:
        ray = needs("ray", "ray")
        if not ray.is_initialized():
            joined = connected(ray, address, replicas)
        if joined is None or not joined.there:
            joined = Cluster(ray, session_name(ray), None, ours=False, started=False)
        if address not in (None, "local", "auto", joined.address, at := ray.get_runtime_context().gcs_address):
            words = f"since this process is on it; ray.shutdown() leaves it, got {address!r}"
            raise ValueError(f"expected address to be {at!r}, {words}")
        joined.uses += 1
        return joined


def connected(ray: Any, address: str | None, replicas: int) -> Cluster:
    quiet: dict[str, Any] = {"logging_level": logging.CRITICAL, "log_to_driver": False}
    started = address in (None, "local")
    if started:
        processors = max(replicas, os.cpu_count() or 1)
        quiet |= {"include_dashboard": False, "num_cpus": processors, "object_store_memory": OBJECTS}
    try:
        with staying_here(ray) if address in (None, "local") else place_of(ray, address):
            ray.init(address="local" if started else address, **quiet)
        if started:
            require_loopback(ray)
    except Exception as error:
        words = "start one with ray start --head, or give no address to have one here; RAY_AUTH_MODE=token in the "
        words += "environment joins one that asks for a token"
        got = told(error).rstrip(".")
        raise OracleError(f"expected a Ray cluster at {address or 'this machine'}, got {got}; {words}") from error
    silence(ray)
    return Cluster(ray, session_name(ray), address, ours=True, started=started)


def require_loopback(ray: Any) -> None:
    """A version of Ray that has another word for staying on this machine must not open it to others."""
    at = ray.get_runtime_context().gcs_address
    if at.rpartition(":")[0] not in LOOPBACK:
        ray.shutdown()
        raise ConnectionError(f"Ray {ray.__version__} listens at {at}, where other machines may reach it")


def place_of(ray: Any, address: str) -> AbstractContextManager[None]:
    """How to join the cluster at `host:port`, where somebody must listen: Ray itself would try for minutes.

    For a host that is this machine Ray takes the address that others know it by. A cluster that was started here, by
    another process, listens on no other than the loopback address.
    """
    if address == "auto":
        find = inside(ray, "services.get_ray_address_from_environment")
        if find is None:
            return nullcontext()
        address = find("auto", None)
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        raise ValueError("no host:port")
    if host in LOOPBACK:
        with suppress(OSError):
            socket.create_connection((ray.util.get_node_ip_address(), int(port)), timeout=CONNECT).close()
            return nullcontext()
    socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT).close()
    return staying_here(ray) if host in LOOPBACK else nullcontext()


def session_name(ray: Any) -> str:
    about = ray.get_runtime_context()
    return f"{about.gcs_address} {about.get_job_id()}"


class Silence:
    """Takes the place of what a cluster says to this process: Ray prints each death of a worker to stdout otherwise,
    whatever it is told about logs."""

    def __init__(self, over: Event):
        self._over = over

    def poll(self) -> tuple[None, None]:
        self._over.wait()
        return None, None

    def close(self) -> None:
        """Closes nothing: there is nothing."""


def silence(ray: Any) -> None:
    """Where Ray is as known here; another version may print."""
    worker = inside(ray, "worker.global_worker")
    if hasattr(worker, "gcs_error_subscriber") and hasattr(worker, "threads_stopped"):
        speaking, worker.gcs_error_subscriber = worker.gcs_error_subscriber, Silence(worker.threads_stopped)
        speaking.close()


def told(error: Exception) -> str:
    return f"{type(error).__name__}: {quoted(str(error))}"
