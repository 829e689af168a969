"""What one-row queries say: `f([x]) = x . B + bias`, where B is the sum of all heads' value maps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from .._errors import NOT_HEADS, AccuracyUnreachable, Evidence, TargetMismatch
from .._linalg import svd
from .._oracles import Oracle
from .._types import Float
from .value import HEADROOM

SILENT = 64  # roundings of a d-dimensional sum, to be safe: a singular value below that is none


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


def read_rows(oracle: Oracle, bias: np.ndarray, first: np.ndarray) -> np.ndarray:
    """B from d queries; `bias` is what the box answers to the zero token, `first` what it answers to some unit one."""
    against, signal = float(np.abs(bias).max()), float(np.abs(first - bias).max())
    wanted = 1.0 if against == 0 else HEADROOM * max(1.0, against / signal if signal > 0 else np.inf)
    # A power of two, so that dividing by it rounds nothing.
    step = float(2.0 ** np.floor(np.log2(min(wanted, oracle.reach))))
    return (oracle((step * np.eye(oracle.dim))[:, None]) - bias) / step


def seen_outputs(oracle: Oracle, B: np.ndarray, bias: np.ndarray, least: float = 0.0) -> Readout:
    """The outputs that tokens reach; where some are fainter than `least` of the loudest, those are left aside."""
    _, s, right = svd(B)
    rounding = SILENT * max(B.shape) * oracle.roundoff
    return Readout(bias, B, right[s > max(rounding, least) * s[0]].T)


LIFTS = 12
FAINT = 1e-3  # of what C reads: directions fainter than that cost more than they give
LEVEL = 0.5  # of the median singular value: smaller ones are lifted to that in the end


@dataclass(frozen=True)
class Readers:
    """What all heads read, side by side: `joint` directions, its `inverse`, and where one head ends."""

    joint: np.ndarray
    inverse: np.ndarray
    ends: np.ndarray


def side_by_side(bases: list[np.ndarray]) -> Readers:
    joint = np.concatenate(bases, axis=1)
    return Readers(joint, np.linalg.pinv(joint, rcond=FAINT), np.cumsum([C.shape[1] for C in bases])[:-1])


def token_blocks(bases: list[np.ndarray], each: int, total: int, rng: np.random.Generator) -> np.ndarray:
    """`(blocks, each, d)`: at least `total` tokens of length about 1."""
    readers, d = side_by_side(bases), len(bases[0])
    blocks = -(-total // each)
    D = rng.standard_normal((blocks * each, d))
    best, quality = D, 0.0
    for _ in range(LIFTS):
        D = told_apart(orthogonal(D), readers, each)
        reached = least(D, readers, each) * least_singular(D)
        if reached > quality:
            best, quality = D, reached
    return (best / np.sqrt(np.mean(np.sum(best**2, axis=1)))).reshape(blocks, each, d)


def orthogonal(D: np.ndarray) -> np.ndarray:
    """The nearest matrix of this shape with equal singular values, of rows of length about 1."""
    left, _, right = svd(D)
    return left @ right * np.sqrt(len(D) / min(D.shape))


def told_apart(D: np.ndarray, readers: Readers, each: int) -> np.ndarray:
    """The small singular values of every block that a head sees lifted, with the least change of D."""
    seen = D @ readers.joint
    shaped = seen.reshape(-1, each, seen.shape[1])
    lifted = [lift(part) for part in np.split(shaped, readers.ends, axis=2)]
    return D + (np.concatenate(lifted, axis=2).reshape(seen.shape) - seen) @ readers.inverse


def lift(blocks: np.ndarray) -> np.ndarray:
    left, s, right = np.linalg.svd(blocks, full_matrices=False)
    level = np.median(s, axis=-1, keepdims=True)
    return left * np.clip(s, LEVEL * level, None)[:, None] @ right


def least(D: np.ndarray, readers: Readers, each: int) -> float:
    seen = (D @ readers.joint).reshape(-1, each, readers.joint.shape[1])
    parts = np.split(seen, readers.ends, axis=2)
    return float(min(np.linalg.svd(part, compute_uv=False).min() for part in parts))


def least_singular(D: np.ndarray) -> float:
    return float(np.linalg.svd(D, compute_uv=False)[-1])


SHORTER, ROUNDS = 4.0, 8  # tokens that saturate are sent again, shorter, at most so often
WISE, NARROW = 0.875, 0.5  # of the tokens that a head can just tell apart, in float64 and with fewer digits
TINY = 3e-3  # of an even share: a smaller weight has lost digits


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
    """Measures scores of all heads at once."""

    oracle: Oracle
    readout: Readout
    readers: list[Reader]

    @property
    def rank(self) -> int:
        """How many tokens besides the last one every head can just tell apart,"""
        return min(reader.rank for reader in self.readers)

    @property
    def at_once(self) -> int:
        """and how many it is wise to send: it tells fewer apart far better, unless it is alone."""
        share = WISE if self.oracle.roundoff == 2.0**-53 else NARROW
        return self.rank if len(self.readers) == 1 else max(1, int(share * self.rank))

    def tokens(self, each: int, total: int, rng: np.random.Generator) -> np.ndarray:
        """Blocks of `each` tokens to send together, `total` at least."""
        return token_blocks([reader.loudest(each) for reader in self.readers], each, total, rng)

    def scores(self, last: Float[np.ndarray, "j d"], D: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "j h n"]:
        """`D_i . (W_h x + key_bias_h)` for every row x of `last`."""
        scores = np.empty((len(last), len(self.readers), len(D)))
        left = np.arange(len(last))
        room = self.oracle.reach - float(np.linalg.norm(last, axis=1).max())
        factor = max(1.0, float(np.linalg.norm(D, axis=1).max()) / room)
        for _ in range(ROUNDS):
            weights = self.weights(last[left], D / factor)
            good = weights.min(axis=(1, 2)) > TINY / (len(D) + 1)
            logs = np.log(weights[good])
            scores[left[good]] = factor * (logs[:, :, :-1] - logs[:, :, -1:])
            left, factor = left[~good], factor * SHORTER
            if len(left) == 0:
                return scores
        return self.refuse(last[left[0]], D / factor)

    def refuse(self, x: np.ndarray, D: np.ndarray) -> NoReturn:
        if self.noise(D, float(np.linalg.norm(x))).max() > TINY:
            raise AccuracyUnreachable("the box's numbers have too few digits to read its attention weights")
        query = np.concatenate([x + D, x[None]])
        law = "an attention weight lies between 0 and 1"
        raise TargetMismatch(NOT_HEADS, Evidence(law, query, "expected one for each token and head", "no such weights"))

    def weights(self, last: np.ndarray, D: np.ndarray) -> Float[np.ndarray, "j h n1"]:
        """How much each token counts for each head, the last one last."""
        X = np.concatenate([last[:, None] + D, last[:, None]], axis=1)
        moved = self.readout.moved(self.oracle(X), last)
        weights = np.stack([moved @ (reader.look @ np.linalg.pinv(D @ reader.C)) for reader in self.readers], axis=1)
        return np.concatenate([weights, 1 - weights.sum(axis=2, keepdims=True)], axis=2)

    def noise(self, D: np.ndarray, last: float) -> np.ndarray:
        """What rounding does to a score of each head, roughly: the answers' own, through the linear system."""
        size = float(np.linalg.norm(self.readout.bias) + (last + np.linalg.norm(D)) * np.linalg.norm(self.readout.B, 2))
        gain = [np.linalg.norm(reader.look @ np.linalg.pinv(D @ reader.C), axis=0).max() for reader in self.readers]
        return self.oracle.roundoff * size * (len(D) + 1) * np.array(gain)
