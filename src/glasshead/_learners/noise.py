"""One head from answers with fresh noise: passes on averaged answers, averaged again.

Each pass is the ordinary learner with frames of its own, on answers averaged until a logit of them is all but linear in
what noise is left. Then the passes err independently and without bias, and their spread tells how much.
"""

from __future__ import annotations

import math

import numpy as np

from .._checks import Noise, Unpromised, check_unmeasured, read_noise
from .._errors import NotIdentifiable
from .._learned import LearnedHead, Sampled
from .._limits import information_limit
from .._models import Attention
from .._oracles import CERTAIN, Averaged, Narrow, Oracle, Scaled
from .frames import KEY_BIAS_LOGIT
from .passes import (
    LearnAsPromised,
    Spoiled,
    exact_rank,
    hidden,
    interval,
    learn_from_narrow,
    learn_passes,
    sampled,
    undone,
    wanted_passes,
)

LINEAR = 0.04  # of the swing: what is left of the noise at most
MOST_REPEATS = 2**10  # of every query, to make a pass workable
USUAL_PASSES, MOST_PASSES = 8, 16  # planned for an accuracy: past those, repeats leave less bias than passes
EFFORT = 2**13  # repeats times passes, for an accuracy
SHORTEST_PASS = 0.95  # tokens of a pass, at most: whatever is wrong with an answer is another thing for them
ZERO = 2**8  # times the repeats that should do: a W that is 0 even then is no victim of noise


def learn_from_noise(
    learn: LearnAsPromised,
    oracle: Oracle,
    seen: Unpromised,
    rng: np.random.Generator,
    rank: int | None,
    accuracy: float | None,
) -> LearnedHead:
    """One head from answers with noise that was not promised, by a learner for answers with a promise."""
    quiet = Narrow(oracle) if oracle.narrow else oracle
    if isinstance(quiet, Narrow) and not seen.fresh:
        found = learn_from_narrow(learn, quiet, rng, rank, accuracy)
    else:
        found = learn_from_fresh_noise(learn, quiet, read_noise(quiet, seen), rng, rank, accuracy)
    if isinstance(found, Unpromised):
        check_unmeasured(quiet, found)
    return found


def learn_from_fresh_noise(
    learn: LearnAsPromised,
    oracle: Oracle,
    noise: Noise,
    rng: np.random.Generator,
    rank: int | None,
    accuracy: float | None,
) -> LearnedHead | Unpromised:
    """Every query is asked as often as that noise needs; more often where passes turn out to be spoiled by it."""
    repeats = enough = find_first_repeats(oracle, noise)
    while repeats <= EFFORT:
        found = Repeated(learn, oracle, noise, rng, repeats, zero=repeats >= ZERO * enough).learn(rank, accuracy)
        if not isinstance(found, Spoiled):
            return found
        repeats = found.repeats
    raise NotIdentifiable(
        f"{noise} hides the head behind it: it came back although every query was asked {EFFORT // 4} times or more"
    )


class Repeated:
    """Passes that ask every query `repeats` times. A W of 0 is believed only where `zero` says so."""

    def __init__(
        self, learn: LearnAsPromised, oracle: Oracle, noise: Noise, rng: np.random.Generator, repeats: int, zero: bool
    ):
        self.learner, self.oracle, self.noise, self.rng = learn, oracle, noise, rng
        self.repeats, self.zero, self.lengths = repeats, zero, np.random.default_rng(repeats)

    def quiet(self, oracle: Oracle) -> Averaged:
        return Averaged(oracle, self.repeats, self.noise.size, self.noise.share)

    def learn(self, rank: int | None, accuracy: float | None) -> LearnedHead | Spoiled | Unpromised:
        """The average of several passes, or with how many repeats to begin again."""
        before, first = self.oracle.queries, self.learn_one(rank)
        if not isinstance(first, LearnedHead):
            return first
        if first.rank == 0:
            needed = "less noise or a larger max_norm"
            return Sampled.from_one(first, self.quiet, f"behind {self.noise}", needed)
        passes = self.learn_passes(rank, accuracy, first.model)
        if isinstance(passes, Spoiled):
            return passes
        wanted = wanted_passes(passes, accuracy)
        repeats = math.ceil(self.repeats * wanted / USUAL_PASSES)
        if len(passes) < wanted and repeats * USUAL_PASSES <= EFFORT:
            return Spoiled(max(repeats, 2 * self.repeats))
        lacking = self.lacking(passes, accuracy, self.oracle.queries - before)
        return sampled(passes, self.quiet, lacking, first, self.oracle.roundoff)

    def learn_passes(self, rank: int | None, accuracy: float | None, first: Attention) -> list[Attention] | Spoiled:
        """All of the same rank: where noise may have cut some of them short, all of W is measured instead."""
        d, found = self.oracle.dim, exact_rank(first)
        if rank is None and 2 * information_limit(d, found) < information_limit(d):
            passes = learn_passes(lambda: self.learn_model(None), [first], accuracy, MOST_PASSES)
            if isinstance(passes, Spoiled) or len({exact_rank(head) for head in passes}) == 1:
                return passes
        rank = rank or d
        return learn_passes(lambda: self.learn_model(rank), [first] * (found == rank), accuracy, MOST_PASSES)

    def learn_model(self, rank: int | None) -> Attention | Spoiled:
        """One pass with tokens of its own length: what is always wrong with an answer shows as scatter, too."""
        factor = float(SHORTEST_PASS ** self.lengths.random())
        found = self.learn_one(rank, factor)
        return undone(found.model, factor) if isinstance(found, LearnedHead) else Spoiled(4 * self.repeats)

    def learn_one(self, rank: int | None, factor: float = 1.0) -> LearnedHead | Spoiled | Unpromised:
        """One pass, of the box as it is for tokens so many times as long, unless noise spoiled it."""
        learned = self.learner(self.quiet(Scaled(self.oracle, factor)), self.rng, rank, None)
        if isinstance(learned, Unpromised):
            return learned
        wanted = repeats_for(self.noise, self.oracle, undone(learned.model, factor))
        if wanted > 2 * self.repeats or self.spoiled(learned):
            return Spoiled(max(wanted, 4 * self.repeats))
        return learned

    def spoiled(self, learned: LearnedHead) -> bool:
        believed = learned.rank == 0 and self.zero and math.isfinite(learned.bound)
        return hidden(learned) and not believed and self.repeats < MOST_REPEATS

    def lacking(self, passes: list[Attention], accuracy: float | None, queries: int) -> str:
        """What would give that accuracy, in words."""
        short = 1.0 if accuracy is None else interval(passes, "W") / accuracy
        less = f"noise of {self.noise.size / short:.2g} instead of {self.noise.size:.2g}"
        return f"{less}, a larger max_norm, or some {queries * short**2:.1g} queries"


def find_first_repeats(oracle: Oracle, noise: Noise) -> int:
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
    rho = min(reach, KEY_BIAS_LOGIT * oracle.dim**0.75 / key_bias) if key_bias > 0 else reach
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
