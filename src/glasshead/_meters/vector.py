"""Scores of all heads at once from answers of many numbers.

One-row queries say `f([x]) = x . B + bias`, where B is the sum of all heads' value maps. With n tokens beside the last
one x, head h moves the answer by `sum_i alpha_hi D_i B_h` in its own output space, where D are the tokens less x: n
weights from a linear solve if n is at most the rank of `B_h`, and from `log(alpha_hi / alpha_h0)` n scores `D_i . (W_h
x + key_bias_h)`. Tokens are chosen so that every head tells those of one query apart, and all together span the space.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from .._errors import NOT_HEADS, WEIGHT_RANGE, AccuracyUnreachable, Evidence, TargetMismatch
from .._linalg import svd
from .._oracles import DOUBLE, Oracle
from .._types import Float

OUTPUT_ROUNDINGS = 64  # roundings of a d-dimensional sum, to be safe: a singular value below that is none


@dataclass(frozen=True)
class Readout:
    """The bias, `B (d, k)`, and an orthonormal basis of the outputs that B reaches, in which answers are looked at."""

    bias: Float[np.ndarray, " k"]
    B: Float[np.ndarray, "d k"]
    outputs: Float[np.ndarray, "k m"]

    @property
    def rank(self) -> int:
        return self.outputs.shape[1]

    @property
    def map(self) -> Float[np.ndarray, "d m"]:
        """What a token contributes, in the basis of the outputs."""
        return self.B @ self.outputs

    def moved(self, answers: np.ndarray, last: np.ndarray) -> np.ndarray:
        """How far the other tokens moved the answers from `f([last])`."""
        return (answers - (self.bias + last @ self.B)) @ self.outputs


def seen_outputs(oracle: Oracle, B: np.ndarray, bias: np.ndarray, least_seen: float = 0.0) -> Readout:
    """The outputs that tokens reach; where some are fainter than `least_seen` of the loudest, those are left aside."""
    _, s, right = svd(B)
    least = max(OUTPUT_ROUNDINGS * max(B.shape) * oracle.roundoff, least_seen)
    if least >= 1:
        raise AccuracyUnreachable("the box's numbers have too few digits to read many scores at once from its outputs")
    return Readout(bias, B, right[s > least * s[0]].T)


TOKEN_ROUNDS = 12  # of looking for better tokens,
TOKEN_WORK = 2**31  # multiplications, and no more than these take: many large tokens are all about as good
READ_FAINT = 1e-3  # of what C reads: directions fainter than that cost more than they give
SINGULAR_LEVEL = 0.5  # of the median singular value: smaller ones are lifted to that in the end


@dataclass(frozen=True)
class JointReaders:
    """What all heads read, side by side: `joint` directions, its `inverse`, and where one head ends."""

    joint: np.ndarray
    inverse: np.ndarray
    ends: np.ndarray


def joint_readers(bases: list[np.ndarray]) -> JointReaders:
    joint = np.concatenate(bases, axis=1)
    return JointReaders(joint, np.linalg.pinv(joint, rcond=READ_FAINT), np.cumsum([C.shape[1] for C in bases])[:-1])


def token_blocks(bases: list[np.ndarray], each: int, total: int, rng: np.random.Generator) -> np.ndarray:
    """`(blocks, each, d)`: at least `total` tokens of length about 1."""
    readers, d = joint_readers(bases), len(bases[0])
    blocks = -(-total // each)
    D = rng.standard_normal((blocks * each, d))
    best, quality = D, 0.0
    for _ in range(min(TOKEN_ROUNDS, max(1, TOKEN_WORK // (D.size * min(D.shape))))):
        D = separated_tokens(equal_singular(D), readers, each)
        reached = least_seen(D, readers, each) * least_singular(D)
        if reached > quality:
            best, quality = D, reached
    return (best / np.sqrt(np.mean(np.sum(best**2, axis=1)))).reshape(blocks, each, d)


def equal_singular(D: np.ndarray) -> np.ndarray:
    """The nearest matrix of this shape with equal singular values, of rows of length about 1."""
    left, _, right = svd(D)
    return left @ right * np.sqrt(len(D) / min(D.shape))


def separated_tokens(D: np.ndarray, readers: JointReaders, each: int) -> np.ndarray:
    """The small singular values of every block that a head sees lifted, with the least change of D."""
    seen = D @ readers.joint
    shaped = seen.reshape(-1, each, seen.shape[1])
    lifted = [raised_singular(part) for part in np.split(shaped, readers.ends, axis=2)]
    return D + (np.concatenate(lifted, axis=2).reshape(seen.shape) - seen) @ readers.inverse


def raised_singular(blocks: np.ndarray) -> np.ndarray:
    left, s, right = np.linalg.svd(blocks, full_matrices=False)
    level = np.median(s, axis=-1, keepdims=True)
    return left * np.clip(s, SINGULAR_LEVEL * level, None)[:, None] @ right


def least_seen(D: np.ndarray, readers: JointReaders, each: int) -> float:
    seen = (D @ readers.joint).reshape(-1, each, readers.joint.shape[1])
    parts = np.split(seen, readers.ends, axis=2)
    return float(min(np.linalg.svd(part, compute_uv=False).min() for part in parts))


def least_singular(D: np.ndarray) -> float:
    return float(np.linalg.svd(D, compute_uv=False)[-1])


SATURATED_SHRINK, SATURATED_ROUNDS = 4.0, 8  # tokens that saturate are sent again, shorter, at most so often
# Of the tokens that a head can just tell apart, how many to send: in float64, and with fewer digits.
SHARE_DOUBLE, SHARE_NARROW = 0.875, 0.5
LEAST_WEIGHT = 3e-3  # of an even share 1/(n + 1): a smaller weight has lost digits to the others


@dataclass(frozen=True)
class Reader:
    """One head's view: `answers @ look` are what it moved, `C` how it reads tokens there, the loudest direction first.

    `look` has orthonormal columns: rounding in answers is alike in all of them, and least squares knows which to trust.
    """

    look: Float[np.ndarray, "m r"]
    C: Float[np.ndarray, "d r"]

    @property
    def rank(self) -> int:
        return self.C.shape[1]

    def loudest(self, count: int) -> np.ndarray:
        """Orthonormal directions that it reads best."""
        return self.C[:, :count] / np.linalg.norm(self.C[:, :count], axis=0)


def reader(readout: Readout, space: np.ndarray) -> Reader:
    left, s, right = svd(readout.map @ space)
    return Reader(space @ right.T, left * s)


@dataclass(frozen=True)
class VectorMeter:
    """Measures scores of all heads at once. Where digits are few, more `effort` is to ask for more of them."""

    oracle: Oracle
    readout: Readout
    readers: list[Reader]
    effort: int = 1

    @property
    def rank(self) -> int:
        """How many tokens besides the last one every head can just tell apart."""
        return min(reader.rank for reader in self.readers)

    @property
    def few_digits(self) -> bool:
        """Whether answers have fewer digits than those of float64, so that it takes more of them."""
        return self.oracle.roundoff > DOUBLE

    @property
    def at_once(self) -> int:
        """How many tokens are sent besides the last one: every head tells fewer than it can apart far better, unless
        it is alone."""
        share = SHARE_NARROW if self.few_digits else SHARE_DOUBLE
        return self.rank if len(self.readers) == 1 else max(1, int(share * self.rank))

    def tokens(self, each: int, total: int, rng: np.random.Generator) -> np.ndarray:
        """Blocks of `each` tokens to send together, `total` at least."""
        return token_blocks([reader.loudest(each) for reader in self.readers], each, total, rng)

    def read_scores(self, last: Float[np.ndarray, "j d"], D: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "j h n"]:
        """`D_i . (W_h x + key_bias_h)` for every row x of `last`."""
        scores = np.empty((len(last), len(self.readers), len(D)))
        left = np.arange(len(last))
        longest = self.oracle.reach - float(np.linalg.norm(last, axis=1).max())
        factor = max(1.0, float(np.linalg.norm(D, axis=1).max()) / longest)
        for _ in range(SATURATED_ROUNDS):
            weights = self.read_weights(last[left], D / factor)
            good = weights.min(axis=(1, 2)) > LEAST_WEIGHT / (len(D) + 1)
            logs = np.log(weights[good])
            scores[left[good]] = factor * (logs[:, :, :-1] - logs[:, :, -1:])
            left, factor = left[~good], factor * SATURATED_SHRINK
            if len(left) == 0:
                return scores
        return self.refuse(last[left[0]], D / factor)

    def refuse(self, x: np.ndarray, D: np.ndarray) -> NoReturn:
        if self.noise(D, float(np.linalg.norm(x))).max() > LEAST_WEIGHT:
            raise AccuracyUnreachable("the box's numbers have too few digits to read its attention weights")
        query = np.concatenate([x + D, x[None]])
        evidence = Evidence(WEIGHT_RANGE, query, "expected one for each token and head", "no such weights")
        raise TargetMismatch(NOT_HEADS, evidence)

    def read_weights(self, last: np.ndarray, D: np.ndarray) -> Float[np.ndarray, "j h n1"]:
        """How much each token counts for each head, the last one last."""
        moved = self.read_moved(last, D)
        weights = np.stack([moved @ (reader.look @ np.linalg.pinv(D @ reader.C)) for reader in self.readers], axis=1)
        return np.concatenate([weights, 1 - weights.sum(axis=2, keepdims=True)], axis=2)

    def read_moved(self, last: np.ndarray, D: np.ndarray) -> Float[np.ndarray, "j m"]:
        """How far the tokens `x + D` move the answer, for every row x of `last`."""
        X = np.concatenate([last[:, None] + D, last[:, None]], axis=1)
        return self.readout.moved(self.oracle(X), last)

    def rounding(self, D: np.ndarray, last: float) -> float:
        """How far rounding moves an answer, roughly."""
        size = np.linalg.norm(self.readout.bias) + (last + np.linalg.norm(D)) * np.linalg.norm(self.readout.B, 2)
        return float(self.oracle.roundoff * size)

    def noise(self, D: np.ndarray, last: float) -> np.ndarray:
        """What rounding does to a score of each head, roughly: the answers' own, through the linear system."""
        gain = [np.linalg.norm(reader.look @ np.linalg.pinv(D @ reader.C), axis=0).max() for reader in self.readers]
        return self.rounding(D, last) * (len(D) + 1) * np.array(gain)
