"""`gh.from_ray`: replicas of a box as actors of a Ray cluster, as one oracle; those that are lost are restarted."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from time import monotonic, sleep
from typing import Any

import numpy as np

from .._errors import OracleError
from .._oracles import Answering, Oracle
from .._types import no_type_check
from .._validate import whole
from .base import GOES_ON, check_box
from .cluster import Cluster, join_cluster, told
from .replicas import AT_ONCE, BATCH, Raised, answers_of, cut, together

PART_ATTEMPTS = 5  # times that a part may be lost with its replica: then it is the part that ends replicas
PATIENCE = 60.0  # seconds for a replica to be placed on the cluster, or for one of them to come back when all are lost
PAUSE = 0.1  # seconds before a replica is called again that is not there yet


@no_type_check
def from_ray(
    factory: Callable[[], Answering],
    dim: int,
    replicas: int,
    *,
    address: str | None = None,
    batch: int = BATCH,
    answers: str = "value",
    options: Mapping[str, Any] | None = None,
    **promise: Any,
) -> Oracle:
    """An oracle around `replicas` boxes, each made by `factory()` in a process of its own on a Ray cluster.

    >>> oracle = gh.from_ray(lambda: gh.Attention.random(8, seed=1), 8, replicas=2)
    >>> gh.recover(oracle).family
    'attention'
    >>> oracle.close()

    `address` is that of a cluster, or "auto" for the one on this machine; without it, that which this process is on,
    or else one that is started here and ends with the last oracle on it: at `oracle.close()`, when it is not
    referred to any more, or with this process. A box takes a `(B, N, d)` array and returns `B` numbers, or `(B, k)`.
    A batch is cut into one part for each replica, or into more where a part would be longer than `batch`; the answers
    come back in order, so boxes that answer a sequence alike in every batch are recovered as on one process, bit for
    bit. A replica that is lost is restarted, and what it was asked is asked again: `oracle.resent` counts these
    sequences apart from those answered, `oracle.queries` counts both. `options` are those of Ray's actors, such as
    `{"num_gpus": 1}`; machines need this package and what the factory imports. `promise` are the keywords of
    `gh.ValueOracle` or, with `answers="sign"`, of `gh.SignOracle`.
    """
    if not callable(factory):
        got = f"{type(factory).__name__}; write lambda: .."
        raise TypeError(f"expected a factory, a callable without arguments that returns the box, got {got}")
    for value, name in ((dim, "dim"), (replicas, "replicas"), (batch, "batch")):
        whole(value, name, least=1)
    box = Actors(join_cluster(address, replicas), factory, replicas, batch, options or {})
    try:
        box.await_box()
        notes = [f"answered by {replicas} replicas on a Ray cluster"]
        return check_box(box, dim, answers=answers, notes=notes, **promise)
    except BaseException:
        box.close()
        raise


class Replica:
    """What an actor is: a box, made when it is first needed, so that nothing fails while Ray starts the process."""

    def __init__(self, factory: Callable[[], Answering]):
        self._factory = factory
        self._f: Answering | None = None

    def up(self) -> None:
        """Answered as soon as there is a process."""

    def make(self) -> str | Raised | None:
        """The box, or the name of what came instead of a callable."""
        try:
            self._f = self._factory()
        except Exception as error:
            return Raised(RuntimeError(f"{type(error).__name__}: {error}"))
        return None if callable(self._f) else type(self._f).__name__

    def ask(self, X: np.ndarray) -> np.ndarray | Raised:
        return answers_of(self._answer, X)

    def _answer(self, X: np.ndarray) -> Any:
        if self._f is None:
            self._f = self._factory()
        return self._f(X)


class Actors:
    """Sends parts of a batch to actors and asks again what was lost with one; `resent` counts these sequences."""

    def __init__(
        self,
        cluster: Cluster,
        factory: Callable[[], Answering],
        replicas: int,
        batch: int,
        options: Mapping[str, Any],
    ):
        self.resent = 0
        self._cluster, self._ray, self._factory, self._batch = cluster, cluster.ray, factory, batch
        usual = {} if cluster.started else {"num_cpus": 1, "scheduling_strategy": "SPREAD"}
        self._options = usual | {"max_restarts": -1, "max_task_retries": 0} | dict(options)
        self._actors: list[Any] = []
        self.close = weakref.finalize(self, cluster.leave, self._actors)
        self._until = 0.0
        self._away: dict[Any, int] = {}  # calls to replicas that were lost, answered as soon as they are back
        self._actors += [self._started() for _ in range(replicas)]

    def _started(self) -> Any:
        try:
            return self._ray.remote(Replica).options(**self._options).remote(self._factory)
        except Exception as error:
            self.close()
            words = f"got {getattr(self._factory, '__qualname__', self._factory)} with options {self._options}"
            raise TypeError(
                f"expected a factory that can be sent to other processes, {words}: {told(error)}"
            ) from error

    def await_box(self) -> None:
        """Wait until every replica has a process and has made its box."""
        calls = [actor.up.remote() for actor in self._actors]
        up, missing = self._ray.wait(calls, num_returns=len(calls), timeout=PATIENCE)
        if missing:
            free = {name: left for name, left in self._ray.available_resources().items() if name in ("CPU", "GPU")}
            words = f"expected room for {len(calls)} replicas on the cluster, got {len(up)} within {PATIENCE:g} s"
            raise OracleError(f"{words}; {free or 'no processor'} is free there: ask for fewer, or add machines")
        try:
            boxes = self._ray.get([actor.make.remote() for actor in self._actors])
        except self._ray.exceptions.RayError as error:
            words = f"got {told(error)}; the factory may have ended its process, or taken all memory"
            raise OracleError(f"expected a box from the factory, {words}") from error
        for made in boxes:
            if isinstance(made, Raised):
                raise OracleError(f"expected a box from the factory, got {made.error}") from made.error
            if made is not None:
                raise TypeError(f"expected the factory to return a callable box, got {made}")

    def __call__(self, X: np.ndarray) -> np.ndarray:
        if not self.close.alive or not self._cluster.there:
            raise OracleError(
                f"expected the Ray cluster of this oracle, which was left; call gh.from_ray again: {GOES_ON}"
            )
        parts = cut(X, len(self._actors), self._batch)
        found, lost = [np.empty(0)] * len(parts), [0] * len(parts)
        waiting, sent = deque(range(len(parts))), dict[Any, tuple[int, int]]()
        free: deque[int] = deque(
            slot for slot in [*range(len(self._actors))] * AT_ONCE if slot not in self._away.values()
        )
        while waiting or sent:
            while waiting and free:
                slot, k = free.popleft(), waiting.popleft()
                sent[self._actors[slot].ask.remote(parts[k])] = slot, k
            call = self._next(sent)
            if call in self._away:
                free.extend(self._returned(call))
                continue
            slot, k = sent.pop(call)
            try:
                answer = self._ray.get(call)
            except self._ray.exceptions.RayActorError as error:
                lost[k] += 1
                self._give_up(lost[k], parts[k], error)
                waiting.appendleft(k)
                free = deque(other for other in free if other != slot)
                if slot not in self._away.values():
                    self._away[self._actors[slot].up.remote()] = slot
                continue
            except self._ray.exceptions.RayError as error:
                raise OracleError(f"expected answers from the Ray cluster, got {told(error)}; {GOES_ON}") from error
            if isinstance(answer, Raised):
                raise answer.error
            found[k] = answer
            if slot not in self._away.values():
                free.append(slot)
        return together(parts, found)

    def _next(self, sent: Iterable[Any]) -> Any:
        """The next call that is answered, or was lost; as long as no part is anywhere, for so many seconds only."""
        sent = [*sent]
        if sent:
            self._until = monotonic() + PATIENCE
        left = None if sent else max(0.0, self._until - monotonic())
        done, _ = self._ray.wait([*sent, *self._away], num_returns=1, timeout=left)
        if not done:
            words = f"all {len(self._actors)} were lost, and none came back within {PATIENCE:g} s"
            raise OracleError(f"expected a replica on the Ray cluster, but {words}; {GOES_ON}")
        return done[0]

    def _returned(self, call: Any) -> list[int]:
        """The replica that a call was waiting for, as often as it takes parts; none where it is not back yet."""
        slot = self._away.pop(call)
        try:
            self._ray.get(call)
        except self._ray.exceptions.ActorDiedError:  # Ray will not restart it: somebody has ended it for good
            self._actors[slot] = self._started()
        except self._ray.exceptions.RayActorError:
            sleep(PAUSE)
        else:
            return [slot] * AT_ONCE
        self._away[self._actors[slot].up.remote()] = slot
        return []

    def _give_up(self, times: int, part: np.ndarray, error: Exception) -> None:
        """Counts a part that was lost with its replica and is sent again, or raises where it was lost too often."""
        if times == PART_ATTEMPTS:
            what = f"{len(part)} sequences of {part.shape[1]} tokens"
            words = f"expected answers to {what}, but {times} replicas in a row were lost with them"
            raise OracleError(f"{words}; see whether the box ends its process on them ({told(error)})", part[0])
        self.resent += len(part)

    def __repr__(self) -> str:
        return f"Actors(replicas={len(self._actors)}, batch={self._batch}, resent={self.resent})"
