"""What the box answered to ordinary sequences: how far off answers may be, and how far off they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from .._learned import HeldOut, Learned
from .._oracles import Oracle
from .compared import Compared
from .ordinary import SINGLES, Sequences

OF_RANGE = 0.01  # of the range of answers: what is off by more is another function
# The slack beyond what bounds and promises leave open: so many times that, from a thousandth of the range up to all of
# the former. Of the right ones among 1,327 results of the red team none was off by more than a third of it anywhere.
SLACK_TIMES, LEAST_SLACK = 100.0, 0.001
VOID = 0.05  # of the same: a check that allows more passes nearly anything
TERM_ROUNDINGS = 4.0  # roundings of the largest number that an answer is made of
FEWEST_OF_A_KIND = 4  # sequences
NEIGHBOURS = 6  # models as far from the found one as bounds leave open
NEIGHBOUR_TIMES = 3.0  # times how far their answers typically are from its own
LEAST_EXPECTED = 2.0**-500  # of an error: its square is still a number
WORSE_THAN_RESIDUAL = 4.0  # times that of the held-out check: about what W is off by, of its norm, at most


@dataclass(frozen=True)
class Answered:
    """Sequences of one kind, what the box answered and what the model predicts, as `(B, k)`.

    `level` is how far off an answer may be by its promise and its format, `typical` how far off predictions are if the
    model is off by its bounds, `furthest` how far at most, `doubt` what comes on top, without end where bounds settle
    nothing, and `chosen` how far attention moves them from what the plain mean would give. `largest` is the largest
    answer, and `extent` their range if tokens have size 1; single tokens, in which heads may cancel, are measured by
    those of users' size where these are larger.
    """

    kind: Sequences
    got: np.ndarray
    want: np.ndarray
    level: np.ndarray
    typical: np.ndarray
    furthest: np.ndarray
    doubt: np.ndarray
    chosen: np.ndarray
    largest: float
    extent: float

    @property
    def X(self) -> list[np.ndarray]:
        return self.kind.X

    @property
    def off(self) -> np.ndarray:
        return np.abs(self.got - self.want).max(axis=1)

    @property
    def range(self) -> np.ndarray:
        """The range of all answers, for tokens of the size of each."""
        return self.extent * self.kind.sizes

    @property
    def share(self) -> np.ndarray:
        """How far off answers are, of their range."""
        return self.off / np.maximum(self.range, np.finfo(float).tiny)

    @property
    def allowed_share(self) -> np.ndarray:
        """How far off answers may be, of their range."""
        return self.allowed / np.maximum(self.range, np.finfo(float).tiny)

    @property
    def allowed(self) -> np.ndarray:
        """How far off answers may be; as far as they are where bounds leave so much open that nothing can be said."""
        open_end = NEIGHBOUR_TIMES * (self.furthest + self.doubt)
        known = self.level + open_end
        slack = np.clip(SLACK_TIMES * known, LEAST_SLACK * self.range, OF_RANGE * self.range)
        return np.where(open_end > VOID * self.range, np.inf, slack + known)

    @property
    def compared(self) -> Compared:
        return Compared(self.X, self.got, self.want, self.allowed)

    @property
    def expected(self) -> np.ndarray:
        """How far off answers are if the bounds are true and hardly any smaller would be."""
        return np.hypot(self.typical + self.doubt, self.level)

    @property
    def worse(self) -> float:
        """The mean square of how far off answers are, over what is expected."""
        return float(np.mean((self.off / np.maximum(self.expected, LEAST_EXPECTED)) ** 2))

    @property
    def seen(self) -> float:
        """How far off answers are, over what they would be if the model were off by all that its bounds leave open."""
        return float(np.sqrt(replace(self, doubt=np.zeros(len(self.X))).worse))

    @property
    def strays(self) -> Compared:
        """The answers, and how far off they may be if the model is hardly further off than its neighbours."""
        return replace(self.compared, allowed=OF_RANGE * self.range + self.level + NEIGHBOUR_TIMES * self.furthest)


def read_groups(
    oracle: Oracle, learned: Learned, held: HeldOut, kinds: list[Sequences], rng: np.random.Generator
) -> list[Answered]:
    """All sequences of a length are asked at once."""
    everything = [x for kind in kinds for x in kind.X]
    if not everything:
        return []
    got, want = ask_by_length(oracle, everything), ask_by_length(learned.model, everything)
    level = oracle.tolerance + oracle.rtol * np.abs(got).max(axis=1)
    terms = np.array([learned.largest_term(x) for x in everything])
    level += TERM_ROUNDINGS * oracle.roundoff * np.maximum(terms, np.abs(got).max(axis=1))
    flat = learned.flat
    chosen = np.zeros(len(everything)) if flat is None else apart(flat, everything, want)
    groups, start = [], 0
    for kind in kinds:
        part = slice(start, start := start + len(kind.X))
        largest = float(np.abs(got[part]).max())
        moved = got[part] - np.median(got[part], axis=0)  # a bias is no part of the range
        extent = float(np.ptp(moved / kind.sizes[:, None], axis=0).max())
        if len(kind.X) < FEWEST_OF_A_KIND:  # of which a range says little
            extent = max(extent, float(np.ptp(got, axis=0).max() / max(kind.sizes.max(), 1.0)))
        if kind.name == SINGLES and groups:
            largest, extent = max(largest, groups[0].largest), max(extent, groups[0].extent)
        none = np.zeros(len(kind.X))
        groups.append(
            Answered(kind, got[part], want[part], level[part], none, none, none, chosen[part], largest, extent)
        )
    return with_doubts(groups, learned, held, rng)


def with_doubts(groups: list[Answered], learned: Learned, held: HeldOut, rng: np.random.Generator) -> list[Answered]:
    """How far the predictions of neighbours are from the model's, typically and at most. It asks nothing."""
    share = min(VOID, WORSE_THAN_RESIDUAL * (held.residual or 0.0))
    neighbours = learned.neighbours(share, NEIGHBOURS, rng)

    def with_doubt(group: Answered) -> Answered:
        around = [apart(model, group.X, group.want) for model in neighbours] or [np.zeros(len(group.X))]
        typical, furthest = np.sqrt(np.mean(np.square(around), axis=0)), np.max(around, axis=0)
        furthest = np.maximum(furthest, learned.most_alone(group.X) / NEIGHBOUR_TIMES)
        doubt = np.broadcast_to(learned.doubt(group.X, group.want), len(group.X))
        return replace(group, typical=typical, furthest=furthest, doubt=doubt)

    return [with_doubt(group) for group in groups]


def apart(model: Callable, X: list[np.ndarray], want: np.ndarray) -> np.ndarray:
    return np.abs(ask_by_length(model, X) - want).max(axis=1)


def ask_by_length(function: Callable, X: Sequence[np.ndarray]) -> np.ndarray:
    """Asks a function of batches, a box or a model, about sequences of any lengths: one row for each."""
    out: dict[int, np.ndarray] = {}
    for length in dict.fromkeys(map(len, X)):
        which = [i for i, x in enumerate(X) if len(x) == length]
        said = np.asarray(function(np.stack([X[i] for i in which])))
        out |= zip(which, said.reshape(len(which), -1), strict=True)
    return np.array([out[i] for i in range(len(X))])
