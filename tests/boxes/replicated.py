"""Boxes for replicas and functions for workers: what they import. Each sequence is answered on its own, so that no
batch changes a bit."""

import os
import time
from pathlib import Path

import numpy as np

import glasshead as gh

HEAD = gh.Attention.random(8, seed=3)


def one_by_one(X):
    return np.array([HEAD(np.array(x)) for x in X])


def with_fresh_noise(X):
    return one_by_one(X) + np.random.default_rng().standard_normal(len(X))


def three_numbers(X):
    return np.stack([one_by_one(X), X[:, -1, 0], X.sum(axis=(1, 2))], axis=1)


def in_place(X):
    X *= 1.0
    return three_numbers(X)


def too_few(X):
    return one_by_one(X)[:1]


def other_shapes(X):
    """Parts of more sequences than one have answers of another kind."""
    return three_numbers(X) if len(X) > 1 else one_by_one(X)


class Trouble(Exception):
    """One that pickle writes and cannot read."""

    def __init__(self, what, when):
        super().__init__(f"{what} {when}")


def raises(X):
    if len(X) > 1:
        raise KeyError("no such table")
    return one_by_one(X)


def raises_trouble(X):
    raise Trouble("out of order", "today")


def refuses(X):
    raise gh.OracleError("not today", X[0])


class Mortal:
    """Ends its own process after so many sequences, so many times over all replicas, which note in a folder how many
    sequences came to them."""

    def __init__(self, folder, life, deaths=1):
        self.folder, self.life, self.deaths = Path(folder), life, deaths

    def __call__(self, X):
        mine = self.folder / f"seen-{os.getpid()}"
        with mine.open("ab", buffering=0) as note:  # at once: it may be killed any time
            note.write(b"." * len(X))
        if mine.stat().st_size >= self.life:
            for k in range(self.deaths):
                try:
                    (self.folder / f"death-{k}").touch(exist_ok=False)
                except FileExistsError:
                    continue
                os._exit(1)
        return one_by_one(X)


def seen_in(folder):
    """Sequences that replicas noted, all together."""
    return sum(path.stat().st_size for path in Path(folder).glob("seen-*"))


def deaths_in(folder):
    return len(list(Path(folder).glob("death-*")))


def same(found, other):
    """Whether two recoveries are equal bit for bit."""
    equal = all(np.array_equal(getattr(found.model, name), getattr(other.model, name)) for name in ("W", "v"))
    return equal and (found.family, found.bound, found.reason) == (other.family, other.bound, other.reason)


def recovered(seed, dim=8):
    return gh.recover(gh.ValueOracle(gh.Attention.random(dim, seed=seed))).model.W


def mortal(folder, number, lives=1):
    """Notes that it was begun, and ends its process the first times."""
    notes = Path(folder) / f"begun-{number}"
    with notes.open("ab", buffering=0) as file:
        file.write(b".")
    if notes.stat().st_size <= lives:
        os._exit(1)
    return number**2


def stuck(folder):
    (Path(folder) / f"pid-{os.getpid()}").touch()
    time.sleep(600)


def raised(error):
    raise error
