"""ReLU neurons of answers that are known up to their lengths, from kinks along great circles.

Where a circle crosses the hyperplane of a neuron, slopes of `m = y / |y|` jump as those of y do, but for the part along
m. Sidewards they jump too, in proportion to the neuron's weights along the sphere: these and the point leave one number
of its hyperplane open, a second kink of the same neuron closes it, and kinks of different neurons have no hyperplane in
common. With all hyperplanes known, lengths follow: they make the answers combinations of the neurons.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.linalg

from .._errors import NotConverged
from .._linalg import unit
from .._models import TwoLayer
from .._types import Float
from .arcs import Kinks, find_kinks
from .creases import read_normals
from .domain import SphereDomain
from .rank_one import distinct

SMOOTH_PIECE = 1e-9  # of an answer: how far pieces may be from waves, which they are only nearly
# Radians, and places on each side of a kink, which show where it is.
BESIDE_KINK, PLACES_NEAR = 1e-4, np.array([1.0, 2.0, 3.0])
LONELY = 10.0  # times that: kinks with another one nearer than that are left out
BESIDE_RAY = 1e-6  # radians from a kink, where slopes sidewards are read
COMMON = 1e-3  # sine of the angle between two planes: less, and they have a line in common
ON_IT = 2e-4  # of the radius: how far from a known hyperplane, with its errors, a kink on it may be
NOTHING = 1e-3  # of typical output weights: a hyperplane on which two kinks lay by chance has none
MEET = 1e-5  # of a jump: how far apart two pieces may be where they meet: more, and there is another kink
CIRCLES_FEWEST, CIRCLES_MOST = 3, 16
INPUTS_PER_FEATURE = 1.6
LONELY_LENGTHS = 1e-3  # of the second smallest eigenvalue: the smallest must be less, for lengths to be determined


def find_creased(domain: SphereDomain, rng: np.random.Generator) -> tuple[TwoLayer, str]:
    """All neurons, each or its mirror image, with output weights in units of the mean length; and how many kinks."""
    planes, points = np.zeros((0, domain.dim, 2)), np.zeros((0, domain.dim))  # of kinks that belong to no neuron yet
    rows, seen = np.zeros((0, domain.dim + 1)), 0
    for circle in range(CIRCLES_MOST):
        through = points[circle % len(points)] if circle >= CIRCLES_FEWEST and len(points) else None
        kinks = read_exactly(domain, find_kinks(domain, SMOOTH_PIECE, rng, through))
        seen += len(kinks.points)
        new = kinks_at(kinks, ~on_some(domain, rows, kinks.points))
        if circle >= CIRCLES_FEWEST and len(new.points) == 0 and len(points) == 0:
            break
        if len(new.points):
            normals = read_normals(domain, new, list(range(len(new.points))), BESIDE_RAY)
            fresh = np.stack([unit(normals), new.points / domain.radius], axis=2)
            planes, points = np.concatenate([planes, fresh]), np.concatenate([points, new.points])
        rows = distinct_rows(np.concatenate([rows, *shared_hyperplanes(planes, points)]), domain.radius)
        left = ~on_some(domain, rows, points)
        planes, points = planes[left], points[left]
    else:
        raise NotConverged(
            f"{CIRCLES_MOST} great circles show {seen} kinks of {len(rows)} hyperplanes, and still new ones: this is "
            "no two-layer ReLU network, or some of its kinks lie too densely"
        )
    if len(rows) == 0:
        raise NotConverged("no kinks show along great circles: nor is it a ReLU network")
    W2 = read_output_weights(domain, rows, rng)
    size = np.linalg.norm(W2, axis=0)
    real = size > NOTHING * np.median(size)
    rows, W2 = rows[real], W2[:, real]
    model = TwoLayer(rows[:, :-1], rows[:, -1], W2, None, activation="relu")
    return model, f"{seen} kinks along {circle + 1} great circles belong to {len(rows)} neurons"


def kinks_at(kinks: Kinks, which: np.ndarray) -> Kinks:
    return Kinks(*(getattr(kinks, name)[which] for name in ("points", "along", "jumps", "gaps")))


def on_some(domain: SphereDomain, rows: Float[np.ndarray, "m e"], points: Float[np.ndarray, "n d"]) -> np.ndarray:
    """Whether each point is on a known hyperplane."""
    if len(rows) == 0:
        return np.zeros(len(points), dtype=bool)
    off = np.abs(points @ rows[:, :-1].T + rows[:, -1])
    return off.min(axis=1) <= ON_IT * domain.radius


def read_exactly(domain: SphereDomain, kinks: Kinks) -> Kinks:
    """Where pieces on both sides of each kink, continued, meet; without those that have another one near them."""
    kinks = kinks_at(kinks, kinks.gaps > LONELY * BESIDE_KINK)
    if len(kinks.points) == 0:
        return kinks
    places = BESIDE_KINK * np.concatenate([-PLACES_NEAR[::-1], PLACES_NEAR])
    X = domain.along(kinks.points[:, None], kinks.along[:, None], domain.radius * places[None, :, None])
    answers = domain.ask(X.reshape(-1, domain.dim)).reshape(len(kinks.points), len(places), -1)
    powers = np.vander(places / BESIDE_KINK, 3, increasing=True)
    left, right = (np.linalg.solve(powers[side], answers[:, side]) for side in (slice(0, 3), slice(3, 6)))
    apart = right - left  # (n, 3, k): the difference of both pieces, by powers of the place
    jump = unit(apart[:, 1])
    value, slope = (np.einsum("nk,nk->n", apart[:, power], jump) for power in (0, 1))
    shift = -value / slope
    missed = np.linalg.norm(apart[:, 0] + shift[:, None] * apart[:, 1], axis=1)
    kept = (np.abs(shift) < 1.0) & (missed <= MEET * np.linalg.norm(apart[:, 1], axis=1))
    angle = (BESIDE_KINK * shift)[:, None]
    moved = domain.along(kinks.points, kinks.along, domain.radius * angle)
    along = np.cos(angle) * kinks.along - np.sin(angle) * kinks.points / domain.radius
    jumps = apart[:, 1] / (BESIDE_KINK * domain.radius)
    return kinks_at(replace(kinks, points=moved, along=along, jumps=jumps), kept)


def shared_hyperplanes(planes: Float[np.ndarray, "n d 2"], points: Float[np.ndarray, "n d"]) -> list[np.ndarray]:
    """Rows `(w, b)` of hyperplanes on which two or more kinks lie: w is in the plane of the normal and the point of
    each of them."""
    found, free = [], np.ones(len(points), dtype=bool)
    for i in range(len(points)):
        if not free[i]:
            continue
        cosines = np.linalg.svd(np.einsum("da,ndb->nab", planes[i], planes), compute_uv=False)[:, 0]
        mates = np.flatnonzero(free & (np.sqrt(np.maximum(0, 1 - np.minimum(cosines, 1) ** 2)) < COMMON))
        if len(mates) < 2:
            continue
        outside = len(mates) * np.eye(points.shape[1]) - np.einsum("nda,nea->de", planes[mates], planes[mates])
        apart = unit(points[mates[1:]] - points[mates[0]])  # along the hyperplane
        w = np.linalg.eigh(outside + apart.T @ apart)[1][:, 0]
        free[mates] = False
        found.append(np.append(w, -np.mean(points[mates] @ w))[None])
    return found


def distinct_rows(rows: Float[np.ndarray, "m e"], radius: float) -> Float[np.ndarray, "n e"]:
    """Every hyperplane once."""
    scaled = unit(rows * np.append(np.ones(rows.shape[1] - 1), 1 / radius))
    return rows[distinct(scaled[:0], scaled)]


def read_output_weights(domain: SphereDomain, rows: Float[np.ndarray, "m e"], rng: np.random.Generator) -> np.ndarray:
    """The output weights of neurons on these hyperplanes. Answers times their lengths are combinations of the neurons
    and of something linear: the lengths are the one null vector of what is not."""
    features = len(rows) + domain.dim + 1
    X = domain.inputs(int(INPUTS_PER_FEATURE * features) + 8, rng)
    M, ones = domain.ask(X), np.ones((len(X), 1))
    F = np.concatenate([np.maximum(X @ rows[:, :-1].T + rows[:, -1], 0), X, ones], axis=1)
    Q = np.linalg.qr(F)[0]
    values, vectors = scipy.linalg.eigh((np.eye(len(X)) - Q @ Q.T) * (M @ M.T), subset_by_index=[0, 1])
    lengths = vectors[:, 0] * np.sign(np.median(vectors[:, 0]))
    if not (values[0] <= LONELY_LENGTHS * values[1] and (lengths > 0).all()):
        raise NotConverged(
            f"no lengths of answers make them combinations of the {len(rows)} neurons that kinks show: there are others"
        )
    lengths = lengths / np.exp(np.mean(np.log(lengths)))
    return np.linalg.lstsq(F, lengths[:, None] * M, rcond=None)[0][: len(rows)].T
