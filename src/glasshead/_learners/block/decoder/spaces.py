"""How many heads there are behind a norm, and roughly which outputs are each head's own.

Around a token q that all others equal, a key moves the answer by `sum_h a_h x P_h`, x being how far it is from q. With
another token t in the sequence heads weigh the same key differently: then it is `sum_h b_h x P_h`, and one stray
direction for each head, since the key draws weight from t. In the outputs that only head h reaches the two slopes are
proportional: b_h / a_h is an eigenvalue of the pencil, as often as the head has outputs, but for strays.

Where heads share their values the sum of value maps has fewer inputs than outputs, and slopes along inputs do not tell
the sharers apart. But then there are mute directions, along which no key has a value: beside a key z, a token that
leaves q along a mute x only draws weight from z, by `x.k_h`. Two such x make a pencil with one row for each z.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ...._errors import NotConverged
from ...._linalg import svd
from ...._oracles import LongToken
from ..spaces import SECOND_ORDER, SIXTH_ORDER, Bunches, bunches

SHORTEST_ARC, LONGEST_ARC = 1e-4, 0.3  # radians, of differences
FEW_DIGITS = 1e-9  # error of answers
FINE_STEP = 0.4  # of the sixth order, over its best step for functions that change by themselves over one radian
SAME_RANK = 10.0  # errors of a slope: singular values below that, of the largest, are none
LARGEST_MISS = 0.01  # where errors are so large that this is less than they say
MUTE_KEYS = 1.1  # keys beside mute directions, over outputs
PENCIL_TURNS = 16  # of a pencil: no query each
MOST_HIDDEN = 1  # dimensions of each head's outputs, beyond what slopes along the sphere do not reach


@dataclass(frozen=True)
class Look:
    """Some of the `rank` outputs that only one head reaches, as columns, and what it reads of tokens there `(p, ..)`,
    up to a factor and to the part along q."""

    outputs: np.ndarray
    reads: np.ndarray
    rank: int


@dataclass(frozen=True)
class Differences:
    """The arc of a step, in radians, and which multiples of it count how much."""

    arc: float
    stencil: tuple[tuple[int, float], ...]


def differences_of(view: LongToken, fine: bool = False) -> Differences:
    """Differences of the second order; of the sixth where answers have so few digits that steps have to be long, or
    where heads have to show by `fine` differences, as those of trained weights."""
    few = view.error > FEW_DIGITS
    stencil = SIXTH_ORDER if few or fine else SECOND_ORDER
    best = view.error ** (1 / (2 * len(stencil) + 1)) * (FINE_STEP if fine and not few else 1.0)
    return Differences(float(np.clip(best, SHORTEST_ARC, LONGEST_ARC)), stencil)


def read_arc_slope(
    by: Differences, ask: Callable[[np.ndarray], np.ndarray], q: np.ndarray, directions: np.ndarray
) -> np.ndarray:
    """The derivative of `ask(keys)` at q along each direction of the sphere, by central differences."""
    radius = float(np.linalg.norm(q))
    total = np.zeros(())
    for times, weight in by.stencil:
        angle = times * by.arc
        there, back = (np.cos(angle) * q + side * np.sin(angle) * radius * directions for side in (1.0, -1.0))
        total = total + weight * (ask(there) - ask(back)) / (2 * angle * radius)
    return np.asarray(total)


def read_looks(
    view: LongToken, outputs: np.ndarray, q: np.ndarray, rng: np.random.Generator, fine: bool = False
) -> list[list[Look]]:
    """Ways to tell heads apart: in each, every head's own outputs, in coordinates of `outputs (s, o)`, an orthonormal
    basis of those that heads reach. `fine` differences take three times as many queries."""
    by = differences_of(view, fine)
    tangents, t = view.sphere.tangents(q), view.sphere.random((), rng)

    def ask_between(other: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        return lambda x: view(np.stack([np.broadcast_to(other, x.shape), x], axis=1), q) @ outputs

    even = read_arc_slope(by, ask_between(q), q, tangents)
    left, s, _ = svd(even, full=True)
    rank = int(np.sum(s > min(SAME_RANK * view.error / by.arc, LARGEST_MISS) * s[0]))
    lost = int(np.any(view.unseen(q[None])))
    shared = rank + lost < min(even.shape[1], len(tangents))
    if shared and rank + 2 > len(tangents):
        raise NotConverged("no heads show apart")
    if shared:
        mute = left[:, rank:].T @ tangents
        matrices = well_turned(*read_mute_pencil(view, by, outputs, q, mute, rng))
        ways = bunches(pencil_values(*matrices, rng), lost, lost, stray=0)
    else:
        matrices = read_arc_slope(by, ask_between(t), q, tangents), even
        lost += max(0, even.shape[1] - len(tangents))
        ways = bunches(pencil_values(*matrices, rng), lost, lost + MOST_HIDDEN)
    if not ways:
        raise NotConverged("no heads show apart")
    return [looks(*matrices, even, tangents, way) for way in ways]


def read_mute_pencil(
    view: LongToken, by: Differences, outputs: np.ndarray, q: np.ndarray, mute: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """How fast weight is drawn from each of many keys z, along two of the mute directions."""
    z = view.sphere.random((int(MUTE_KEYS * outputs.shape[1]),), rng)
    two = np.linalg.qr(rng.standard_normal((len(mute), 2)))[0].T @ mute

    def read_along(x: np.ndarray) -> np.ndarray:
        def ask(token: np.ndarray) -> np.ndarray:
            return view(np.stack([z, np.broadcast_to(token, z.shape)], axis=1), q) @ outputs

        return read_arc_slope(by, ask, q, x)

    return read_along(two[0]), read_along(two[1])


def well_turned(A: np.ndarray, B: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The pencil of A and B along two other directions of its plane, the second of which shows all outputs best: a head
    whose keys hardly see it would have an eigenvalue that is large, and blurred."""
    angles = np.pi * np.arange(PENCIL_TURNS) / PENCIL_TURNS
    turned = [(np.cos(t) * A + np.sin(t) * B, np.cos(t) * B - np.sin(t) * A) for t in angles]
    return max(turned, key=lambda pair: float(np.linalg.svd(pair[1], compute_uv=False)[-1]))


def pencil_values(A: np.ndarray, B: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Every mu with `A N = mu B N`; with fewer rows than columns, for N in a random space of as many dimensions."""
    if len(A) < A.shape[1]:
        mixed = np.linalg.qr(rng.standard_normal((A.shape[1], len(A))))[0]
        A, B = A @ mixed, B @ mixed
    return np.linalg.eigvals(np.linalg.lstsq(B, A, rcond=None)[0])


def looks(A: np.ndarray, B: np.ndarray, even: np.ndarray, tangents: np.ndarray, way: Bunches) -> list[Look]:
    wide = max(0, A.shape[1] - len(A))
    found = []
    for value, size in zip(way.values, way.sizes, strict=True):
        N = svd(A - value * B, full=True)[2][-(size + wide) :].T
        found.append(Look(N, tangents.T @ (even @ N), size + wide + way.stray))
    return found
