"""The judge: is what was found what the box does, where users look? One rule for every family, after its own check.

Ordinary sequences are asked, of 1 to 64 tokens: of the size that users send, of the size at which the scores found
neither vanish nor saturate, and of larger ones. A result stands if every answer is as predicted within 1% of the range
of answers, beyond what was promised about them and what the bounds leave open: an error level that does not depend on
the misfit. Answers further off than 5% of their range, or than a tenth of what attention does to them, say too little
about W whatever the reason, and the result is refused as `AccuracyUnreachable`. So is one that knows nothing, whose
bound is no smaller than W.

The error of the box's arithmetic is measured, not guessed from the format of its answers: where answers are typically
further off than bounds allow, the bounds are widened by as much, and are statistical from then on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from .._errors import EVERYWHERE, AccuracyUnreachable, Evidence
from .._learned import MEASURED, HeldOut, Learned, LearnedFront, LearnedHead
from .._models import Attention, FrontHead, MultiHead, Transformer, with_values
from .._oracles import Oracle, Voting
from .held_out import CHECKING, Compared, head_length

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
WIDENED = 3.0  # times an error of W or v that was measured on a dozen answers
HALF_AS_FAR = 0.25  # the square of the measured error over the bound, from which the bound is not believed
CONTRADICTED = 4.0  # the same, from which a promise is not


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
    extent: float = 0.0

    @property
    def off(self) -> np.ndarray:
        return np.abs(self.got - self.want).max(axis=1)

    @property
    def range(self) -> np.ndarray:
        """That of all answers, for tokens of the size of each."""
        return self.extent * self.sizes

    @property
    def compared(self) -> Compared:
        return Compared(
            self.X, self.got, self.want, OF_RANGE * self.range + self.level + NEIGHBOUR_TIMES * self.typical
        )

    @property
    def worse(self) -> float:
        """The mean square of how far off answers are, over what bounds and level make of it."""
        expected = self.typical**2 + self.level**2
        return float(np.mean(np.divide(self.off**2, expected, out=np.zeros(len(self.X)), where=expected > 0)))


def check_everywhere(
    oracle: Oracle, learned: Learned, held: HeldOut, rng: np.random.Generator
) -> tuple[Learned, HeldOut]:
    """What is found, with bounds that hold, and what fresh queries say of it, after `JUDGE_QUERIES` more; twice as many
    for a head whose predictions ask the box."""
    oracle.stage = CHECKING
    refuse_empty(oracle, learned, held)
    if oracle.answers == "sign":
        return learned, judged_signs(oracle, learned, held, rng)
    groups = read_groups(oracle, learned, held, rng)
    compared = [group.compared for group in groups]
    residual = max(held.residual or 0.0, *(each.residual() for each in compared))
    asked = sum(len(group.X) for group in groups)
    words = f"{held.words}; {asked} ordinary sequences of 1 to 64 tokens agree to {residual:.1e}"
    evidence = next((found for each in compared if (found := each.evidence(EVERYWHERE)) is not None), None)
    check = replace(held, residual=residual, evidence=evidence, words=words, compared=held.compared + asked)
    if evidence is not None:
        return learned, check
    refuse_void(learned, check, groups)
    if isinstance(learned, LearnedHead):
        return with_measured_bounds(oracle, learned, check, groups)
    return learned, check


# What is asked.


def read_groups(oracle: Oracle, learned: Learned, held: HeldOut, rng: np.random.Generator) -> list[Group]:
    """Tokens of users' size, of the suited one, and larger ones; single tokens where a model predicts them."""
    ordinary = 2.0 ** rng.uniform(-1, 1, len(JUDGED_LENGTHS))
    suited = np.resize(suited_sizes(learned, oracle), len(JUDGED_LENGTHS))
    larger = np.maximum(suited, 1.0) * 2.0 ** rng.uniform(0, 3, len(JUDGED_LENGTHS))
    several = [read_group(oracle, learned, held, JUDGED_LENGTHS, sizes, rng) for sizes in (ordinary, suited, larger)]
    groups = [replace(group, extent=extent(group)) for group in several]
    if not isinstance(learned, LearnedFront):
        alone = read_group(oracle, learned, held, (1,) * ALONE, 2.0 ** rng.uniform(-1, 1, ALONE), rng)
        groups.append(replace(alone, extent=max(extent(alone), groups[0].extent)))  # heads may cancel in single tokens
    return [group for group in groups if group.X]


def extent(group: Group) -> float:
    """The range of answers over the size of their tokens."""
    return float(np.ptp(group.got / group.sizes[:, None], axis=0).max()) if group.X else 0.0


def read_group(
    oracle: Oracle,
    learned: Learned,
    held: HeldOut,
    lengths: tuple[int, ...],
    sizes: np.ndarray,
    rng: np.random.Generator,
) -> Group:
    """One sequence of each length, of Gaussian tokens with entries of that size, none longer than can be sent."""
    X = []
    for length, size in zip(lengths, sizes, strict=True):
        tokens = size * rng.standard_normal((length, oracle.dim))
        norms = np.linalg.norm(tokens, axis=1, keepdims=True)
        X.append(tokens * np.minimum(1.0, oracle.reach / norms))
    want = [predicted(learned.model, x) for x in X]
    kept = [i for i, y in enumerate(want) if y is not None]
    X, sizes, want = [X[i] for i in kept], sizes[kept], np.array([want[i] for i in kept])
    if not X:
        return Group(X, sizes, *[np.empty((0, 1))] * 2, *[np.empty(0)] * 3)
    got = np.stack([np.ravel(oracle(x[None])[0]) for x in X])
    level = oracle.tolerance + oracle.rtol * np.abs(got).max(axis=1)
    level += ROUNDED * oracle.roundoff * np.array([magnitude(learned.model, x, y) for x, y in zip(X, got, strict=True)])
    typical, chosen = doubt(oracle, learned, held, X, want, rng)
    return Group(X, sizes, got, want, level, typical, chosen)


def predicted(model: Callable, x: np.ndarray) -> np.ndarray | None:
    """Nothing where a head with a black box behind it has no shorter sequence to ask about."""
    try:
        return np.ravel(np.asarray(model(x), float))
    except ValueError:
        if isinstance(model, FrontHead):
            return None
        raise


def suited_sizes(learned: Learned, oracle: Oracle) -> np.ndarray:
    """The sizes of entries at which scores differ by a few units, for every head in turn."""
    if isinstance(learned, LearnedFront):
        return np.array([min(learned.scale, oracle.reach / 2) / np.sqrt(oracle.dim)])
    lengths = [head_length(head) for head in parts(learned.model)]
    return np.minimum(lengths, oracle.reach) / (2 * np.sqrt(oracle.dim))


def parts(model) -> tuple:
    """The heads of a model."""
    return model.heads if isinstance(model, MultiHead) else (model,)


def magnitude(model, x: np.ndarray, answer: np.ndarray) -> float:
    """The largest number that the answer to a sequence is made of, as far as the model knows."""
    largest = float(np.abs(answer).max())
    if isinstance(model, Attention | MultiHead):
        values = sum(np.abs(x @ head.v).max() for head in parts(model))
        return max(largest, float(values + np.abs(model.bias).max()))
    if isinstance(model, Transformer):
        return max(largest, float((np.abs(x @ model.A) @ np.abs(model.w)).max() + np.abs(model.w) @ np.abs(model.b)))
    return largest


# How far off predictions may be.


def doubt(
    oracle: Oracle, learned: Learned, held: HeldOut, X: list[np.ndarray], want: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """For each sequence how far the predictions of neighbours typically are from `want`, and those of a plain mean."""
    if isinstance(learned, LearnedFront):
        return front_doubt(learned, X, want), np.full(len(X), np.inf)

    def apart(model) -> np.ndarray:
        return np.array([np.abs(predicted(model, x) - y).max() for x, y in zip(X, want, strict=True)])

    share = min(VOID, WORSE_THAN_RESIDUAL * (held.residual or 0.0))
    around = [apart(neighbour(learned, share, rng)) for _ in range(NEIGHBOURS)]
    return np.sqrt(np.mean(np.square(around), axis=0)), apart(moved(learned.model, lambda head: (0 * head.W, 0 * head.key_bias)))


def neighbour(learned: Learned, share: float, rng: np.random.Generator):
    """A model as far from the found one as its bounds leave open, or that share of each W, in a random direction."""
    model = learned.model

    def scores(head):
        d = head.dim
        of_W, of_key = share * head.W_norm, share * float(np.linalg.norm(head.key_bias))
        if isinstance(learned, LearnedHead):
            of_W, of_key = learned.bound, learned.bound_key_bias
        return (
            head.W + of_W / d * rng.standard_normal((d, d)),
            head.key_bias + of_key / np.sqrt(d) * rng.standard_normal(d),
        )

    near = moved(model, scores)
    if not isinstance(learned, LearnedHead):
        return near
    v = model.v + learned.bound_v / np.sqrt(model.v.size) * rng.standard_normal(model.v.shape)
    bias = model.bias + learned.bound_bias * rng.standard_normal(np.shape(model.bias))
    return Attention(near.W, v=v, key_bias=near.key_bias, bias=bias)


def moved(model, scores: Callable):
    """The model with another W and key bias for each of its heads."""

    def one(head):
        W, key_bias = scores(head)
        return Attention(W, v=head.v, key_bias=key_bias, bias=head.bias)

    if isinstance(model, MultiHead):
        return MultiHead([one(head) for head in model.heads], bias=model.bias)
    if isinstance(model, Transformer):
        W, key_bias = scores(model)
        return Transformer(W, A=model.A, w=model.w, b=model.b, c=model.c, key_bias=key_bias)
    return one(model)


def front_doubt(learned: LearnedFront, X: list[np.ndarray], want: np.ndarray) -> np.ndarray:
    """As much of the range of answers as scores are off by, typically, and the noise."""
    model, d = learned.model, learned.model.dim
    extent = float(np.ptp(want, axis=0).max())

    def score(x: np.ndarray) -> float:
        norms = np.linalg.norm(model.seen(x), axis=1)
        return float(norms.max() * (norms[-1] * learned.bound / d + learned.bound_key_bias / np.sqrt(d)))

    return np.array([min(1.0, score(x)) for x in X]) * extent + learned.noise


# What is decided.


def refuse_empty(oracle: Oracle, learned: Learned, held: HeldOut) -> None:
    """Refuses what knows nothing: a bound that is no smaller than W; for W = 0, one that would not notice a W that
    moves scores of ordinary tokens by one."""
    if learned.bound is None:
        return
    W = float(np.linalg.norm(learned.model.W))
    longest = min(np.sqrt(oracle.dim), oracle.reach)
    if W > 0 and not learned.bound < W:
        say = f"W = {W:.2g} in norm was found, within {learned.bound:.2g}: that says nothing"
    elif W == 0 and not learned.bound * longest**2 <= 1:
        say = f"W cannot be told from 0, nor from anything up to {learned.bound:.2g} in norm"
    else:
        return
    raise AccuracyUnreachable(f"{say}; the answers have too few digits for this box", replace(learned, check=held))


def refuse_void(learned: Learned, check: HeldOut, groups: list[Group]) -> None:
    """Refuses where answers are off by too large a share of their range, or of what attention does to them."""
    share = max(float(np.max(g.off / np.maximum(g.range, np.finfo(float).tiny))) for g in groups)
    say = ""
    if share > VOID:
        say = f"answers to ordinary sequences are off by {share:.0%} of their range"
    chosen = [float(np.sqrt(np.mean(g.off**2) / np.mean(g.chosen**2))) for g in groups if np.any(g.chosen)]
    if chosen and min(chosen) > OF_ATTENTION:
        say = f"answers are off by {min(chosen):.0%} of what attention does to them"
    if say:
        why = "within what the promise, the format and the bounds explain, but then nothing is known about W"
        raise AccuracyUnreachable(f"{say}: {why}", replace(learned, check=check))


def with_measured_bounds(
    oracle: Oracle, learned: LearnedHead, check: HeldOut, groups: list[Group]
) -> tuple[Learned, HeldOut]:
    """Bounds that are as wide as the answers show, where the box computes less accurately than its answers look."""
    _, suited, _, alone = groups
    of_W, of_v = suited.worse, alone.worse
    if max(of_W, of_v) <= HALF_AS_FAR:
        return learned, check
    if not oracle.exact and max(of_W, of_v) > CONTRADICTED:
        worst = max((suited, alone), key=lambda group: group.worse)
        i = int(np.argmax(worst.off / np.sqrt(worst.typical**2 + worst.level**2)))
        said = f"expected {worst.want[i].max():.9g} within {worst.level[i] + worst.typical[i]:.2g}"
        return learned, replace(check, evidence=Evidence(EVERYWHERE, worst.X[i], said, f"{worst.got[i].max():.9g}"))
    times_W, times_v = (max(1.0, WIDENED * np.sqrt(worse)) for worse in (of_W, of_v))
    return replace(
        learned,
        bound=times_W * learned.bound,
        bound_key_bias=times_W * learned.bound_key_bias,
        bound_v=times_v * learned.bound_v,
        bound_bias=times_v * learned.bound_bias,
        confidence=min(learned.confidence, MEASURED),
        caveat=f"{learned.caveat}; the box computes less accurately than its answers look, so bounds are measured",
    ), check


def judged_signs(oracle: Oracle, learned: Learned, held: HeldOut, rng: np.random.Generator) -> HeldOut:
    """Signs of ordinary sequences, where no neighbour of the model has another."""
    return held
