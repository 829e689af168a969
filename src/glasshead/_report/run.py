"""How a result came about: `run.json` in its folder, with the command, the target, the truth where that is a file of
ours, and how many queries had been asked when."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from .._models import Model, load, written_whole
from .._recovery import LARGEST_FILE, MODEL_FILE

RUN_FILE, RUN_FORMAT = "run.json", "glasshead run 1"
MOST_HISTORY = 400  # of a history: more than a chart has pixels to tell apart
RUN_FIELDS: dict[str, Any] = {
    **dict.fromkeys(("command", "target", "answers"), str),
    **dict.fromkeys(("truth", "digest"), (str, type(None))),
    "seconds": (int, float, type(None)),
}
HistoryPoint = tuple[float, int, str]  # seconds since the start, queries asked, what for


class History:
    """A progress report that keeps what it is told, and hands it on to another one if there is one.

    >>> history = History()
    >>> gh.recover(gh.Attention.random(8), progress=history)  # doctest: +SKIP
    >>> history.points[-1]  # doctest: +SKIP
    (0.011, 134, 'checking on fresh queries')
    """

    def __init__(self, then: Callable[[int, int, str], None] | None = None) -> None:
        self.points: list[HistoryPoint] = []
        self._then, self._begun, self._each, self._told = then, time.monotonic(), 1, 0

    @property
    def seconds(self) -> float:
        """Seconds since the beginning."""
        return round(time.monotonic() - self._begun, 4)

    def __call__(self, done: int, planned: int, what: str) -> None:
        self._told += 1
        if self._told % self._each == 0 or not self.points or self.points[-1][2] != what:
            self.points.append((self.seconds, int(done), what))
        if len(self.points) > MOST_HISTORY:  # every other one goes, unless something new began with it
            each = enumerate(self.points)
            self.points = [point for k, point in each if k % 2 == 0 or point[2] != self.points[k - 1][2]]
            self._each *= 2
        if self._then is not None:
            self._then(done, planned, what)


@dataclass(frozen=True)
class Run:
    """`truth` is the path of the target's model file as seen from the folder, `digest` the SHA-256 of that file: a
    file that has changed since is not what was asked. `seconds` is None until the run has ended."""

    command: str
    target: str
    answers: str = "value"
    truth: str | None = None
    digest: str | None = None
    seconds: float | None = None
    history: Sequence[HistoryPoint] = field(default_factory=list)

    def of(self, truth: Path, folder: Path) -> Run:
        """This run, in that folder, on a box with the model in the file `truth`, or in a folder that has it saved."""
        file = truth / MODEL_FILE if truth.is_dir() else truth
        return replace(self, truth=os.path.relpath(file, folder), digest=digest_of(file))

    def save(self, folder: Path) -> None:
        with written_whole(folder / RUN_FILE) as part:
            part.write_text(json.dumps({"format": RUN_FORMAT, **asdict(self)}) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> Run | None:
        """What the folder says, None where it says nothing; a ValueError where that cannot be read."""
        path = folder / RUN_FILE
        if not path.is_file():
            return None
        fields = load_json(path, "a run written by glasshead recover")
        if fields.get("format") != RUN_FORMAT:
            raise ValueError(
                f"{path} is not of this version: expected the format {RUN_FORMAT!r}; recover again to make it"
            )
        wrong = [name for name, kind in RUN_FIELDS.items() if not isinstance(fields.get(name), kind)]
        try:
            history = [(float(seconds), int(queries), str(what)) for seconds, queries, what in fields["history"]]
        except (KeyError, TypeError, ValueError):
            history, wrong = [], [*wrong, "history"]
        if wrong:
            raise ValueError(f"{path} is damaged: {', '.join(wrong)}; remove it to have a report without it")
        return cls(**{name: fields[name] for name in RUN_FIELDS}, history=history)

    def true_model(self, folder: Path) -> Model | None:
        """The model that was asked, where its file is still there and still the same."""
        path = None if self.truth is None else folder / self.truth
        if path is None or not path.is_file() or digest_of(path) != self.digest:
            return None
        return cast("Model", load(path))  # a network alone is nothing that `gh.recover` takes


def digest_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def without_secrets(text: str) -> str:
    """The text less names and passwords in URLs: pages are made to be shown."""
    return re.sub(r"(?<=://)[^/@\s'\"]+@", "", text)


def shown_command(arguments: Sequence[str]) -> str:
    """The command line that was given, for a page."""
    return without_secrets(shlex.join(["glasshead", *arguments]))


def load_json(path: Path, what: str) -> dict[str, Any]:
    """The object in a file that should hold `what`; a ValueError says why it does not."""
    if path.stat().st_size > LARGEST_FILE:
        raise ValueError(f"{path} is not {what}: it has more than {LARGEST_FILE:,} bytes")
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is damaged: it is not {what} ({error})") from error
    if not isinstance(fields, dict):
        raise ValueError(f"{path} is damaged: expected {what}, got a {type(fields).__name__}")
    return fields
