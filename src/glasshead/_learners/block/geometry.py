"""What single tokens and pairs show of a block before its heads are told apart.

`G(x) = f([x])` is what the box answers to one token. A sequence is answered like the token `x* = q + sum_hi a_hi D_i
B_h`, with q its last token, `D_i = x_i - q` and `a_hi` the attention weights: `B_h` are the heads' value maps as tokens
see them, and `B` their sum. At a token q the Jacobian of G shows which directions answers see there, and the slope of
`f([q + z ; q])` is that of `G(q + z B / 2)`: two such tokens give B, up to the directions that no answer ever sees.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..._errors import NotConverged
from ..._linalg import norms, svd
from ..._oracles import DOUBLE, STALLED_ROUNDINGS, Oracle, find_alike, read_bent_slope, read_single, read_slope
from ..._types import Float

SEEN_GAP = 5e-4  # between neighbouring singular values: beyond it nothing is seen
NEVER_SEEN = 1e-6, 2400.0  # of the largest singular value of all Jacobians side by side, or that many of their errors
DIFFERENCE_STEP = 1.0  # of a difference of the sixth order, over the seventh root of a rounding
UNSEEN_DISTANCE = 20.0  # times a token: how far along a direction that is not seen answers are compared
LAST_COPIES = 30  # of the last token: what keys do to it is small, and sequences stay shorter than 32 tokens
FEW_COPIES = 8  # where answers have few digits: it must not be too small
SHARPENED = 2  # rounds: one brings it from the error of differences to rounding


def seen_rank(s: np.ndarray) -> int:
    """How many singular values lie before the first gap."""
    gaps = np.flatnonzero(s[1:] < SEEN_GAP * s[:-1])
    return int(gaps[0]) + 1 if len(gaps) else len(s)


def with_copies(last: np.ndarray, D: Float[np.ndarray, "b t d"], copies: int) -> Float[np.ndarray, "b n d"]:
    """Sequences `[q + D_1, .., q + D_t, q, .., q]` that end in so many copies of the last token q, `(d,)` or `(b,
    d)`."""
    q = np.broadcast_to(last, (len(D), D.shape[2]))[:, None]
    return np.concatenate([q + D, np.repeat(q, copies, axis=1)], axis=1)


@dataclass(frozen=True)
class View:
    """The moves of a token that answers see: `directions (p, d)`, orthonormal, each seen `gains` times as large along
    `looks (k, p)`; `blind (f, d)` are the others among the moves that are possible."""

    directions: np.ndarray
    gains: np.ndarray
    looks: np.ndarray
    blind: np.ndarray

    def seen(self, moves: np.ndarray) -> np.ndarray:
        """Moves of a token in units of answers, `(.., p)`."""
        return moves @ self.directions.T * self.gains

    def moves(self, seen: np.ndarray) -> np.ndarray:
        """Moves of a token that are seen so."""
        return seen / self.gains @ self.directions

    def carried(self, looks: np.ndarray, other: View) -> np.ndarray:
        """What `looks (p', n)` read of another view of nearly the same moves, for this one."""
        return self.directions @ (other.directions.T @ (other.gains[:, None] * looks)) / self.gains[:, None]


@dataclass(frozen=True)
class Reference:
    """A token q, what it is answered alone, the Jacobian there, `(d, k)`, and whether kinks lie nearby, as those of a
    ReLU network."""

    token: np.ndarray
    answer: np.ndarray
    jacobian: np.ndarray
    kinked: bool = False

    def within(self, outputs: Float[np.ndarray, "d m"]) -> View:
        """What is seen of moves inside a space, of which `outputs` is an orthonormal basis."""
        left, s, right = svd(outputs.T @ self.jacobian, full=True)
        p = seen_rank(s)
        directions = (outputs @ left).T
        return View(directions[:p], s[:p], right[:p].T, directions[p:])


@dataclass(frozen=True)
class Total:
    """The sum B of all heads' maps, `(d, d)`, up to what no answer sees: `unseen (d, e)`. `outputs (d, m)` is a basis
    of what B reaches."""

    B: np.ndarray
    unseen: np.ndarray

    @property
    def outputs(self) -> np.ndarray:
        _, s, right = svd(self.B)
        return right[: seen_rank(s)].T

    @property
    def visible(self) -> np.ndarray:
        """A basis `(d, d - e)` of all moves but those that are never seen."""
        return all_but(self.unseen)


def all_but(unseen: Float[np.ndarray, "d e"]) -> np.ndarray:
    """An orthonormal basis of what is orthogonal to some directions."""
    return svd(unseen, full=True)[0][:, unseen.shape[1] :] if unseen.size else np.eye(len(unseen))


def few_digits(oracle: Oracle) -> bool:
    """Whether the box computes in less than float64."""
    return oracle.roundoff > DOUBLE


def copies_of(oracle: Oracle) -> int:
    """How many copies of the last token dilute keys."""
    return FEW_COPIES if few_digits(oracle) else LAST_COPIES


def step_length(oracle: Oracle) -> float:
    """The step of differences, for tokens whose entries are of the order of one."""
    return DIFFERENCE_STEP * oracle.roundoff ** (1 / 7)


def never_seen(oracle: Oracle) -> float:
    """The share of the largest singular value of a Jacobian below which no answer sees anything."""
    least, times = NEVER_SEEN
    return max(least, times * oracle.roundoff / step_length(oracle))


def read_reference(oracle: Oracle, token: np.ndarray, size: float) -> Reference:
    """Six answers for each dimension, and one."""
    answer = read_single(oracle, token[None])[0]
    step = size * step_length(oracle)
    jacobian, kinked = read_bent_slope(lambda Z: read_single(oracle, token + Z), oracle.dim, step, oracle.roundoff)
    return Reference(token, answer, jacobian, kinked)


def read_total(oracle: Oracle, references: list[Reference], size: float) -> Total:
    """B from how answers to `[q + z ; q]` start to move with z, at every reference; six answers for each dimension."""
    J = np.concatenate([reference.jacobian for reference in references], axis=1)
    left, s, _ = svd(J, full=True)
    rank = int(np.sum(s > never_seen(oracle) * s[0]))
    slopes = [read_pair_slope(oracle, reference.token, size) for reference in references]
    unseen = read_unseen(oracle, references, left[:, rank:])
    visible = all_but(unseen)
    B = np.linalg.lstsq((visible.T @ J).T, np.concatenate(slopes, axis=1).T, rcond=None)[0].T @ visible.T
    return Total(B, unseen)


def read_pair_slope(oracle: Oracle, q: np.ndarray, size: float) -> Float[np.ndarray, "d k"]:
    """Reads twice the slope of `f([q + z ; q])` at z = 0, where both tokens count alike: `B` times the Jacobian."""
    step = size * step_length(oracle)
    return 2 * read_slope(
        lambda Z: np.asarray(oracle(with_copies(q, Z[:, None], 1))), oracle.dim, step, oracle.roundoff
    )


def read_unseen(oracle: Oracle, references: list[Reference], unseen: Float[np.ndarray, "d e"]) -> np.ndarray:
    """The directions that no answer sees, made exact: equal answers are demanded far along them."""
    inverse = np.linalg.pinv(np.concatenate([r.jacobian for r in references], axis=1), rcond=never_seen(oracle))
    tokens = np.stack([reference.token for reference in references])
    far = min(UNSEEN_DISTANCE, oracle.reach / float(norms(tokens).max()) - 1) * float(norms(tokens).max())
    for _ in range(SHARPENED):
        for e in unseen.T:
            moved = (read_single(oracle, tokens + far * e) - read_single(oracle, tokens - far * e)) / (2 * far)
            e -= moved.reshape(-1) @ inverse
        unseen = np.linalg.qr(unseen)[0] if unseen.size else unseen
    return unseen


@dataclass(frozen=True)
class Rows:
    """Keys `z (b, d)` beside so many copies of q, what they were answered, and the tokens that are answered so, as far
    as is known: q and `moves`."""

    z: np.ndarray
    answers: np.ndarray
    moves: np.ndarray
    copies: int


def find_moves(oracle: Oracle, at: Reference, view: View, rows: Rows, wanted: float) -> Rows:
    """The tokens that are answered like the rows, from those that were expected; what is not seen stays as expected."""
    start = view.seen(rows.moves)
    blind = rows.moves - view.moves(start)
    scale = float(np.linalg.norm(at.answer))

    def read_step(seen: np.ndarray, which: np.ndarray) -> np.ndarray:
        tokens = at.token + blind[which] + view.moves(seen)
        return (rows.answers[which] - read_single(oracle, tokens)) @ view.looks

    seen, left = find_alike(read_step, start, wanted * scale, STALLED_ROUNDINGS * oracle.roundoff * scale)
    if not np.isfinite(left).all():
        raise NotConverged("some sequences are answered like no single token near their last one")
    return replace(rows, moves=blind + view.moves(seen))
