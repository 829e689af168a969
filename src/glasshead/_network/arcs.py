"""Kinks of a ReLU network along a great circle, all of them.

Between two kinks every output is `a + b cos + c sin` of the angle: five places on an arc tell whether it is one such
piece. Arcs that are not are halved, until each of them lies between two that are. The difference of the pieces on its
two sides is then that of one neuron, the same numbers in all outputs but for a factor each, and its zero is the kink;
where it is not, the arc holds more than one, and is halved again.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._errors import NotConverged
from .._linalg import rms
from .._types import Float
from .domain import HIGHEST, SphereDomain

FIRST_ARCS = 32
ARC_PLACES = np.arange(5) / 4  # of an arc
BETWEEN = np.array([1, 3, 5, 7]) / 8
ERRORS = 20.0  # times the noise, and what a fit makes of it: more is no noise
NARROWEST_ARC = 1e-9  # radians: on a shorter one five answers say nothing of a slope, but for their rounding
BEYOND_END = 1e-9  # of half an arc: a kink at its very end may be rounded to there
MOST_ARCS = 64  # that hold kinks at one time, for each dimension: a network of 8 neurons for each has 16 of them
NOISE_LINES, NOISE_ARC = 24, 1e-8  # radians: hardly ever is a kink on one, or a bend that shows


@dataclass(frozen=True)
class Kinks:
    """Where a circle crosses kinks: the points, its directions there, how slopes along it (for each unit of length)
    change, and how far the next kink is, in radians."""

    points: Float[np.ndarray, "n d"]
    along: Float[np.ndarray, "n d"]
    jumps: Float[np.ndarray, "n k"]
    gaps: Float[np.ndarray, " n"]

    def __add__(self, other: Kinks) -> Kinks:
        names = "points", "along", "jumps", "gaps"
        return Kinks(*(np.concatenate([getattr(self, name), getattr(other, name)]) for name in names))


@dataclass
class SampledArc:
    """Answers at five places of an arc; `piece` if it is known whether it holds kinks."""

    start: float
    width: float
    values: Float[np.ndarray, "5 k"]
    piece: bool = False

    @property
    def places(self) -> Float[np.ndarray, " 5"]:
        return self.start + self.width * ARC_PLACES

    def waves(self, angles: np.ndarray) -> Float[np.ndarray, "n 3"]:
        """What a piece is a combination of, in the scale of this arc."""
        t, half = angles - self.start - self.width / 2, self.width / 2
        return np.stack([np.ones_like(t), np.sin(t) / half, 2 * np.sin(t / 2) ** 2 / half**2], axis=1)

    def continued(self, angles: np.ndarray) -> tuple[Float[np.ndarray, "n k"], float]:
        """The piece at other angles, and how many times larger its errors are there than those of answers."""
        weights = self.waves(angles) @ np.linalg.pinv(self.waves(self.places))
        return weights @ self.values, float(np.linalg.norm(weights, axis=1).max())


def read_sphere_noise(domain: SphereDomain, rng: np.random.Generator) -> float:
    """The noise of one number of an answer, from lines so short that few of them meet a kink."""
    p = domain.inputs(NOISE_LINES, rng)
    v = domain.inputs(NOISE_LINES, rng)
    v = v - np.einsum("nd,nd->n", v, p)[:, None] * p / domain.radius**2
    answers = domain.read_stencils(p, v / np.linalg.norm(v, axis=1, keepdims=True), NOISE_ARC * domain.radius)
    noise = np.sqrt(np.mean(np.einsum("s,nsk->nk", HIGHEST, answers) ** 2, axis=1))
    return max(float(np.median(noise)), 2.0**-53 * rms(answers))


def find_kinks(
    domain: SphereDomain, noise: float, rng: np.random.Generator, through: np.ndarray | None = None
) -> Kinks:
    """All kinks along a random great circle, or one through a given point."""
    plane = rng.standard_normal((domain.dim, 2))
    if through is not None:
        plane[:, 0] = through
    u, v = np.linalg.qr(plane)[0].T

    def points(angles: np.ndarray) -> np.ndarray:
        return domain.radius * (np.cos(angles)[:, None] * u + np.sin(angles)[:, None] * v)

    width = 2 * np.pi / FIRST_ARCS
    around = domain.ask(points(width / 4 * np.arange(4 * FIRST_ARCS)))
    around = np.concatenate([around, around[:1]])
    arcs = [checked(SampledArc(width * i, width, around[4 * i : 4 * i + 5]), noise) for i in range(FIRST_ARCS)]
    found: dict[float, tuple[float, np.ndarray]] = {}  # by the start of the arc
    while True:
        open_arcs = [i for i, arc in enumerate(arcs) if not arc.piece and arc.start not in found]
        halved = []
        for i in open_arcs:
            kink = crossed(arcs, i, noise)
            if kink is None:
                halved.append(i)
            else:
                found[arcs[i].start] = kink
        if not halved:
            break
        narrowest = min(arcs[i].width for i in halved)
        if len(halved) > MOST_ARCS * domain.dim or narrowest < NARROWEST_ARC:
            raise NotConverged(
                f"along a great circle {len(halved)} arcs, down to {narrowest:.1e} radians, are neither single pieces "
                "nor two with a kink between them: this is no two-layer ReLU network, or kinks lie too densely"
            )
        places = np.array([arcs[i].start + arcs[i].width * BETWEEN for i in halved])
        fresh = domain.ask(points(places.ravel())).reshape(*places.shape, -1)
        arcs = with_halves(arcs, dict(zip(halved, fresh, strict=True)), noise)
    angles = np.array([angle for angle, _ in found.values()])
    jumps = np.array([jump for _, jump in found.values()]).reshape(len(angles), around.shape[1])
    order = np.argsort(angles)
    angles, jumps = angles[order], jumps[order]
    steps = np.diff(np.append(angles, angles[:1] + 2 * np.pi))
    along = -np.sin(angles)[:, None] * u + np.cos(angles)[:, None] * v
    return Kinks(points(angles), along, jumps / domain.radius, np.minimum(steps, np.roll(steps, 1)))


def checked(arc: SampledArc, noise: float) -> SampledArc:
    off = arc.values - arc.continued(arc.places)[0]
    arc.piece = bool(np.linalg.norm(off) <= ERRORS * noise * np.sqrt(off.size))
    return arc


def with_halves(arcs: list[SampledArc], fresh: dict[int, np.ndarray], noise: float) -> list[SampledArc]:
    made = []
    for i, arc in enumerate(arcs):
        if i not in fresh:
            made.append(arc)
            continue
        both, half = np.empty((9, arc.values.shape[1])), arc.width / 2
        both[::2], both[1::2] = arc.values, fresh[i]
        made += [
            checked(SampledArc(arc.start + half * side, half, both[4 * side : 4 * side + 5]), noise) for side in (0, 1)
        ]
    return made


def crossed(arcs: list[SampledArc], i: int, noise: float) -> tuple[float, np.ndarray] | None:
    """The angle of the one kink in arc i, and how slopes change there, if the arcs beside it are pieces and it holds
    no more than one."""
    arc, before, behind = arcs[i], arcs[i - 1], arcs[(i + 1) % len(arcs)]
    if not (before.piece and behind.piece):
        return None
    turn = 2 * np.pi
    left, more = before.continued(arc.places + turn * (i == 0))
    right, most = behind.continued(arc.places - turn * (i == len(arcs) - 1))
    allowed = ERRORS * noise * max(more, most) * np.sqrt(left.size)
    _, s, Vt = np.linalg.svd(right - left, full_matrices=False)
    if s[0] <= allowed or (len(s) > 1 and s[1] > allowed):
        return None
    waves = np.linalg.pinv(arc.waves(arc.places)) @ (right - left) @ Vt[0]
    roots = np.roots([waves[2] / 2, waves[1], waves[0]])  # to begin with: arcs are short
    roots = roots[np.isreal(roots) & (np.abs(roots) <= 1 + BEYOND_END)].real
    if len(roots) != 1:
        return None
    middle, half = arc.start + arc.width / 2, arc.width / 2
    angle = middle + half * float(roots[0])
    for _ in range(4):
        t = angle - middle
        slope = waves[1] * np.cos(t) / half + waves[2] * np.sin(t) / half**2
        angle -= float(arc.waves(np.array([angle]))[0] @ waves) / slope
    expected = np.where((arc.places < angle)[:, None], left, right)
    if np.linalg.norm(arc.values - expected) > allowed:
        return None
    t = angle - middle
    return angle, (waves[1] * np.cos(t) / half + waves[2] * np.sin(t) / half**2) * Vt[0]
