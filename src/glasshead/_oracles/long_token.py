"""The box as heads alone see it, where a norm stands in front of them: sequences with a long last token.

A norm forgets how long tokens are, so attention does not change with the length of the last one. The residual
connection does remember it: what lies behind, a norm and a network, sees nothing but the long token in the end. So
`f([.., lambda q]) - f([lambda q])` tends to `sum_hi a_hi (n_i - n_q) P_h`, where n are normalised tokens and P_h value
maps, with an error that is a power series in 1/lambda: a few lengths, extrapolated, give it to rounding.

Behind a last norm the same holds of the difference times lambda, but for its part along q, which that norm forgets.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from .._errors import NotConverged
from .._linalg import norms, random_rotation, svd
from .._types import Float
from .base import DOUBLE, Oracle
from .one_token import find_alike
from .sphere import Sphere, key_length

LAST_LENGTHS = 2.0 ** np.arange(1, 21)  # of last tokens, over those of ordinary ones
NODES = 4, 3, 2  # lengths for an answer to be extrapolated from
KINKED = 100.0  # times what limits are usually off by without the shortest length: then they are no power series
FARTHER = 16.0, 256.0  # times the lengths, where that is so


@dataclass
class LongToken:
    """What keys move answers by, in coordinates of the residual connection; `unseen(q)` is its direction that is lost.

    `unembedding (d, k)` is what answers show of the residual connection, with `normed` behind a last norm.
    """

    oracle: Oracle
    sphere: Sphere
    lengths: Float[np.ndarray, " l"]
    normed: bool = False
    centred: bool = False  # answers are log-probabilities: only their differences say something
    back: Float[np.ndarray, "k s"] | None = None
    stream: Float[np.ndarray, "d s"] | None = None  # orthonormal: the part of the residual connection that shows
    unembedding: Float[np.ndarray, "d k"] | None = None  # None where answers are the residual connection itself
    matched: bool = False  # tokens that are answered alike are compared, not answers
    error: float = 0.0  # of answers, over what keys move them by
    usual: float = np.inf  # how far off limits are without the shortest length
    _alone: dict[tuple[bytes, float], np.ndarray] = field(default_factory=dict)

    def errors(self, times: float, most: float) -> float:
        """So many errors of an answer, as a share: what is not larger is none."""
        return min(times * self.error, most)

    def ask(self, X: np.ndarray) -> np.ndarray:
        """`X (b, n, d)`, in whatever way the box answers."""
        answers = np.asarray(self.oracle(X))
        return answers - answers.mean(axis=1, keepdims=True) if self.centred else answers

    def read_alone(self, q: Float[np.ndarray, "b p"], farther: float = 1.0) -> Float[np.ndarray, "b l k"]:
        """Answers to each last token alone, at all lengths; the same one is asked once."""
        new = {(row.tobytes(), farther): row for row in q if (row.tobytes(), farther) not in self._alone}
        if new:
            tokens, lengths = np.stack(list(new.values())) @ self.sphere.basis, farther * self.lengths
            asked = self.ask((lengths[:, None] * tokens[:, None]).reshape(-1, 1, tokens.shape[1]))
            self._alone |= zip(new, asked.reshape(len(new), len(lengths), -1), strict=True)
        return np.stack([self._alone[row.tobytes(), farther] for row in q])

    def __call__(self, keys: Float[np.ndarray, "b n p"], q: Float[np.ndarray, "... p"]) -> Float[np.ndarray, "b s"]:
        """What keys move the answer by, each with the last token q, or all with the same.

        A neuron of a ReLU network that turns on between two lengths spoils an answer: it is asked again farther out.
        """
        last = np.broadcast_to(q, (len(keys), self.sphere.size))
        moved, bent = self.read_moved(keys, last)
        for farther in FARTHER:
            again = np.flatnonzero(bent > KINKED * self.usual)
            if len(again) == 0 or farther * self.lengths[-1] * self.sphere.radius > self.oracle.reach:
                break
            moved[again], bent[again] = self.read_moved(keys[again], last[again], farther)
        return self.seen(moved, last)

    def seen(self, moved: Float[np.ndarray, "b s"], last: Float[np.ndarray, "b p"]) -> Float[np.ndarray, "b s"]:
        """The part of `moved` that answers show, less what is lost at each last token."""
        lost = self.unseen(last)
        return moved - np.sum(moved * lost, axis=-1, keepdims=True) * lost

    def read_short(self, keys: Float[np.ndarray, "b n p"], q: Float[np.ndarray, "b p"], length: float) -> np.ndarray:
        """Reads what `__call__` does, with keys as short as that, over ordinary ones."""
        return self.seen(self.read_moved(keys, q, length_of_keys=length)[0], q)

    def read_kink(self, q: Float[np.ndarray, " p"], rng: np.random.Generator) -> bool:
        """Whether q is a bad last token, at which neurons turn on as keys come and go."""
        keys = self.sphere.random((TRIED_PAIRS, 1), rng)
        return bool(np.any(self.read_moved(keys, np.broadcast_to(q, keys[:, 0].shape))[1] > KINKED * self.usual))

    def read_moved(
        self, keys: np.ndarray, last: np.ndarray, farther: float = 1.0, length_of_keys: float | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """The limit of answers at lengths so many times longer, and how far off it is without the shortest one."""
        lengths, scale = farther * self.lengths, farther * self.lengths if self.normed else np.ones(len(self.lengths))
        front = (length_of_keys or key_length(self.oracle)) * keys @ self.sphere.basis
        tokens = last @ self.sphere.basis
        same = bool(np.all(last == last[:1]))
        base = self.read_alone(last[:1] if same else last, farther)
        whole, part = scale * extrapolation(lengths), scale * np.append(0.0, extrapolation(lengths[1:]))
        limit = rest = np.zeros(())
        for j, length in enumerate(lengths):
            there = self.ask(np.concatenate([front, (length * tokens)[:, None]], axis=1)) - base[:, j]
            if self.matched:
                there = self.read_alike(there, length * tokens, base[:, j])
            limit, rest = limit + whole[j] * there, rest + (whole[j] - part[j]) * there
        limit = np.asarray(limit)
        return limit if self.back is None else limit @ self.back, norms(np.asarray(rest))

    def read_alike(self, moved: np.ndarray, last: Float[np.ndarray, "b d"], alone: np.ndarray) -> np.ndarray:
        """How far from each last token the single token is that is answered as one that `moved` so far: a long token
        is answered nearly by itself, so that a few steps find it."""

        def read_step(far: np.ndarray, which: np.ndarray) -> np.ndarray:
            tokens, base = (np.broadcast_to(x, moved.shape)[which] for x in (last, alone))
            return moved[which] + base - self.ask((tokens + far)[:, None])

        size = self.oracle.roundoff * float(norms(alone).max())
        return find_alike(read_step, moved, ALIKE_WANTED * size, ALIKE_FLOOR * size)[0]

    def unseen(self, q: Float[np.ndarray, "b p"]) -> Float[np.ndarray, "b s"]:
        """The direction of the residual connection that the last norm forgets at each q; zero if there is none."""
        s = self.sphere.basis.shape[1] if self.stream is None else self.stream.shape[1]
        if not self.normed or self.stream is None:
            return np.zeros((len(q), s))
        along = q @ self.sphere.basis @ self.stream
        return along / norms(along)[:, None]


def extrapolation(lengths: np.ndarray) -> np.ndarray:
    """Weights of answers at these lengths, in the limit of the polynomial in 1/lambda through them."""
    x = 1 / lengths
    others = [np.delete(x, i) for i in range(len(x))]
    return np.array([np.prod(other / (other - x[i])) for i, other in enumerate(others)])


ALIKE_WANTED, ALIKE_FLOOR = 3.0, 1e2  # roundings of an answer: how exactly tokens are found, and how exactly at least
MATCHED_BETTER = (
    0.6  # of the error of limits of answers: what kinks of a ReLU network make of them, where digits are few
)
LEAST_ERROR = 1e-12  # of an answer: three pairs may agree better by chance
TRIED_PAIRS = 3  # pairs of tokens that lengths are tried on
GROWN = 1.5  # times: what answers to a token grow by with its length, where no last norm forgets it
PROBABILITIES = 1e-6  # what they add up to, but for that, is 1


@dataclass(frozen=True)
class Extrapolated:
    """The lengths that agree best with longer and with shorter ones, and how well, over what keys move answers by."""

    lengths: np.ndarray
    error: float
    usual: float


def are_log_probabilities(answers: np.ndarray) -> bool:
    """Whether the exponentials of the numbers of each answer, along the last axis, add up to 1."""
    return answers.shape[-1] > 1 and bool(np.abs(np.exp(answers).sum(axis=-1) - 1).max() <= PROBABILITIES)


def find_long_token(oracle: Oracle, sphere: Sphere, rng: np.random.Generator) -> LongToken:
    """The view of a box with that norm in front."""
    lengths = LAST_LENGTHS[LAST_LENGTHS * sphere.radius <= oracle.reach]
    if len(lengths) <= max(NODES):
        raise NotConverged(f"tokens up to {oracle.reach:.3g} are too short for last tokens that outweigh all others")
    q, keys = sphere.random((TRIED_PAIRS,), rng), sphere.random((TRIED_PAIRS, 1), rng)
    first = np.asarray(oracle((sphere.random((1,), rng) @ sphere.basis)[:, None]))
    centred = are_log_probabilities(first)
    view = LongToken(oracle, sphere, lengths, centred=centred)
    alone = view.read_alone(q)
    view.normed = bool(np.linalg.norm(alone[:, -1]) < GROWN * np.linalg.norm(alone[:, -2]))
    front, last = key_length(oracle) * keys @ sphere.basis, (q @ sphere.basis)[:, None]
    pairs = [view.ask(np.concatenate([front, length * last], axis=1)) for length in lengths]
    moved = np.stack(pairs, axis=1) - alone
    best = suited_lengths(lengths, moved * (lengths[:, None] if view.normed else 1.0))
    if oracle.roundoff > DOUBLE and not view.normed and moved.shape[2] == oracle.dim:
        each = [view.read_alike(moved[:, j], length * last[:, 0], alone[:, j]) for j, length in enumerate(lengths)]
        other = suited_lengths(lengths, np.stack(each, axis=1))
        view.matched = other.error < MATCHED_BETTER * best.error
        best = other if view.matched else best
    if not np.isfinite(best.error):
        raise NotConverged("tokens in front of a long last one change no answer, whatever its length")
    view.lengths = best.lengths
    chosen = np.isin(lengths, best.lengths)
    view._alone = {(row.tobytes(), 1.0): there[chosen] for row, there in zip(q, alone, strict=True)}
    view.usual, view.error = best.usual, max(best.error, LEAST_ERROR)
    read_unembedding(view, q[0], rng)
    return view


def suited_lengths(lengths: np.ndarray, moved: np.ndarray) -> Extrapolated:
    """The run of neighbouring lengths whose limit changes least when they get longer or shorter."""
    return min((best_of(lengths, moved, nodes) for nodes in NODES), key=lambda found: found.error)


def best_of(lengths: np.ndarray, moved: np.ndarray, nodes: int) -> Extrapolated:
    sets = [slice(i, i + nodes) for i in range(len(lengths) - nodes + 1)]
    limits = np.stack([np.einsum("l,blk->bk", extrapolation(lengths[s]), moved[:, s]) for s in sets])
    size, changes = norms(limits), norms(np.diff(limits, axis=0))
    larger = np.maximum(size[1:], size[:-1])
    shares = np.divide(
        changes, larger, out=np.full(changes.shape, np.inf), where=larger > 0
    )  # none where nothing moves
    change = np.median(shares, axis=1)
    error = np.maximum(np.append(change, change[-1]), np.insert(change, 0, change[0]))
    best = int(np.argmin(error))
    chosen = sets[best]
    shorter = extrapolation(lengths[chosen]) - np.append(0.0, extrapolation(lengths[chosen][1:]))
    usual = float(np.median(norms(np.einsum("l,blk->bk", shorter, moved[:, chosen]))))
    return Extrapolated(lengths[chosen], float(error[best]), usual)


IDENTITY, SHOWN = 1e-5, 1e-4  # of a token that is answered by itself, and of the largest singular value of what shows
ALONE_LENGTHS = 2.0 ** np.arange(9, 13)  # lengths of tokens alone: no difference is taken, so that they may be long


def read_limits_alone(view: LongToken, tokens: Float[np.ndarray, "b d"]) -> Float[np.ndarray, "b k"]:
    """What the answer to a long token tends to, over its length where there is no last norm."""
    lengths = ALONE_LENGTHS[ALONE_LENGTHS * view.sphere.radius <= view.oracle.reach]
    lengths = lengths if len(lengths) >= min(NODES) else view.lengths  # where tokens may not be that long
    asked = view.ask((lengths[:, None] * tokens[:, None]).reshape(-1, 1, tokens.shape[1]))
    weights = extrapolation(lengths) / (1.0 if view.normed else lengths)
    return np.einsum("l,blk->bk", weights, asked.reshape(len(tokens), len(lengths), -1))


def read_unembedding(view: LongToken, q: np.ndarray, rng: np.random.Generator) -> None:
    """What answers show of the residual connection: itself, as one token says, or a linear map of it, from as many
    tokens as it has dimensions."""
    d, token = view.sphere.basis.shape[1], q @ view.sphere.basis
    if not view.normed:
        limit = read_limits_alone(view, token[None])[0]
        off = np.linalg.norm(limit - token) if limit.shape == token.shape else np.inf
        if off <= IDENTITY * np.linalg.norm(token):
            return
    # Behind a last norm only normalised tokens are seen.
    axes = view.sphere.basis if view.normed else np.eye(d)
    frame = view.sphere.radius * random_rotation(len(axes), rng) @ axes
    tokens = np.concatenate([frame, -frame[:1]])
    limits = read_limits_alone(view, tokens)
    if view.normed:
        limits = limits - (limits[0] + limits[-1]) / 2  # the shift of the last norm
    E = np.linalg.lstsq(tokens, limits, rcond=None)[0]
    U, s, Vt = svd(E)
    shown = s > SHOWN * s[0]
    view.unembedding, view.stream, view.back = E, U[:, shown], Vt[shown].T / s[shown]
