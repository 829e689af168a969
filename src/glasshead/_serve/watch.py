"""Who asks as a recovery does: what sets the questions of a recovery apart from sentences, counted for each client.

A recovery asks short sequences that stand in a relation to each other: a token moved a little, scaled or turned around
(differences, bisection), tokens at right angles (a basis, a frame), tokens next to others a thousand times as long. The
embeddings of words, in whatever order, do none of that, and a client that sends words is never near the limit.

It notices the methods of this library, also between many other questions (`bench/watch.py` measures how many), not
somebody who has read this page and pads each sequence with different words. Vectors of three numbers or fewer are not
watched: among so few directions, chance brings some together.
"""

from __future__ import annotations

import numpy as np

from .._oracles import DOUBLE, SINGLE

SHORT = 8  # different tokens other than zero: longer sequences are sentences
NEAR = 2.0**-9  # the angle below which two tokens are the same one, moved; words are a hundred times as far apart
# The cosine below which two tokens are at right angles, in float64, where the frame itself is rounded.
RIGHT_ANGLE = 2.0**-43
LENGTH_RATIO = 2.0**10  # the longest token of a sequence over its shortest
REMEMBERED = 128  # tokens of earlier short sequences
TOGETHER = 32  # short sequences that are looked at in one step
FORGIVEN = 0.01  # of a sequence that stands in a relation, by one that does not: what chance may bring together
NOTICED = 12.0  # sequences in excess of that; chosen so that 50 questions suffice and a dozen coincidences do not
FEWEST_NUMBERS = 4  # of a token

WARNING_SIGNS = "moved", "right angles", "lengths"


class Watch:
    """What is remembered of one client's questions.

    >>> watch = Watch()
    >>> watch.see(np.eye(40)[:, None])
    {'sequences': 13, 'moved': 0, 'right angles': 12, 'lengths': 0}
    """

    def __init__(self) -> None:
        self.score, self.sequences, self.noticed = 0.0, 0, False
        self.counts = dict.fromkeys(WARNING_SIGNS, 0)
        self._tokens: np.ndarray | None = None

    def see(self, X: np.ndarray, roundoff: float = DOUBLE) -> dict[str, int] | None:
        """Look at `X` of shape (B, N, d), numbers with that unit roundoff.

        The first time that the client has asked as a recovery does: what was counted until then; otherwise None.
        """
        if self.noticed or X.shape[2] < FEWEST_NUMBERS:
            return None
        largest = np.abs(X).max(axis=2)
        largest[repeated_tokens(X, largest)] = 0
        short = np.flatnonzero((largest > 0).sum(axis=1) <= SHORT)
        start = 0
        for first in range(0, max(1, len(short)), TOGETHER):
            chosen = short[first : first + TOGETHER]
            last = first + TOGETHER >= len(short)
            end = len(X) if last else int(chosen[-1]) + 1
            signs = np.zeros((end - start, len(WARNING_SIGNS)), bool)
            if len(chosen):
                signs[chosen - start] = self._signs(X[chosen], largest[chosen], roundoff)
            if self._count(signs):
                return {"sequences": self.sequences, **self.counts}
            start = end
        return None

    def _count(self, signs: np.ndarray) -> bool:
        """Count sequences one by one, until there are enough; each has the signs in its row."""
        for row in signs.tolist():
            self.sequences += 1
            self.score = self.score + 1 if any(row) else max(0.0, self.score - FORGIVEN)
            for name, shown in zip(WARNING_SIGNS, row, strict=True):
                self.counts[name] += shown
            if self.score >= NOTICED:
                self.noticed, self._tokens = True, None
                return True
        return False

    def _signs(self, X: np.ndarray, largest: np.ndarray, roundoff: float) -> np.ndarray:
        """For each of some short sequences, which of the signs it shows; `largest` is 0 for tokens to leave out."""
        which, place = np.nonzero(largest)
        tokens = X[which, place]
        scaled = tokens / largest[which, place][:, None]  # so that no square overflows
        lengths = np.linalg.norm(scaled, axis=1)
        directions = scaled / lengths[:, None]
        before = np.empty((0, X.shape[2])) if self._tokens is None else self._tokens
        same, cosines = against_earlier(directions, tokens, before)
        earlier = np.arange(cosines.shape[1]) < len(before) + np.arange(len(tokens))[:, None]
        near = (np.abs(cosines) > 1 - NEAR**2 / 2) & earlier
        repeated = (near & same).any(axis=1)
        signs = np.zeros((len(X), len(WARNING_SIGNS)), bool)
        signs[which[near.any(axis=1) & ~repeated], 0] = True
        if roundoff <= SINGLE:  # in narrower numbers right angles happen by chance
            right = (np.abs(cosines) <= max(RIGHT_ANGLE, 2 * roundoff)) & earlier
            signs[which[right.any(axis=1) & ~repeated], 1] = True
        signs[:, 2] = spread(np.log2(lengths) + np.log2(largest[which, place]), which, len(X)) > np.log2(LENGTH_RATIO)
        self._tokens = np.concatenate([before, tokens[~repeated]])[-REMEMBERED:]
        return signs


def repeated_tokens(X: np.ndarray, largest: np.ndarray) -> np.ndarray:
    """Which tokens (B, N) stand in the same sequence before, told apart by one number that is made of each."""
    longest = largest.max(axis=1)
    mixture = np.random.default_rng(0).standard_normal(X.shape[2])
    numbers = (X / np.where(longest > 0, longest, 1)[:, None, None] * mixture).sum(axis=2)
    order = np.argsort(numbers, axis=1, kind="stable")
    again = np.zeros(numbers.shape, bool)
    again[:, 1:] = np.diff(np.take_along_axis(numbers, order, axis=1), axis=1) == 0
    repeated = np.empty_like(again)
    np.put_along_axis(repeated, order, again, axis=1)
    return repeated


def against_earlier(directions: np.ndarray, tokens: np.ndarray, before: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Tokens held against all that were before or are among them: whether they are the same, and the cosines."""
    every = np.concatenate([before, tokens])
    scaled = every / np.abs(every).max(axis=1, keepdims=True)
    cosines = directions @ (scaled / np.linalg.norm(scaled, axis=1, keepdims=True)).T
    same = np.zeros(cosines.shape, bool)
    rows, columns = np.nonzero(np.abs(cosines) > 1 - NEAR**2 / 2)
    same[rows, columns] = (tokens[rows] == every[columns]).all(axis=1)
    return same, cosines


def spread(logarithms: np.ndarray, which: np.ndarray, count: int) -> np.ndarray:
    """The largest less the smallest of the numbers that belong to each of `count` sequences; 0 where there is none."""
    high, low = np.full(count, -np.inf), np.full(count, np.inf)
    np.maximum.at(high, which, logarithms)
    np.minimum.at(low, which, logarithms)
    return np.maximum(high - low, 0.0)
