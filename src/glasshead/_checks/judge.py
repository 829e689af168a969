"""The judge: is what was found what the box does, where users look? One rule for every family, after its own check.

Ordinary sequences are asked, of 1 to 64 tokens: of the size that users send, of the size at which the scores found
neither vanish nor saturate, and of larger ones. A result stands if every answer is as predicted within 1% of the range
of answers, beyond what was promised about them and what the bounds leave open: an error level that does not depend on
the misfit. Answers further off than 5% of their range, or than a tenth of what attention does to them, say too little
about W whatever the reason, and the result is refused as `AccuracyUnreachable`. So is one that knows nothing: a bound
no smaller than W, or a head whose W shows in none of the answers.

The error of the box's arithmetic is measured, not guessed from the format of its answers: where answers are typically
further off than bounds allow, the bounds are widened by as much, and are statistical from then on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

import numpy as np

from .._errors import ALSO_ELSEWHERE, EVERYWHERE, AccuracyUnreachable
from .._learned import MEASURED, HeldOut, Learned, LearnedFront, LearnedHead
from .._oracles import Oracle, Voting
from .._recovery import Checked
from .held_out import CHECKING, Compared

ALONE = 7  # sequences of one token, which show errors of v
JUDGED_LENGTHS = 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64  # a sequence of each for the sizes of users, suited, and larger
JUDGE_QUERIES = ALONE + 3 * len(JUDGED_LENGTHS)

OF_RANGE = 0.01  # of the range of answers: what is off by more is another function
VOID = 0.05  # of the same: a check that allows more passes nearly anything
OF_ATTENTION = 0.1  # of what attention adds to the plain mean: as above
ROUNDED = 4.0  # roundings of the largest number that an answer is made of
NEIGHBOURS = 6  # models as far from the found one as bounds leave open
NEIGHBOUR_TIMES = 3.0  # times how far their answers typically are from its own
WORSE_THAN_RESIDUAL = 4.0  # times that of the held-out check: about what W is off by, of its norm, at most
SEEN = 2.0  # times the error of an answer: what W off by a tenth must change somewhere
WIDENED = 3.0  # times an error of W or v that was measured on a dozen answers
HALF_AS_FAR = 0.25  # the square of the measured error over the bound, from which the bound is not believed
CONTRADICTED = 4.0  # the same, from which a promise is not
SIDES_MISSED = 1  # of yes-or-no answers behind a network, which may change next to an ordinary sequence


def check_everywhere(
    oracle: Oracle, learned: Learned, held: HeldOut, rng: np.random.Generator
) -> tuple[Learned, HeldOut]:
    """What is found, with bounds that hold, and what fresh queries say of it, after `JUDGE_QUERIES` more; for a head
    whose predictions ask the box, twice as many but for single tokens, which it says nothing about."""
    oracle.stage = CHECKING
    refuse_empty(oracle, learned, held)
    kinds = sequences(oracle, learned, rng)
    if oracle.answers == "sign":
        return learned, check_signs_everywhere(oracle, learned, held, [x for X, _ in kinds for x in X], rng)
    groups = read_groups(oracle, learned, held, kinds, rng)
    compared = [group.compared for group in groups]
    asked = sum(len(group.X) for group in groups)
    within = max((float(group.allowed_share.max()) for group in groups), default=0.0)
    check = with_sequences(held, asked, within, max((each.residual() for each in compared), default=0.0))
    law = ALSO_ELSEWHERE if oracle.exact and not oracle.narrow else EVERYWHERE
    evidence = next((found for each in compared if (found := each.evidence(law)) is not None), None)
    if evidence is not None:
        return learned, replace(check, evidence=evidence, checked=None)
    refuse_void(learned, check, groups)
    refuse_unseen(learned, check, groups, rng)
    if isinstance(learned, LearnedHead):
        return with_measured_bounds(oracle, learned, check, groups)
    return learned, check


A_FEW = 2, 3, 5, 8  # the lengths of a first look


def check_a_few(oracle: Oracle, learned: Learned, rng: np.random.Generator) -> bool:
    """Whether a few sequences of users' size are answered as predicted: a first look, for learners that can go on."""
    X, _ = drawn(oracle, A_FEW, np.ones(len(A_FEW)), rng)
    got, want = by_length(oracle, X), by_length(learned.model, X)
    level = oracle.tolerance + (oracle.rtol + OF_RANGE) * np.abs(got).max()
    return bool(np.abs(got - want).max() <= level)


def with_sequences(held: HeldOut, asked: int, within: float, residual: float) -> HeldOut:
    """What the held-out check said, and so many ordinary sequences after it."""
    residual = max(residual, held.residual or 0.0)
    words = f"{held.words}; {asked} ordinary sequences agree to {residual:.1e}"
    checked = Checked(asked, within) if asked else None
    return replace(held, residual=residual, words=words, compared=held.compared + asked, checked=checked)


# What is asked.

Kind = tuple[list[np.ndarray], np.ndarray]  # sequences, and the sizes of their tokens


def sequences(oracle: Oracle, learned: Learned, rng: np.random.Generator) -> list[Kind]:
    """Tokens of users' size, of the suited one, and larger ones; single tokens; all that the model predicts."""
    count = len(JUDGED_LENGTHS)
    suited = np.resize(learned.suits(oracle.reach), count)
    sizes = [2.0 ** rng.uniform(-1, 1, count), suited, np.maximum(suited, 1.0) * 2.0 ** rng.uniform(0, 3, count)]
    kinds = [drawn(oracle, JUDGED_LENGTHS, each, rng) for each in sizes]
    kinds.append(drawn(oracle, (1,) * ALONE, 2.0 ** rng.uniform(-1, 1, ALONE), rng))
    kept = [[i for i, x in enumerate(X) if learned.says(x)] for X, _ in kinds]
    return [([X[i] for i in which], sizes[which]) for (X, sizes), which in zip(kinds, kept, strict=True)]


def drawn(oracle: Oracle, lengths: Sequence[int], sizes: np.ndarray, rng: np.random.Generator) -> Kind:
    """One sequence of each length, of Gaussian tokens with entries of that size, none longer than can be sent."""
    X = []
    for length, size in zip(lengths, sizes, strict=True):
        tokens = size * rng.standard_normal((length, oracle.dim))
        norms = np.linalg.norm(tokens, axis=1, keepdims=True)
        X.append(tokens * np.minimum(1.0, oracle.reach / norms))
    return X, sizes


def by_length(function: Callable, X: Sequence[np.ndarray]) -> np.ndarray:
    """What a function of batches says of sequences of any lengths, one row for each."""
    out: dict[int, np.ndarray] = {}
    for length in dict.fromkeys(map(len, X)):
        which = [i for i, x in enumerate(X) if len(x) == length]
        said = np.asarray(function(np.stack([X[i] for i in which])))
        out |= zip(which, said.reshape(len(which), -1), strict=True)
    return np.array([out[i] for i in range(len(X))])


@dataclass(frozen=True)
class Group:
    """Sequences of one kind: with tokens of which `sizes`, what the box answered and the model predicts, as `(B, k)`.

    `level` is how far off an answer may be by its promise and its format, `typical` how far off predictions are if the
    model is off by its bounds, and `chosen` how far attention moves them from what the plain mean would give. `extent`
    is the range of answers to such sequences if their tokens have size 1.
    """

    X: list[np.ndarray]
    sizes: np.ndarray
    got: np.ndarray
    want: np.ndarray
    level: np.ndarray
    typical: np.ndarray
    chosen: np.ndarray
    extent: float

    @property
    def off(self) -> np.ndarray:
        return np.abs(self.got - self.want).max(axis=1)

    @property
    def range(self) -> np.ndarray:
        """That of all answers, for tokens of the size of each."""
        return self.extent * self.sizes

    @property
    def allowed(self) -> np.ndarray:
        return OF_RANGE * self.range + self.level + NEIGHBOUR_TIMES * self.typical

    @property
    def allowed_share(self) -> np.ndarray:
        """Of the range; more than `VOID` is refused."""
        return np.minimum(VOID, self.allowed / np.maximum(self.range, np.finfo(float).tiny))

    @property
    def compared(self) -> Compared:
        return Compared(self.X, self.got, self.want, self.allowed)

    @property
    def expected(self) -> np.ndarray:
        """How far off answers are if the bounds are true and hardly any smaller would be."""
        return np.hypot(self.typical, self.level)

    @property
    def worse(self) -> float:
        """The mean square of how far off answers are, over what is expected."""
        return float(np.mean(self.off**2 / np.maximum(self.expected, np.finfo(float).tiny) ** 2))


def read_groups(
    oracle: Oracle, learned: Learned, held: HeldOut, kinds: list[Kind], rng: np.random.Generator
) -> list[Group]:
    """All sequences of a length are asked at once."""
    everything = [x for X, _ in kinds for x in X]
    if not everything:
        return []
    got, want = by_length(oracle, everything), by_length(learned.model, everything)
    level = oracle.tolerance + oracle.rtol * np.abs(got).max(axis=1)
    terms = np.array([learned.largest_term(x) for x in everything])
    level += ROUNDED * oracle.roundoff * np.maximum(terms, np.abs(got).max(axis=1))
    typical, chosen = doubt(learned, held, everything, want, rng)
    groups, start, first = [], 0, 0.0
    for X, sizes in kinds:
        part = slice(start, start := start + len(X))
        extent = float(np.ptp(got[part] / sizes[:, None], axis=0).max()) if X else 0.0
        first = first or extent
        if len(X) and len(X[0]) == 1:
            extent = max(extent, first)  # heads may cancel in single tokens
        if X:
            groups.append(Group(X, sizes, *(a[part] for a in (got, want, level, typical, chosen)), extent))
    return groups


def doubt(
    learned: Learned, held: HeldOut, X: list[np.ndarray], want: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """For each sequence how far the predictions of neighbours typically are from `want`, and those of a plain mean."""
    share = min(VOID, WORSE_THAN_RESIDUAL * (held.residual or 0.0))
    around = [apart(model, X, want) for model in learned.neighbours(share, NEIGHBOURS, rng)]
    typical = np.sqrt(np.mean(np.square(around), axis=0)) if around else np.zeros(len(X))
    flat = learned.flat
    return typical + learned.doubt(X, want), np.zeros(len(X)) if flat is None else apart(flat, X, want)


def apart(model: Callable, X: list[np.ndarray], want: np.ndarray) -> np.ndarray:
    return np.abs(by_length(model, X) - want).max(axis=1)


# What is decided.


def refuse_empty(oracle: Oracle, learned: Learned, held: HeldOut) -> None:
    """Refuses what knows nothing: a bound that is no smaller than W; for W = 0, one that would not notice a W that
    moves scores of ordinary tokens by one."""
    if learned.bound is None:
        return
    W = float(np.linalg.norm(learned.model.W))  # what has a bound has a W
    longest = min(np.sqrt(oracle.dim), oracle.reach)
    if W > 0 and not learned.bound < W:
        refuse(f"a W of norm {W:.2g} was found, within {learned.bound:.2g}, which says nothing", learned, held)
    if W == 0 and not learned.bound * longest**2 <= 1:
        refuse(f"W cannot be told from 0, nor from anything up to {learned.bound:.2g} in norm", learned, held)


def refuse(say: str, learned: Learned, check: HeldOut) -> NoReturn:
    raise AccuracyUnreachable(f"{say}: the answers have too few digits for this box", replace(learned, check=check))


def refuse_void(learned: Learned, check: HeldOut, groups: list[Group]) -> None:
    """Refuses where answers are off by too large a share of their range, or of what attention does to them."""
    share = max((float(np.max(g.off / np.maximum(g.range, np.finfo(float).tiny))) for g in groups), default=1.0)
    if share > VOID:
        refuse(f"answers to ordinary sequences are off by {share:.0%} of their range", learned, check)
    shares = [float(np.sqrt(np.mean(g.off**2) / np.mean(g.chosen**2))) for g in groups if np.any(g.chosen)]
    if shares and min(shares) > OF_ATTENTION:
        refuse(f"answers are off by {min(shares):.0%} of what attention does to them", learned, check)


def refuse_unseen(learned: Learned, check: HeldOut, groups: list[Group], rng: np.random.Generator) -> None:
    """Refuses where a head's W, off by a tenth, would change no answer by more than these are off anyway."""
    X, want = [x for g in groups for x in g.X], np.concatenate([g.want for g in groups])
    error = np.concatenate([np.maximum(g.off, g.level) for g in groups])
    for h, model in enumerate(learned.hidden(OF_ATTENTION, rng)):
        if not np.any(apart(model, X, want) > SEEN * error):
            refuse(f"the W of one head, number {h + 1} of those found, shows in no answer", learned, check)


def with_measured_bounds(
    oracle: Oracle, learned: LearnedHead, check: HeldOut, groups: list[Group]
) -> tuple[Learned, HeldOut]:
    """Bounds that are as wide as the answers show, where the box computes less accurately than its answers look. A
    promise that answers contradict is none, and refused."""
    _, suited, _, alone = groups
    worst = max((suited, alone), key=lambda group: group.worse)
    if worst.worse <= HALF_AS_FAR:
        return learned, check
    if not oracle.exact and worst.worse > CONTRADICTED:
        off = Compared(worst.X, worst.got, worst.want, worst.expected)
        return learned, replace(check, evidence=off.evidence(EVERYWHERE), checked=None)
    of_W, of_v = (max(1.0, WIDENED * float(np.sqrt(group.worse))) for group in (suited, alone))
    return replace(
        learned,
        bound=of_W * learned.bound,
        bound_key_bias=of_W * learned.bound_key_bias,
        bound_v=of_v * learned.bound_v,
        bound_bias=of_v * learned.bound_bias,
        confidence=min(learned.confidence, MEASURED),
        caveat=f"{learned.caveat}; the box computes less accurately than its answers look, so its bounds are measured",
    ), check


def check_signs_everywhere(
    oracle: Oracle, learned: Learned, held: HeldOut, X: list[np.ndarray], rng: np.random.Generator
) -> HeldOut:
    """Yes or no, where the model and its neighbours say the same and are not close to changing it."""
    if not X:
        return held
    sure = Voting(oracle) if oracle.flips > 0 else oracle
    got = by_length(sure, X)[:, 0].astype(bool)
    want = by_length(learned.model, X)[:, 0]
    if isinstance(learned, LearnedFront):
        missed, allowed = got != want.astype(bool), SIDES_MISSED
    else:
        around = [by_length(model, X)[:, 0] for model in learned.neighbours(0.0, NEIGHBOURS, rng)]
        decided = (np.abs(want) > OF_RANGE * np.ptp(want)) & ((np.array(around) > 0) == (want > 0)).all(axis=0)
        missed, allowed = decided & (got != (want > 0)), 0
    check = with_sequences(held, len(X), 0.0, 0.0)
    if missed.sum() <= allowed:
        return check
    compared = Compared(X, got, np.where(missed, ~got, got))
    return replace(check, evidence=compared.evidence(EVERYWHERE), checked=None)
