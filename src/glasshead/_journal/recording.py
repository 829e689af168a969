"""A box asked through a journal: stored answers for as long as the questions are the same, then the box itself, every
batch of which is stored before it is used."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from hashlib import blake2b
from os import PathLike
from typing import Any

import numpy as np

from .._errors import JournalError
from .._oracles import BoxOracle, Oracle, Wrapper, batch_rounding
from .file import Journal

MOST_SPREADS = 10.0  # of five repeats: noise on the same answer exceeds them once in 10,000 times
SIGNS_AGAIN = 16  # yes or no tells little about which box it is


def fingerprint(X: np.ndarray) -> bytes:
    """A hash of the sums over rows and over columns of the bits of some questions: as fast as memory is read."""
    X = np.ascontiguousarray(X)
    bits = X.view(f"u{X.dtype.itemsize}").reshape(len(X), -1)
    sums = [bits.sum(axis=axis, dtype=np.uint64).tobytes() for axis in (0, 1)]
    return blake2b(b"".join([repr((X.shape, X.dtype.name)).encode(), *sums]), digest_size=16).digest()


class Recording:
    """What asks a box through a journal; `batch` and `resent` are those of the box, with what was asked twice."""

    def __init__(self, ask: Callable[[np.ndarray], Any], box: Oracle, journal: Journal):
        self.ask, self.box, self.journal = ask, box, journal
        self.twice, self.known = 0, False
        self.outputs: tuple[int, ...] | None = None  # the shape of an answer, once there was one
        if hasattr(ask, "batch"):
            self.batch = ask.batch  # type: ignore[attr-defined]

    @property
    def resent(self) -> int:
        return getattr(self.ask, "resent", 0) + self.twice

    def __call__(self, X: np.ndarray) -> np.ndarray:
        self.twice, self.journal.earlier = self.twice + self.journal.earlier, 0
        mark = fingerprint(X)
        answers = self.journal.replayed(mark)
        if answers is not None:
            self.known = self.known or self.check_target(X, answers)
            self.outputs = answers.shape[1:]
            return answers
        self.known = True
        number, resent = self.journal.note(mark, len(X)), self.resent
        try:
            answers = np.asarray(self.ask(X))
        except BaseException:
            self.journal.count_looked(self.resent - resent)  # what was sent in vain, beside the batch that was noted
            raise
        if self.usable(answers, len(X)):
            self.journal.keep(number, answers, self.resent - resent)
            self.outputs = answers.shape[1:]
        return answers

    def usable(self, answers: np.ndarray, sequences: int) -> bool:
        """Whether these are answers, and not about to be refused: a box that fails now and then is asked again."""
        if answers.dtype.kind not in "biuf" or answers.ndim not in (1, 2) or len(answers) != sequences:
            return False
        return self.outputs in (None, answers.shape[1:]) and bool(np.isfinite(answers).all())

    def read_again(self, X: np.ndarray) -> np.ndarray:
        self.journal.count_looked(len(X))
        self.twice += len(X)
        return np.asarray(self.ask(X))

    def check_target(self, X: np.ndarray, then: np.ndarray) -> bool:
        """Whether the box is still the one that gave these answers: some are asked again. False where they are all
        zeros, as other boxes may answer too."""
        if not len(X) or not then.any():
            return False
        if self.box.answers == "sign":
            now, then = self.read_again(X[:SIGNS_AGAIN]) > 0, then[:SIGNS_AGAIN] > 0
            changed = bool(np.mean(now != then) > 0.5 * (self.box.flips > 0))
        else:
            row = int(np.abs(then.reshape(len(X), -1)).max(axis=1).argmax())
            now, then = self.read_again(X[row : row + 1]), then[row : row + 1]
            changed = now.shape != then.shape or self.check_repeats(X[row : row + 1], now, then)
        if changed:
            raise JournalError(
                f"the box does not answer as it did when the journal {self.journal.path} was begun: {now[:1]} instead "
                f"of {then[:1]}; ask the box that it was begun with, or name another journal to begin anew"
            )
        return True

    def check_repeats(self, query: np.ndarray, now: np.ndarray, then: np.ndarray) -> bool:
        size, off = float(np.abs(then).max()), float(np.abs(now - then).max())
        if off <= batch_rounding(self.box, size):
            return False
        repeats = np.concatenate([now, self.read_again(np.repeat(query, 4, axis=0))])
        return off > MOST_SPREADS * float(np.ptp(repeats, axis=0).max())


class Journalled(Wrapper):
    """An oracle of the user's own making, asked through a journal."""

    def __init__(self, inner: Oracle, recording: Recording):
        super().__init__(inner)
        self.recording = recording

    @property
    def box(self) -> Oracle:
        return self.inner

    @property
    def resent(self) -> int:  # type: ignore[override]
        return self.inner.resent + self.recording.twice

    def __call__(self, X: np.ndarray) -> np.ndarray:
        return self.recording(X)


@contextmanager
def journalled(
    box: Oracle, path: str | PathLike[str], settings: Mapping[str, Any]
) -> Generator[tuple[Oracle, Journal]]:
    """The box, asked through the journal at `path`, which is that of one run with these settings."""
    journal = Journal(path, settings)
    try:
        if box.looked:
            journal.count_looked(box.looked)
        if isinstance(box, BoxOracle):
            with box.through(lambda f: Recording(f, box, journal)):
                yield box, journal
        else:
            yield Journalled(box, Recording(box, box, journal)), journal
    finally:
        journal.file.close()
