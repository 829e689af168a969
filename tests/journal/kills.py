"""A run over HTTP whose process is killed at random moments and started again, so many times."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import glasshead as gh
from tests.boxes.served import Served

LOOKS = 9  # sequences that a process asks before it goes on: a first look, and whether the box is the same
LONGEST_START = 60.0  # seconds until a process must have begun to ask


@dataclass(frozen=True)
class Killed:
    """What came of it: the `same` model, bound and reason as without a kill; how many `kills`; the sequences that an
    uninterrupted run asked, that the killed ones counted and that the server saw; the largest batch, and answers that
    were once stored and then missing."""

    same: bool
    kills: int
    uninterrupted: int
    counted: int
    received: int
    batch: int
    lost: int

    @property
    def most(self) -> int:
        """Queries that it may take with so many kills: a batch more for each of them, and the looks."""
        return self.uninterrupted + self.kills * (self.batch + LOOKS)


def stored(journal: Path) -> tuple[int, int]:
    """How many batches have answers, and the largest batch."""
    if not journal.exists():
        return 0, 0
    file = sqlite3.connect(journal)
    try:
        if not file.execute("SELECT 1 FROM sqlite_master").fetchone():
            return 0, 0
        return file.execute("SELECT COUNT(answers), COALESCE(MAX(sequences), 0) FROM batches").fetchone()
    finally:
        file.close()


def recovery(url: str, folder: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "glasshead", "recover", url, "--run", str(folder), "--json"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def ended(process: subprocess.Popen[str]) -> str:
    out, err = process.communicate(timeout=600)
    if process.returncode:
        raise RuntimeError(f"glasshead recover ended with {process.returncode}: {out}{err}")
    return out


def killed_runs(folder: Path, kills: int, dim: int, seconds: float, seed: int) -> Killed:
    """A head behind a server that takes so many `seconds` for a sequence. A process is killed within
    the time of two batches of `dim` sequences after it went on from where it was, or, one in five, after it began."""
    rng, journal, lost, before = np.random.default_rng(seed), folder / "run" / "journal.sqlite", 0, 0
    gh.save(gh.Attention.random(dim, seed=1), folder / "head.safetensors")
    with Served(folder / "head.safetensors", "--sleep", seconds) as server:
        whole = json.loads(ended(recovery(server.url, folder / "whole")))
        server.change(sleep=seconds)
        for _ in range(kills):
            process = recovery(server.url, folder / "run")
            wait_for_questions(server, process, LOOKS if rng.random() < 0.8 else 1)
            time.sleep(float(rng.uniform(0, 2 * dim * seconds)))
            process.kill()
            process.communicate()
            now = stored(journal)[0]
            lost, before = lost + max(0, before - now), now
        found, received = json.loads(ended(recovery(server.url, folder / "run"))), server.stats()["received"]
    models = [gh.load(folder / name / "model.safetensors") for name in ("whole", "run")]
    same = all(np.array_equal(getattr(models[0], name), getattr(models[1], name)) for name in ("W", "v"))
    same = same and all(found[name] == whole[name] for name in whole if name != "queries")
    batch = stored(journal)[1]
    return Killed(same, kills, whole["queries"], found["queries"], received, batch, lost)


def wait_for_questions(server: Served, process: subprocess.Popen[str], count: int) -> None:
    """Until the process has asked so many sequences."""
    before, start = server.stats()["received"], time.monotonic()
    while server.stats()["received"] < before + count and process.poll() is None:
        if time.monotonic() - start > LONGEST_START:
            raise TimeoutError("the process has asked nothing")
        time.sleep(0.01)
    if process.poll() is not None:
        raise RuntimeError(f"the run ended before it was killed: {process.communicate()}")
