"""One head from answers with fresh noise: passes on averaged answers, averaged again.

Each pass is the ordinary learner with frames of its own, on answers averaged until a logit of them is all but linear in
what noise is left. Then the passes err independently and without bias, and their spread tells how much.
"""

from __future__ import annotations

import math

import numpy as np

from .._checks import Noise, Unpromised, explained, measure_noise
from .._errors import NotIdentifiable, TargetMismatch
from .._learned import LearnedHead, Sampled
from .._limits import information_limit
from .._models import Attention
from .._oracles import CERTAIN, Averaged, Narrow, Oracle, is_narrow
from .attention import learn_attention
from .key_bias import SCORE
from .passes import exact_rank, from_narrow, hidden, interval, sampled, until, wanted_passes

LINEAR = 0.04  # of the swing: what is left of the noise at most
MOST_REPEATS = 2**10  # of every query, to make a pass workable
USUAL, MOST = 8, 16  # passes planned for an accuracy: past MOST, repeats leave less bias than passes
EFFORT = 2**13  # repeats times passes, for an accuracy
ZERO = 2**8  # times the repeats that should do: a W that is 0 even then is no victim of noise


class TooNoisy(Exception):
    """A pass that noise spoiled, or passes that were not enough; with that many repeats they might do."""

    def __init__(self, repeats: int):
        super().__init__("more repeats are needed")
        self.repeats = repeats


def from_fresh_noise(
    oracle: Oracle, noise: Noise, rng: np.random.Generator, rank: int | None, accuracy: float | None
) -> LearnedHead:
    repeats = enough = first_repeats(oracle, noise)
    while True:
        zero = repeats >= ZERO * enough
        try:
            return Repeated(oracle, noise, rng, repeats, zero).learn(rank, accuracy)
        except TooNoisy as error:
            repeats = error.repeats


class Repeated:
    """Passes that ask every query `repeats` times. A W of 0 is believed only where `zero` says so."""

    def __init__(self, oracle: Oracle, noise: Noise, rng: np.random.Generator, repeats: int, zero: bool):
        self.oracle, self.noise, self.rng, self.repeats, self.zero = oracle, noise, rng, repeats, zero

    def quiet(self, oracle: Oracle) -> Averaged:
        return Averaged(oracle, self.repeats, self.noise.size, self.noise.share)

    def learn(self, rank: int | None, accuracy: float | None) -> LearnedHead:
        before, first = self.oracle.queries, self.one(rank)
        if first.rank == 0:
            needed = "less noise or a larger max_norm"
            return Sampled.from_one(first, self.quiet, f"behind {self.noise}", needed)
        passes = self.passes(rank, accuracy, first.model)
        wanted = wanted_passes(passes, accuracy)
        repeats = math.ceil(self.repeats * wanted / USUAL)
        if len(passes) < wanted and repeats * USUAL <= EFFORT:
            raise TooNoisy(max(repeats, 2 * self.repeats))
        return sampled(passes, self.quiet, self.lacking(passes, accuracy, self.oracle.queries - before), first)

    def passes(self, rank: int | None, accuracy: float | None, first: Attention) -> list[Attention]:
        """All of the same rank: where noise may have cut some of them short, all of W is measured instead."""
        d, found = self.oracle.dim, exact_rank(first)
        if rank is None and 2 * information_limit(d, found) < information_limit(d):
            passes = until(accuracy, [first], lambda: self.one(None).model, MOST)
            if len({exact_rank(head) for head in passes}) == 1:
                return passes
        rank = rank or d
        return until(accuracy, [first] * (found == rank), lambda: self.one(rank).model, MOST)

    def one(self, rank: int | None) -> LearnedHead:
        learned = learn_attention(self.quiet(self.oracle), self.rng, rank)
        wanted = repeats_for(self.noise, self.oracle, learned.model)
        if wanted > 2 * self.repeats or self.spoiled(learned):
            raise TooNoisy(max(wanted, 4 * self.repeats))
        return learned

    def spoiled(self, learned: LearnedHead) -> bool:
        believed = learned.rank == 0 and self.zero and math.isfinite(learned.bound)
        return hidden(learned) and not believed and self.repeats < MOST_REPEATS

    def lacking(self, passes: list[Attention], accuracy: float | None, queries: int) -> str:
        short = 1.0 if accuracy is None else interval(passes, "W") / accuracy
        less = f"noise of {self.noise.size / short:.2g} instead of {self.noise.size:.2g}"
        return f"{less}, a larger max_norm, or some {queries * short**2:.1g} queries"


def first_repeats(oracle: Oracle, noise: Noise) -> int:
    """Before anything but the noise is known: v is read once more, with the longest tokens."""
    d, reach = oracle.dim, oracle.reach
    answers = oracle(np.concatenate([np.zeros((1, 1, d)), reach * np.eye(d)[:, None]]))
    v = (answers[1:] - answers[0]).reshape(d, -1) / reach
    spurious = math.sqrt(2) * (math.sqrt(d) + math.sqrt(v.shape[1])) * noise.size / reach
    v_norm = math.sqrt(max(0.0, float(np.linalg.norm(v, 2)) ** 2 - spurious**2))
    return repeats_at(noise, reach, v_norm)


def repeats_for(noise: Noise, oracle: Oracle, head: Attention) -> int:
    """A key bias limits the length of keys, so that more repeats are needed than without."""
    reach, key_bias = oracle.reach, float(np.linalg.norm(head.key_bias))
    rho = min(reach, SCORE * oracle.dim**0.75 / key_bias) if key_bias > 0 else reach
    return repeats_at(noise, rho, float(np.linalg.norm(head.v.reshape(oracle.dim, -1), 2)))


def repeats_at(noise: Noise, rho: float, v_norm: float) -> int:
    """How often to ask for noise to stay below `LINEAR` times the swing of keys of that length."""
    swing = rho * v_norm / math.sqrt(2)
    left = CERTAIN * (noise.size + noise.share * swing) / LINEAR
    repeats = (left / swing) ** 2 if swing > 0 else math.inf
    if repeats > MOST_REPEATS:
        raise NotIdentifiable(
            f"{noise} hides the head behind it: with tokens up to {rho:.3g} every query would have to be asked "
            f"{repeats:.2g} times, more than {MOST_REPEATS}; less noise or a larger max_norm is needed"
        )
    return max(1, math.ceil(repeats))


def learn_values(
    oracle: Oracle, rng: np.random.Generator, rank: int | None = None, accuracy: float | None = None
) -> LearnedHead:
    """Recover one head from value answers, as accurate as promised or not."""
    unaware = not is_narrow(oracle)
    try:
        return learn_attention(oracle, rng, rank, accuracy)
    except Unpromised as noticed:
        seen = noticed
    except TargetMismatch as mismatch:
        reason, seen = explained(oracle, mismatch, rng), None
        if not (unaware and is_narrow(oracle)):
            raise reason from None
    if seen is None:  # in few dimensions it takes the answers up to here to recognise their format
        return learn_values(oracle, rng, rank, accuracy)
    return from_noise(oracle, seen, rng, rank, accuracy)


def from_noise(oracle: Oracle, seen: Unpromised, rng: np.random.Generator, rank: int | None, accuracy: float | None):
    if not is_narrow(oracle):
        return from_fresh_noise(oracle, measure_noise(oracle, seen), rng, rank, accuracy)
    narrow = Narrow(oracle)
    if not seen.fresh:
        return from_narrow(narrow, rng, rank, accuracy)
    return from_fresh_noise(narrow, measure_noise(narrow, seen), rng, rank, accuracy)
