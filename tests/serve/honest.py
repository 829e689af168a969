"""Clients that send words: sentences of embeddings with shared rows, as all kinds of users of a model send them."""

from dataclasses import dataclass

import numpy as np

FORMATS = {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11}
WORDS, LONGEST = 3000, 64


@dataclass(frozen=True)
class Habits:
    """How a client writes: the lengths of its sentences, whether positions are added, how it fills up a batch."""

    lengths: str
    positions: bool
    padded: str
    ends_alike: bool
    repeats: float
    dtype: str

    @classmethod
    def random(cls, rng):
        return cls(
            lengths=str(rng.choice(["any", "short", "words", "fixed"])),
            positions=bool(rng.random() < 0.5),
            padded=str(rng.choice(["behind", "before", "not"])),
            ends_alike=bool(rng.random() < 0.5),
            repeats=float(rng.choice([0.0, 0.1, 0.5])),
            dtype=str(rng.choice(["float64", "float64", "float32", "float16"])),
        )


def vocabulary(dim, rng):
    """Rows with a direction in common, as real ones have, and lengths that differ by a factor of a few."""
    rows = rng.standard_normal((WORDS, dim)) + rng.uniform(0, 2) * rng.standard_normal(dim)
    lengths = np.exp(0.3 * rng.standard_normal(WORDS)) * rng.choice([0.05, 1.0, 20.0])
    return rows * (lengths / np.linalg.norm(rows, axis=1))[:, None]


def batches(table, habits, count, rng):
    """Batches with `count` sequences in all, words drawn as they occur, and the unit roundoff of their format."""
    place = 0.2 * np.linalg.norm(table[0]) / np.sqrt(table.shape[1]) * rng.standard_normal((LONGEST, table.shape[1]))
    fixed, told = int(rng.integers(2, LONGEST + 1)), []
    while count > 0:
        size = min(count, int(rng.integers(1, 33)))
        count -= size
        sentences = [one_sentence(table, habits, fixed, told, rng) for _ in range(size)]
        longest = max(map(len, sentences))
        X = np.zeros((size, longest, table.shape[1]))
        for x, words in zip(X, sentences, strict=True):
            start = longest - len(words) if habits.padded == "before" else 0
            x[start : start + len(words)] = table[words] + habits.positions * place[: len(words)]
        X = X.astype(habits.dtype).astype(float)
        roundoff = FORMATS[habits.dtype]
        for x, words in zip(X, sentences, strict=True):
            if habits.padded == "not":
                yield x[None, : len(words)], roundoff
        if habits.padded != "not":
            yield X, roundoff


def one_sentence(table, habits, fixed, told, rng):
    """The numbers of its words: a few are frequent; some sentences were sent before."""
    if told and rng.random() < habits.repeats:
        return told[rng.integers(len(told))]
    most = {"any": LONGEST, "short": 8, "words": 2, "fixed": fixed}[habits.lengths]
    length = most if habits.lengths == "fixed" else int(rng.integers(1, most + 1))
    words = rng.zipf(1.2, length) % len(table)
    words[-1] = 1 if habits.ends_alike else words[-1]
    told.append(words)
    return words
