"""Journals and real processes: one that is killed, two at once, a full disk, files that are something else."""

import signal
import sqlite3
import subprocess
import sys
import time

import numpy as np
import pytest

import glasshead as gh

DIM = 24
RUN = f"""
import sys, time, resource
import glasshead as gh
target, pause = gh.Attention.random({DIM}, seed=1), float(sys.argv[2])
if len(sys.argv) > 3:
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]),) * 2)

def box(X):
    time.sleep(pause)
    print(len(X), flush=True)
    return target(X)

found = gh.recover(gh.ValueOracle(box, {DIM}), journal=sys.argv[1])
gh.save(found.model, sys.argv[1] + ".safetensors")
print("found", found.queries, flush=True)
"""


def started(*arguments):
    command = [sys.executable, "-c", RUN, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def ended(process):
    out, err = process.communicate(timeout=120)
    return process.returncode, out.split(), err


def test_a_process_killed_and_started_again(tmp_path):
    path, rng = tmp_path / "run.sqlite", np.random.default_rng(0)
    whole = gh.recover(gh.ValueOracle(gh.Attention.random(DIM, seed=1)))
    for _ in range(3):
        process = started(path, 0.02)
        for _ in range(int(rng.integers(2, 9))):
            process.stdout.readline()
        time.sleep(float(rng.uniform(0, 0.02)))
        process.send_signal(signal.SIGKILL)
        assert ended(process)[0] == -signal.SIGKILL
    code, out, err = ended(started(path, 0))
    assert code == 0, err
    found = gh.load(f"{path}.safetensors")
    assert np.array_equal(found.W, whole.model.W)
    assert np.array_equal(found.v, whole.model.v)
    assert whole.queries < int(out[-1]) <= whole.queries + 3 * (DIM + 2) + 3


def test_two_processes_on_one_journal(tmp_path):
    first = started(tmp_path / "run.sqlite", 0.2)
    first.stdout.readline()
    with pytest.raises(gh.JournalError, match="in use by another run"):
        gh.recover(gh.ValueOracle(gh.Attention.random(DIM, seed=1)), journal=tmp_path / "run.sqlite")
    first.kill()
    ended(first)
    assert gh.recover(gh.ValueOracle(gh.Attention.random(DIM, seed=1)), journal=tmp_path / "run.sqlite").bound < 1e-9


def test_a_disk_that_is_full_loses_nothing(tmp_path):
    path = tmp_path / "run.sqlite"
    code, asked, err = ended(started(path, 0, 100_000))
    assert code == 1
    assert "JournalError" in err
    assert "make room and run it again" in err
    batches, target = [], gh.Attention.random(DIM, seed=1)
    whole = gh.recover(gh.ValueOracle(lambda X: batches.append(len(X)) or target(X), DIM))
    assert 20 < len(asked) < len(batches) - 20
    code, again, err = ended(started(path, 0))
    assert code == 0, err
    again, queries = again[:-2], int(again[-1])
    assert len(again) == 1 + len(batches) - (len(asked) - 1)  # one to know the box, and all from the last one on
    assert np.array_equal(gh.load(f"{path}.safetensors").W, whole.model.W)
    assert queries == whole.queries + 1 + int(asked[-1])


def a_text(path):
    path.write_text("not a database, but long enough to be taken for one" * 40)


def another_database(path):
    file = sqlite3.connect(path)
    file.execute("CREATE TABLE something (else_ TEXT)")
    file.commit()
    file.close()


def cut_off(path):
    gh.recover(gh.ValueOracle(gh.Attention.random(4, seed=1)), journal=path)
    path.write_bytes(path.read_bytes()[:5000])


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (a_text, "is not a journal of glasshead or is damaged"),
        (another_database, "is not a journal of glasshead or is damaged"),
        (cut_off, "is not a journal of glasshead or is damaged"),
        (lambda path: path.mkdir(), "cannot be opened"),
    ],
)
def test_files_that_are_no_journals(tmp_path, make, words):
    make(tmp_path / "run.sqlite")
    with pytest.raises(gh.JournalError, match=words):
        gh.recover(gh.ValueOracle(gh.Attention.random(4, seed=1)), journal=tmp_path / "run.sqlite")


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(gh.JournalError, match="cannot be opened"):
        gh.recover(gh.ValueOracle(gh.Attention.random(4, seed=1)), journal=tmp_path / "nowhere" / "run.sqlite")


def test_a_journal_that_is_no_path():
    with pytest.raises(TypeError, match="expected journal to be None or the path of a file, got 3"):
        gh.recover(gh.ValueOracle(gh.Attention.random(4, seed=1)), journal=3)
