"""The law of the odds of one head, of which no model is needed.

Beside a last token q a key k has the weight p, and eight copies of it have `8p / (1 + 7p)` together, whatever scores
are. All four answers, to `[k]`, `[q]`, `[k ; q]` and `[k ... k ; q]`, are the box's own, so a second head shows in the
last digits however faint it is: errors of W, which may hide it elsewhere, play no part.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._errors import COPIED_KEY, EVERYWHERE, Evidence
from .._learned import Learned
from .._linalg import rms
from .._oracles import Oracle
from .answered import NEIGHBOUR_TIMES, NEIGHBOURS, VOID, apart, ask_by_length
from .compared import Compared
from .telling import ODDS_COPIES, answer_error, errors_of_odds, of_copies, sizes_of, steepness, telling_pairs

ODDS_PROBES = 2  # pairs of a key and a last token: at one of them two heads may happen to agree
ODDS_QUERIES = 4 * ODDS_PROBES
# Where answers are further off than promised, which bounds excuse, or than bounds allow: a second head is off by as
# much as bad arithmetic. Of 12 boxes with a faint one that two or three probes missed, 8 show two thirds where answers
# have 18 bits; where all of a box has 8 or 11, it takes 16 to show half.
MORE_PROBES, NARROW_PROBES = 8, 16
# The misfit of all probes together, over what rounding makes of the same tokens sent thrice: of 882 heads in 16 bits a
# third are above the first by 16 probes, and 2% above the second by 64; of 24 boxes with a faint second head that
# single probes miss, all and 23 are.
MISFIT_DOUBTED, DOUBTED_PROBES, MISFIT_REFUSED = 1.0, 48, 1.8
MISFIT_POWER = 4.0  # of its mean: a faint head shows in a few pairs, by much, and rounding in all of them alike
LEAST_ROUNDING = 0.3  # of a format: what an answer to the same tokens thrice may be off by chance
THRICE = 3  # copies of every token, which change no answer, however many heads there are
ODDS_TIMES = 4.0  # times what these differ by: more than answers are off


def check_odds(
    oracle: Oracle, learned: Learned, rng: np.random.Generator, probes: int = ODDS_PROBES, *, measured: bool = False
) -> Evidence | None:
    """What breaks the law, where answers are as accurate as promised or as their format is, or as they are seen to be
    if that is `measured`; 4 queries for a probe, or 6. There and in a narrow format misfits of all probes count
    together, and more are asked where they are larger than rounding usually is."""
    (rng,) = rng.spawn(1)  # what is drawn afterwards is the same, whatever is drawn here
    odds = read_odds(oracle, learned, probes, rng, thrice=measured)
    errors = [odds.errors(oracle, each) for each in (odds.many, odds.one, odds.key, odds.last)]
    allowed = errors_of_odds(odds.p, errors, odds.swing)
    broken = Compared(odds.copied, odds.many, odds.predicted, allowed).evidence(COPIED_KEY)
    broken = broken or evidence_of_change(oracle, learned, odds, rng)
    if broken or not (measured and oracle.box.narrow) or odds.misfit(oracle) <= MISFIT_DOUBTED:
        return broken
    many = odds.with_more(read_odds(oracle, learned, DOUBTED_PROBES, rng, thrice=True))
    if many.misfit(oracle) <= MISFIT_REFUSED:
        return None
    typical = MISFIT_REFUSED * many.typical(oracle)
    return Compared(many.copied, many.many, many.predicted, typical).evidence(COPIED_KEY)


@dataclass(frozen=True)
class Odds:
    """What is answered to pairs with copies of the key, without, to keys and to last tokens, `(B, k)` each; to the
    first two also with all of their tokens thrice, if that was asked. `size` is that of the numbers in an answer."""

    pairs: list[np.ndarray]
    many: np.ndarray
    one: np.ndarray
    key: np.ndarray
    last: np.ndarray
    size: np.ndarray
    thrice: np.ndarray | None

    @property
    def copied(self) -> list[np.ndarray]:
        return [with_key_copies(pair) for pair in self.pairs]

    @property
    def swing(self) -> np.ndarray:
        return self.key - self.last

    @property
    def p(self) -> np.ndarray:
        """The weight of each key, by which the pair is answered."""
        lengths = np.maximum(np.sum(self.swing**2, axis=1), np.finfo(float).tiny)
        return np.clip(np.sum((self.one - self.last) * self.swing, axis=1) / lengths, 0.0, 1.0)

    @property
    def predicted(self) -> np.ndarray:
        """The answers to copies, by the law."""
        return self.last + self.swing * of_copies(self.p)[:, None]

    def errors(self, oracle: Oracle, answers: np.ndarray) -> np.ndarray:
        """How far off answers of one of the four kinds may be."""
        once = np.concatenate([self.many, self.one])
        most = None if self.thrice is None else relative_error(oracle, self.thrice, once)
        return answer_error(oracle, self.size, answers, most)

    def typical(self, oracle: Oracle) -> np.ndarray:
        """How far off the law typically is, if each of the four answers is off by as much as the same tokens thrice
        show, independently."""
        assert self.thrice is not None
        q, steep = of_copies(self.p), steepness(self.p)
        of_each = np.sqrt(1 + steep**2 + (q - steep * self.p) ** 2 + (1 - q - steep * (1 - self.p)) ** 2)
        off = np.abs(self.thrice - np.concatenate([self.many, self.one])).max(axis=1) / np.tile(self.size, 2)
        level = max(float(rms(off)) / np.sqrt(2), LEAST_ROUNDING * oracle.box.roundoff)
        return level * self.size * of_each

    def misfits(self, oracle: Oracle) -> np.ndarray:
        """How far off the law is, over that."""
        return np.abs(self.many - self.predicted).max(axis=1) / self.typical(oracle)

    def misfit(self, oracle: Oracle) -> float:
        """That of all pairs together, in a mean in which the worst weigh most."""
        return float(np.mean(self.misfits(oracle) ** MISFIT_POWER) ** (1 / MISFIT_POWER))

    def with_more(self, other: Odds) -> Odds:
        """The odds at the pairs of both."""
        assert self.thrice is not None
        assert other.thrice is not None
        halves = zip(np.split(self.thrice, 2), np.split(other.thrice, 2), strict=True)
        answers = {
            name: np.concatenate([getattr(self, name), getattr(other, name)])
            for name in ("many", "one", "key", "last", "size")
        }
        return Odds([*self.pairs, *other.pairs], **answers, thrice=np.concatenate([x for pair in halves for x in pair]))


def with_key_copies(pair: np.ndarray, copies: int = ODDS_COPIES) -> np.ndarray:
    """The key so many times, then the last token."""
    return np.concatenate([np.repeat(pair[:1], copies, axis=0), pair[1:]])


def read_odds(oracle: Oracle, learned: Learned, probes: int, rng: np.random.Generator, *, thrice: bool) -> Odds:
    """The answers to so many pairs, chosen to show a second head; 4 queries for each, or 6."""
    pairs = telling_pairs(oracle, learned, probes, rng)
    again = read_thrice(oracle, [*map(with_key_copies, pairs), *pairs]) if thrice else None
    answers = ask_by_length(oracle, asked_about(pairs)).reshape(4, probes, -1)
    return Odds(pairs, *answers, size=sizes_of(learned.model, np.stack(pairs)), thrice=again)


def asked_about(pairs: list[np.ndarray]) -> list[np.ndarray]:
    return [*map(with_key_copies, pairs), *pairs, *(x[:1] for x in pairs), *(x[1:] for x in pairs)]


def evidence_of_change(oracle: Oracle, learned: Learned, odds: Odds, rng: np.random.Generator) -> Evidence | None:
    """What shows that the box has become another one by now, which may be a head as well. It asks nothing."""
    X, answers = asked_about(odds.pairs), np.concatenate([odds.many, odds.one, odds.key, odds.last])
    want = ask_by_length(learned.model, X)
    around = [apart(model, X, want) for model in learned.neighbours(VOID, NEIGHBOURS, rng)]
    level = oracle.tolerance + oracle.rtol * np.abs(answers).max(axis=1) + learned.most_alone(X)
    allowed = VOID * np.tile(odds.size, 4) + level + NEIGHBOUR_TIMES * np.max(around, axis=0)
    return Compared(X, answers, want, allowed).evidence(EVERYWHERE)


def read_thrice(oracle: Oracle, X: list[np.ndarray]) -> np.ndarray:
    return ask_by_length(oracle, [np.repeat(x, THRICE, axis=0) for x in X])


def relative_error(oracle: Oracle, thrice: np.ndarray, answers: np.ndarray) -> float:
    """How far off answers `(B, k)` are, of their size, by a law that has nothing to do with what was found: every token
    three times is answered alike. It is one rounding at least."""
    sizes = np.maximum(np.abs(answers).max(axis=1), np.finfo(float).tiny)
    seen = np.sqrt(np.mean((np.minimum(np.abs(thrice - answers).max(axis=1), sizes) / sizes) ** 2))
    return max(ODDS_TIMES * float(seen), oracle.box.roundoff)
