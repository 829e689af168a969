"""The network inside a block with norms behind its heads and behind its network, once its heads are known.

One token alone has `a = x S + offset` behind the heads, so a very long token can be made for every `n = norm(a)`, and
neither offset nor eps matter. With the last norm undone (`last_norm`) answers show `y = gains * n + network(n)` up to
its length and its mean: `_network.find_bent` finds the neurons of that. All weights together are fitted to answers
(`whole_fit`), and offset and eps last, at tokens of ordinary size and shorter ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ..._errors import NotConverged, TargetMismatch
from ..._linalg import LEAST_DIVISOR, mean_zero, unit
from ..._models import Block, PostNorm
from ..._network import Bent, find_bent
from ..._oracles import Oracle, read_single
from ..._types import Float
from .last_norm import LastNorm, last_norm, scaled, solve_sides, with_sides
from .tangents import changed_eps
from .whole_fit import FITTED_SIZES, few_fit, whole_fit

LONGEST_RAY, SHORTEST_RAY = 2.0**40, 2.0**20  # times a normalised token: what is added to it is nothing there
SPHERE_POINTS = 4  # for each dimension, of the sphere that answers lie on
NO_EPS = 1e-11  # of the radius: what varies by less is rounding
FITTED_TOKENS = 8  # of each of these sizes: two show as many numbers as are fitted
EQUATIONS = 2.0  # for each weight, where all are fitted
ACCEPTED_FIT = 1e-7  # of a typical answer


@dataclass(frozen=True)
class NormedBox:
    """The box, asked about what the first norm hands on instead of about tokens."""

    oracle: Oracle
    total: Float[np.ndarray, "d d"]

    @cached_property
    def inverse(self) -> Float[np.ndarray, "d d"]:
        """The map from what stands behind the heads, less its mean and their constant, to tokens."""
        Z = mean_zero(self.oracle.dim)
        return Z @ np.linalg.pinv(Z + self.total @ Z)

    def read(self, n: Float[np.ndarray, "B d"]) -> Float[np.ndarray, "B d"]:
        """Answers at tokens that are so far along the ray of n that what heads add to them does not matter."""
        x = n @ self.inverse
        most = self.oracle.reach / float(np.linalg.norm(x, axis=1).max(initial=LEAST_DIVISOR))
        ray = min(LONGEST_RAY, most / 2)
        if ray < SHORTEST_RAY:
            raise NotConverged(
                "the network behind norms is read with tokens a million times as long as ordinary ones, which max_norm "
                "does not allow: without network=True the heads are recovered"
            )
        return np.asarray(read_single(self.oracle, ray * x))


class Remembered:
    """A box that is asked no question twice: its answers are kept by what it was asked about."""

    def __init__(self, box: NormedBox) -> None:
        self.box, self.kept = box, dict[bytes, np.ndarray]()

    def __call__(self, n: Float[np.ndarray, "B d"]) -> Float[np.ndarray, "B d"]:
        question = n.tobytes()
        if question not in self.kept:
            self.kept[question] = self.box.read(n)
        return self.kept[question]


def inputs_needed_for(width: int, dim: int) -> int:
    """How many answers determine all weights, twice over."""
    return int(EQUATIONS * (2 * width + 4)) + dim // 2


def read_post_norm(oracle: Oracle, block: Block, rng: np.random.Generator) -> tuple[PostNorm, str]:
    """What stands behind the heads of this block, and how it was come by."""
    oracle.stage = "reading the last norm"
    d = oracle.dim
    box, basis = NormedBox(oracle, np.sum([head.v for head in block.heads], axis=0)), mean_zero(d).T
    points = np.sqrt(d) * unit(rng.standard_normal((SPHERE_POINTS * d, d - 1))) @ basis
    answers = box.read(points)
    oracle.stage = "reading the network"
    last, bent = read_neurons_twice(box, points, answers, int(rng.integers(2**31)))
    more = max(0, inputs_needed_for(bent.networks[0].width, d) - len(points))
    extra = np.sqrt(d) * unit(rng.standard_normal((more, d - 1))) @ basis
    n, Y = np.concatenate([points, extra]), np.concatenate([answers, box.read(extra)])
    oracle.stage = "fitting all weights"
    closest = np.inf
    for network in bent.networks:
        model = with_sides(network, last, n, Y, box.total)
        if model is None:
            continue
        model, left = whole_fit(model, n, Y, rng)
        closest = min(closest, left)
        if left <= ACCEPTED_FIT:
            words = f"{bent.words}; all weights fitted to {left:.1e} of the answers"
            return read_post_norm_fit(box, scaled(model), rng), words
    raise TargetMismatch(
        f"{bent.networks[0].width} neurons were found behind the heads, but no activation explains the answers: "
        f"{bent.words}; the best fit is off by {closest:.1e}"
    )


def read_neurons_twice(box: NormedBox, n: np.ndarray, Y: np.ndarray, seed: int) -> tuple[LastNorm, Bent]:
    """The last norm and the neurons. Where the eps of the norm shows, answers are not quite on a sphere, and neurons
    tell, roughly, how far each is off; with that norm the same answers give the neurons once more."""
    d, last = n.shape[1], last_norm(Y)
    basis, asked = mean_zero(d).T, Remembered(box)

    def find_bends(last: LastNorm, ask: Callable[[np.ndarray], np.ndarray]) -> Bent:
        rng = np.random.default_rng(seed)
        return find_bent(lambda z: last.rays(ask(z @ basis)), d - 1, float(np.sqrt(d)), last.spread, rng)

    if last.spread <= NO_EPS:
        return last, find_bends(last, box.read)
    bent = find_bends(last, asked)
    if bent.networks[0].activation == "relu":  # kinks are where they are
        return last, bent
    last = last_norm(Y, solve_sides(bent.networks[0], last, n, Y).lengths)
    return last, find_bends(last, asked)


def reads_behind(block: Block) -> bool:
    """Whether the network is to be read in this way: LayerNorm behind the heads, tokens passed on as they are."""
    behind = any(norm == replace(norm, kind="layer", place="behind") for norm in block.norms)
    identity = block.residual_map == "assumed identity" and block.unembedding is None
    return behind and identity and block.front is None and block.rotary is None


def read_post_norm_fit(box: NormedBox, start: PostNorm, rng: np.random.Generator) -> PostNorm:
    """The model, the constant that heads add and the first eps fitted to tokens of ordinary size and shorter ones."""
    d = len(start.gains)
    Z = mean_zero(d)
    x = np.concatenate([size * rng.standard_normal((FITTED_TOKENS, d)) @ box.inverse for size in FITTED_SIZES])

    def changed(model: PostNorm, by: np.ndarray) -> PostNorm:
        return replace(model, offset=model.offset + Z @ by[:-1], norm=changed_eps(model.norm, float(by[-1])))

    return few_fit(start, d, changed, x, np.asarray(read_single(box.oracle, x)))
