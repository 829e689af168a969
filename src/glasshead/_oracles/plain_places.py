"""Position vectors in front of one head alone, without a norm.

A vector that is added at every place is part of the key bias and of the bias: the first one is taken to be 0. Each of
the others is read at the last place of a sequence, `y + p_t`, with one key x at the first place, and in between, at
places that do not matter then, long tokens that have no value and that the head overlooks. Overlooked keys leave the
value of the last token alone, `(y + p_t) B`. With that, answers are weights, and log-odds are `(x - y - p_t).K` with
`K = W (y + p_t) + key_bias`: linear in x, and what they are without x is linear in p_t.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.linalg import norm
from scipy.special import logit

from .._errors import NotConverged
from .._linalg import random_rotation, svd
from .._types import Float
from .base import Oracle

ALL_SHOWN = 1e-9  # of the largest singular value of B: what is smaller is none
AFFINE = 1e-9  # of the largest answer to single tokens
OVERLOOKED = 2.0**22  # length of keys without a value: on one side, the head does not see them
NEARBY_LAST = 1e-3  # of a token: how far another last token is away
UNEVEN, EVEN = 1e-4, 1e-3  # a weight closer to 0 or 1 says too little about its log-odds, and one that is not too close
MOST_SHRUNK, MOST_DOUBLED, HALVED = 24, 12, 40  # times that keys are brought closer, moved farther along, and back
DETERMINED = 1e-10  # of the best determined direction of a vector: less is left at 0


def find_plain_positions(oracle: Oracle, places: int, rng: np.random.Generator) -> Float[np.ndarray, "N d"] | None:
    """The vectors of so many places, or None where it is no such box."""
    d = oracle.dim
    if oracle.reach < 4 * 2.0**MOST_DOUBLED:
        raise NotConverged(f"tokens up to {oracle.reach:.3g} are too short to find keys that share weights evenly")
    bias = np.asarray(oracle(np.zeros((1, 1, d)))).reshape(-1)
    B = np.asarray(oracle(np.eye(d)[:, None])).reshape(d, -1) - bias
    x = rng.standard_normal((1, d))
    alone = np.asarray(oracle(x[:, None])).reshape(-1) - bias
    U, s, _ = svd(B, full=True)
    rank = int(np.sum(s > ALL_SHOWN * s[0]))
    straight = norm(alone - x @ B) <= AFFINE * (norm(alone) + norm(bias) + norm(B))
    if not straight or rank in (0, d):  # of a layer whose values show all of a token no direction is silent
        return None
    silent = min(OVERLOOKED, oracle.reach / 4) * U[:, rank:] @ unit_vector(d - rank, rng)
    return OneHead(oracle, B, bias, U[:, 0], silent, random_rotation(d, rng)).read_vectors(places, rng)


def unit_vector(size: int, rng: np.random.Generator) -> np.ndarray:
    x = rng.standard_normal(size)
    return x / norm(x)


@dataclass
class OneHead:
    """Single tokens are answered by `x B + bias`. Keys are `size` away from where they are read, and are moved along
    `silent`, which is long and has no value, to where weights are neither 0 nor 1."""

    oracle: Oracle
    B: Float[np.ndarray, "d k"]
    bias: Float[np.ndarray, " k"]
    shown: Float[np.ndarray, " d"]  # a direction that values show best
    silent: Float[np.ndarray, " d"]
    frame: Float[np.ndarray, "d d"]
    size: float = 1.0

    def read(self, x: Float[np.ndarray, "b d"], fill: np.ndarray, y: Float[np.ndarray, "b d"]) -> np.ndarray:
        """Answers without the bias, to x, what fills the places up to the last, `(t - 1, d)` or for each, and y."""
        between = np.broadcast_to(fill, (len(x), *fill.shape[-2:]))
        asked = np.asarray(self.oracle(np.concatenate([x[:, None], between, y[:, None]], axis=1)))
        return asked.reshape(len(x), -1) - self.bias

    def read_weights(self, x: np.ndarray, fill: np.ndarray, y: np.ndarray, value: np.ndarray) -> np.ndarray:
        """Reads the weight of the key, for last tokens `y (b, d)` with values `(b, k)`."""
        apart = x @ self.B - value
        return np.sum((self.read(x, fill, y) - value) * apart, axis=1) / np.sum(apart**2, axis=1)

    def read_odds(self, x: np.ndarray, fill: np.ndarray, y: np.ndarray, value: np.ndarray) -> np.ndarray:
        """NaN where a weight says too little."""
        weight = self.read_weights(x, fill, y, value)
        seen = np.where((weight > UNEVEN) & (weight < 1 - UNEVEN), weight, np.nan)
        return logit(seen)

    def find_even(self, x: np.ndarray, fill: np.ndarray, y: np.ndarray, value: np.ndarray) -> np.ndarray:
        """The key x, moved along `silent` to where its weight is between 0 and 1."""
        along = self.silent / norm(self.silent)

        def read_high(far: float) -> bool | None:
            weight = float(self.read_weights((x + far * along)[None], fill, y[None], value[None])[0])
            return None if EVEN < weight < 1 - EVEN else weight > 0.5

        here, low, other = read_high(0.0), 0.0, 0.0
        if here is None:
            return x
        for far in (side * 2.0**k for k in range(-3, MOST_DOUBLED) for side in (1, -1)):
            there = read_high(far)
            if there is None:
                return x + far * along
            if there != here:
                other = far
                break
        for _ in range(HALVED):
            middle = (low + other) / 2
            there = read_high(middle)
            if there is None:
                return x + middle * along
            low, other = (middle, other) if there == here else (low, middle)
        return x

    def read_key(self, fill: np.ndarray, y: np.ndarray, value: np.ndarray) -> tuple[np.ndarray, float]:
        """K at a last token y, and what it is worth there, `(y + p).K`; brings keys closer until they tell."""
        d, self.size = len(y), min(1.0, 2 * self.size)
        guess = (value - y @ self.B) @ np.linalg.pinv(self.B)
        lasts, values = (np.broadcast_to(row, (d + 1, len(row))) for row in (y, value))
        for _ in range(MOST_SHRUNK):
            base = self.find_even(y + guess + self.size * self.shown, fill, y, value)
            x = base + self.size * np.vstack([np.zeros(d), self.frame])
            odds = self.read_odds(x, fill, lasts, values)
            if np.isfinite(odds).all():
                K = np.linalg.solve(self.frame, (odds[1:] - odds[0]) / self.size)
                return K, float(x[0] @ K - odds[0])
            self.size /= 2
        return np.full(d, np.nan), np.nan

    def read_value(self, t: int) -> tuple[np.ndarray, np.ndarray]:
        """`p_t B`, and the silent token `(d,)` that the head overlooks at the last token `shown`: of both sides one
        leaves the value of the last token, which changes with that token, and the other does not."""
        sides, other = np.stack([self.silent, -self.silent]), (1 + NEARBY_LAST) * self.shown
        fill = np.repeat(sides[:, None], t - 1, axis=1)
        both, again = (self.read(sides, fill, np.stack([y] * 2)) for y in (self.shown, other))
        side = int(np.argmin(norm(again - both - NEARBY_LAST * self.shown @ self.B, axis=1)))
        return both[side] - self.shown @ self.B, sides[side]

    def read_vectors(self, places: int, rng: np.random.Generator) -> Float[np.ndarray, "N d"] | None:
        """W and the key bias at the second place, then each vector p from `W p`, `p B` and `p.K` at several tokens."""
        d, B, nothing = len(self.B), self.B, np.zeros((0, len(self.B)))
        lasts = self.shown + random_rotation(d, rng)
        table, value = np.zeros((places, d)), self.read_value(1)[0]
        keys = [self.read_key(nothing, y, y @ B + value) for y in (self.shown, *lasts)]
        K, worth = np.stack([k for k, _ in keys]), np.array([w for _, w in keys])
        if not np.isfinite(K).all():
            return None
        W = np.linalg.solve(lasts - self.shown, K[1:] - K[0]).T
        table[1] = solved_together((K, worth - np.sum(np.vstack([self.shown, lasts]) * K, axis=1)), (B.T, value))
        key_bias = K[0] - W @ (self.shown + table[1])
        for t in range(2, places):
            value, overlooked = self.read_value(t)
            first, worth_first = self.read_key(np.tile(overlooked, (t - 1, 1)), self.shown, self.shown @ B + value)
            if not np.isfinite(first).all():
                return None
            known = (first[None], np.array([worth_first - self.shown @ first])), (B.T, value)
            known = (*known, (W, first - key_bias - W @ self.shown))
            K, guess = (lasts - self.shown) @ W.T + first, solved_together(*known)
            x, sides = lasts + guess + self.size * self.shown, -np.sign(K @ self.silent)
            fill = np.repeat((sides[:, None] * self.silent)[:, None], t - 1, axis=1)
            odds = self.read_odds(x, fill, lasts, lasts @ B + value)
            worth, told = np.sum((x - lasts) * K, axis=1) - odds, np.isfinite(odds)
            table[t] = solved_together((K[told], worth[told]), *known)
        return table


def solved_together(*parts: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """The smallest vector p with `A p = b` for all `(A, b)`, by least squares."""
    A, b = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
    return np.linalg.lstsq(A, b, rcond=DETERMINED)[0]
