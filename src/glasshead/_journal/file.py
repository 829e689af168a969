"""The file of a journal: SQLite, with a row for each batch of questions, noted before it is sent, and its answers."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from .._errors import JournalError

JOURNAL_FORMAT = 1  # of the tables below
TABLES = """
CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE batches (
    number INTEGER PRIMARY KEY, fingerprint BLOB NOT NULL, sequences INTEGER NOT NULL,
    dtype TEXT, shape TEXT, answers BLOB,  -- none: sent, but never answered as far as we know
    resent INTEGER NOT NULL DEFAULT 0,     -- sequences that were sent again until there was an answer
    used INTEGER NOT NULL DEFAULT 1        -- 0: stored for a question that is not asked any more
);
CREATE TABLE looks (number INTEGER PRIMARY KEY, sequences INTEGER NOT NULL);  -- sent, but not for their answers
"""
SPARE_BYTES = 2**20  # bytes beside a batch that must be free, and that the log of SQLite is made to hold
ANSWER_BYTES = 64  # per sequence, until the first answers show how many there are


class Journal:
    """The file: its settings, which must be those of the run, and its batches, read once and then added to."""

    def __init__(self, path: str | PathLike[str], settings: Mapping[str, Any]):
        self.path = Path(path)
        self.bytes_each = ANSWER_BYTES
        with self.explained():
            self.file = sqlite3.connect(self.path, timeout=0.0, isolation_level=None)
        try:
            with self.explained():
                self.file.execute("PRAGMA locking_mode = EXCLUSIVE")  # until the file is closed: one run at a time
                self.file.execute("PRAGMA page_size = 1024")
                self.file.execute("PRAGMA journal_mode = WAL")
                self.begin(settings)
                self.make_room()
                self.earlier, self.stored = self.cost(), self.rows()
        except BaseException:
            self.file.close()
            raise

    @contextmanager
    def explained(self) -> Generator[None]:
        """What SQLite says, in words that tell what to do."""
        try:
            yield
        except sqlite3.Error as error:
            if "locked" in str(error):
                words = "is in use by another run: wait until that has ended, or name another journal"
            elif "full" in str(error) or "I/O" in str(error):
                words = "could not be written; all answers before the last batch are in it: make room and run it again"
            elif "unable to open" in str(error):
                words = "cannot be opened: expected the path of a file in a folder that exists and may be written to"
            else:
                words = "is not a journal of glasshead or is damaged: name another one"
            raise JournalError(f"the journal {self.path} {words} ({error})") from error

    def begin(self, settings: Mapping[str, Any]) -> None:
        """Write the settings of a new run, or compare them with those of the run that is resumed."""
        now = {name: json.dumps(value) for name, value in {"format": JOURNAL_FORMAT, **settings}.items()}
        self.file.execute("BEGIN IMMEDIATE")
        if not self.file.execute("SELECT 1 FROM sqlite_master").fetchone():
            for statement in TABLES.split(";"):
                self.file.execute(statement)
            self.file.executemany("INSERT INTO settings VALUES (?, ?)", now.items())
        then = dict(self.file.execute("SELECT name, value FROM settings"))
        self.file.execute("COMMIT")
        for name in sorted(now.keys() | then.keys(), key=lambda name: name not in ("format", "version")):
            if then.get(name) != now.get(name):
                begun, given = (f"{name}={json.loads(values.get(name, 'null'))!r}" for values in (then, now))
                raise JournalError(
                    f"the journal {self.path} was begun with {begun}, this run has {given}: run it with what it was "
                    "begun with to go on, or name another journal to begin anew"
                )

    def make_room(self) -> None:
        """Grow the write-ahead log once: answers written into a file that does not grow are durable twice as fast."""
        with suppress(sqlite3.Error):  # a disk with no room for that may have room for the answers
            self.file.execute("PRAGMA synchronous = OFF")
            self.file.execute("CREATE TABLE IF NOT EXISTS room (zeros BLOB)")
            self.file.execute("INSERT INTO room VALUES (zeroblob(?))", (SPARE_BYTES,))
            self.file.execute("DROP TABLE room")
            self.file.execute("PRAGMA wal_checkpoint(RESTART)").fetchone()

    def cost(self) -> int:
        """What earlier runs sent beyond the answers that can be used: looks, batches without answers, repetitions."""
        (looks,) = self.file.execute("SELECT COALESCE(SUM(sequences), 0) FROM looks").fetchone()
        (lost,) = self.file.execute(
            "SELECT COALESCE(SUM(resent + sequences * (answers IS NULL OR NOT used)), 0) FROM batches"
        ).fetchone()
        self.file.execute("UPDATE batches SET used = 0 WHERE answers IS NULL")
        return looks + lost

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """Stored batches that can be used, one after the other."""
        columns, last = "number, fingerprint, dtype, shape, answers", 0
        while row := self.file.execute(
            f"SELECT {columns} FROM batches WHERE used AND number > ? ORDER BY number LIMIT 1", (last,)
        ).fetchone():
            last = row[0]
            yield row

    def count_looked(self, sequences: int) -> None:
        """Count questions that were not asked for their answers."""
        with self.explained():
            self.file.execute("INSERT INTO looks (sequences) VALUES (?)", (sequences,))

    def replayed(self, mark: bytes) -> np.ndarray | None:
        """The next stored answers, if they are to the question with that fingerprint; None from the first on that is
        not, or after the last."""
        with self.explained():
            row = next(self.stored, None)
            if row is None:
                return None
            number, asked, dtype, shape, answers = row
            if asked == mark:
                return np.frombuffer(answers, dtype=dtype).reshape(json.loads(shape)).copy()
            self.file.execute("UPDATE batches SET used = 0 WHERE number >= ?", (number,))
            self.stored = iter(())
            return None

    def note(self, mark: bytes, sequences: int) -> int:
        """That a batch is about to be sent, if there is room for its answers. A killed process leaves this much."""
        free = shutil.disk_usage(self.path.parent).free
        if free < (room := self.bytes_each * sequences + SPARE_BYTES):
            words = f"needs {room:,} bytes on a disk with {free:,} left; nothing is lost: make room and run it again"
            raise JournalError(f"the journal {self.path} {words}")
        with self.explained():
            self.file.execute("PRAGMA synchronous = OFF")
            new = self.file.execute("INSERT INTO batches (fingerprint, sequences) VALUES (?, ?)", (mark, sequences))
            assert new.lastrowid is not None
            return new.lastrowid

    def keep(self, number: int, answers: np.ndarray, resent: int) -> None:
        """Store answers; when this returns they survive a loss of power."""
        self.bytes_each = max(self.bytes_each, 2 * answers.nbytes // max(1, len(answers)))
        with self.explained():
            self.file.execute("PRAGMA synchronous = FULL")
            self.file.execute(
                "UPDATE batches SET dtype = ?, shape = ?, answers = ?, resent = ? WHERE number = ?",
                (answers.dtype.str, json.dumps(answers.shape), answers.tobytes(), resent, number),
            )

    @property
    def said(self) -> str:
        """What a reader of the result should know about its journal, if anything."""
        (unused,) = self.file.execute("SELECT COUNT(*) FROM batches WHERE NOT used AND answers IS NOT NULL").fetchone()
        if not unused:
            return ""
        return (
            f"the last {unused} batches that the journal held were not used: this machine's arithmetic led to other "
            "questions from there on"
        )
