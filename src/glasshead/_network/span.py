"""The span of second derivatives, and how many neurons it has room for.

At a point p the second derivatives of output o along a space V are `sum_j C_j u_j u_j^T`, with `u_j` the part of the
weights of neuron j in V, whatever the point and the output: all of them together span as many dimensions as there are
neurons, as long as that is well below the `D (D+1) / 2` dimensions of symmetric matrices. (Gated neurons take two
dimensions each.) V and the points grow until the singular values show a gap; nothing that was asked is asked again.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from .._errors import NotConverged
from .._linalg import svd
from .._types import Float
from .domain import Domain
from .step import Steps

FILLING = 0.6  # of the symmetric matrices: beyond that members of low rank may be there by chance
ROUNDED_SQUARE = 1e-12  # of a length squared: sums over all members of the span are rounded by less
ROUNDING = 1e-13  # of the largest singular value: what is smaller is nothing
ERROR_FACTOR = 100.0  # times the expected size of errors: what stands above is no error
GAP = 30.0  # between the last singular value of the span and the first of errors,
SURE_GAP = 1e4  # or, where these are larger than expected, a gap that nothing else makes
FEWEST_POINTS = 10
ROWS_FILLED = 0.85  # of what was measured: beyond that more points may show more
ENOUGH_ROWS = 1.2  # times the dimensions of symmetric matrices: more points show nothing new
FIRST_DIMENSIONS = 3  # dimensions of V to begin with
SPAN_GROWTH = 1.15
MOST_NEURONS = 8  # for each dimension of inputs: more are not looked for


def symmetric_size(D: int) -> int:
    return D * (D + 1) // 2


def most_members(D: int) -> int:
    """The largest space of symmetric matrices that need not hold any of rank one but its own: matrices of rank one have
    D dimensions, and meet every larger space."""
    return symmetric_size(D) - D


def to_vectors(X: Float[np.ndarray, "n D"], Y: np.ndarray | None = None) -> Float[np.ndarray, "n S"]:
    """`x x^T`, or `x y^T + y x^T`, in orthonormal coordinates of symmetric matrices: the diagonal, then `sqrt(2)` times
    the upper triangle."""
    i, j = np.triu_indices(X.shape[1], 1)
    if Y is None:
        return np.concatenate([X * X, np.sqrt(2) * X[:, i] * X[:, j]], axis=1)
    return np.concatenate([2 * X * Y, np.sqrt(2) * (X[:, i] * Y[:, j] + X[:, j] * Y[:, i])], axis=1)


def to_matrices(S: Float[np.ndarray, "n S"], D: int) -> Float[np.ndarray, "n D D"]:
    i, j = np.triu_indices(D, 1)
    M = np.zeros((len(S), D, D))
    M[:, range(D), range(D)] = S[:, :D]
    M[:, i, j] = M[:, j, i] = S[:, D:] / np.sqrt(2)
    return M


def from_matrices(M: Float[np.ndarray, "n D D"]) -> Float[np.ndarray, "n S"]:
    i, j = np.triu_indices(M.shape[1], 1)
    return np.concatenate([np.diagonal(M, axis1=1, axis2=2), np.sqrt(2) * M[:, i, j]], axis=1)


@dataclass(frozen=True)
class Curvature:
    """Second derivatives at some base points along the first D tangents of the domain."""

    domain: Domain
    steps: Steps
    points: Float[np.ndarray, "P d"]
    centre: Float[np.ndarray, "P k"]
    H: Float[np.ndarray, "P k D D"] = field(repr=False)
    slopes: Float[np.ndarray, "P k D"] = field(repr=False)

    @property
    def D(self) -> int:
        return self.H.shape[-1]

    @property
    def V(self) -> Float[np.ndarray, "D d"]:
        return self.domain.tangents[: self.D]

    @property
    def rows(self) -> Float[np.ndarray, "n S"]:
        """A row for each point and output; where multiples of the identity are added, without them; where answers are
        known up to their lengths, outputs in which these show are left out."""
        i, j = np.triu_indices(self.D, 1)
        H = (without_lengths(self) if self.domain.rays else self.H).reshape(-1, self.D, self.D)
        diagonal = np.diagonal(H, axis1=1, axis2=2)
        if self.domain.radial:
            diagonal = diagonal - diagonal.mean(axis=1, keepdims=True)
        return np.concatenate([diagonal, np.sqrt(2) * H[:, i, j]], axis=1)

    def rows_for(self, points: int) -> int:
        """How many rows there are for so many points."""
        return points * (self.centre.shape[1] - (1 + self.D if self.domain.rays else 0))

    def read_larger(self, D: int) -> Curvature:
        """The curvature with all second derivatives along the first D tangents, for which it asks."""
        H, slopes = read_block(self.domain, self.steps, self.points, self.centre, self.H, D)
        return replace(self, H=H, slopes=np.concatenate([self.slopes, slopes], axis=2))

    def read_more(self, n: int, rng: np.random.Generator) -> Curvature:
        """The curvature with n more base points, at which it asks."""
        p = self.domain.base_points(n, len(self.points), rng)
        centre = self.domain.ask(p)
        H, slopes = read_block(self.domain, self.steps, p, centre, np.zeros((n, centre.shape[1], 0, 0)), self.D)
        pairs = (self.points, p), (self.centre, centre), (self.H, H), (self.slopes, slopes)
        return Curvature(self.domain, self.steps, *(np.concatenate(pair) for pair in pairs))


def without_lengths(curvature: Curvature) -> Float[np.ndarray, "P n D D"]:
    """Second derivatives of answers `y / |y|`, in outputs orthogonal to the answer and to its slopes along V: there
    they are those of y over its length, which varies with the point alone."""
    seen = np.concatenate([curvature.centre[:, :, None], curvature.slopes], axis=2)
    left = np.linalg.svd(seen, full_matrices=True)[0][:, :, curvature.D + 1 :]
    return np.einsum("pkn,pkij->pnij", left, curvature.H)


@dataclass(frozen=True)
class Span:
    """What second derivatives span: `basis` has orthonormal rows, one of them the identity where that is added
    everywhere; `size` is the number of the others, `gap` how far above errors the weakest of them stands."""

    curvature: Curvature
    size: int
    gap: float
    basis: Float[np.ndarray, "n S"]

    @property
    def filling(self) -> float:
        return len(self.basis) / self.basis.shape[1]

    @property
    def tolerance(self) -> float:
        """How far outside the span a member of it may seem to be, as a share of its length squared."""
        return max(ROUNDED_SQUARE, (3 / self.gap) ** 2)


def identity_row(D: int) -> Float[np.ndarray, "1 S"]:
    return np.concatenate([np.ones(D), np.zeros(symmetric_size(D) - D)])[None] / np.sqrt(D)


def span_of(curvature: Curvature) -> Span | None:
    """The span, if singular values have a gap at all; the errors below it must be those of differences."""
    rows = curvature.rows
    s, right = svd(rows)[1:]
    floor = curvature.steps.error * (np.sqrt(len(rows)) + np.sqrt(rows.shape[1]))
    usable = len(s) - 1 - int(curvature.domain.radial and rows.shape[1] <= len(rows))
    if usable < 1 or s[0] <= floor:
        return None
    seen = np.maximum(s, max(floor, ROUNDING * s[0]))
    ratios = seen[:usable] / seen[1 : usable + 1]
    size = int(ratios.argmax()) + 1
    if ratios.max() < (GAP if s[size] <= ERROR_FACTOR * floor else SURE_GAP):
        return None
    extra = [identity_row(curvature.D)] if curvature.domain.radial else []
    return Span(curvature, size, float(ratios.max()), np.concatenate([right[:size], *extra]))


def find_span(domain: Domain, steps: Steps, widest: int | None, rng: np.random.Generator) -> Span:
    """Grow V and the set of points until the span of second derivatives is seen whole and leaves room around it."""
    most = 2 * (MOST_NEURONS * domain.dim if widest is None else widest) + 1
    p = domain.base_points(FEWEST_POINTS, 0, rng)
    centre = domain.ask(p)
    largest = min(len(domain.tangents), centre.shape[1] - 3) if domain.rays else len(domain.tangents)
    empty = Curvature(domain, steps, p, centre, np.zeros((*centre.shape, 0, 0)), np.zeros((*centre.shape, 0)))
    curvature = empty.read_larger(min(FIRST_DIMENSIONS, largest))
    while True:
        span, all_of_them = span_of(curvature), symmetric_size(curvature.D)
        rows = curvature.rows_for(len(curvature.points))
        seen_whole = span is not None and (span.size <= ROWS_FILLED * rows or rows >= ENOUGH_ROWS * all_of_them)
        unfilled = span is not None and span.filling <= FILLING and len(span.basis) <= most_members(curvature.D)
        if span is not None and seen_whole and unfilled:
            return span
        if rows < ENOUGH_ROWS * all_of_them and not seen_whole:
            wanted = int(np.ceil(min(1.3 * rows, ENOUGH_ROWS * all_of_them) / curvature.rows_for(1)))
            curvature = curvature.read_more(max(1, wanted - len(curvature.points)), rng)
        elif largest > curvature.D and FILLING * all_of_them <= most:
            curvature = curvature.read_larger(min(largest, max(curvature.D + 1, int(SPAN_GROWTH * curvature.D))))
        elif span is not None and seen_whole and len(span.basis) <= most_members(curvature.D):
            return span
        else:
            raise no_gap(curvature, span)


def no_gap(curvature: Curvature, span: Span | None) -> NotConverged:
    D, k = curvature.D, curvature.centre.shape[1]
    fill = "fill" if span is None else f"have {span.size} dimensions, which is too near to"
    return NotConverged(
        f"second derivatives at {len(curvature.points)} points along {D} directions, {k} outputs each, {fill} the "
        f"{symmetric_size(D)} dimensions of symmetric matrices: no two-layer network of fewer than "
        f"{most_members(D)} neurons (or half as many gated ones) answers like this; the box is "
        "deeper, of another kind, wider, or its answers are too noisy",
        known={"noise": curvature.steps.noise},
    )


def read_block(
    domain: Domain, steps: Steps, p, centre, known: np.ndarray, D: int
) -> tuple[Float[np.ndarray, "P k D D"], Float[np.ndarray, "P k n"]]:
    """`known` second derivatives along the first tangents, and the missing ones along the first D: 8 queries each; with
    the slopes along the new ones of these."""
    P, k, old = len(p), centre.shape[1], known.shape[-1]
    V = domain.tangents[:D]
    H = np.zeros((P, k, D, D))
    H[:, :, :old, :old] = known
    fresh = np.arange(old, D)
    slopes, H[:, :, fresh, fresh] = read_all(domain, steps, p, V[old:], centre)
    i, j = np.triu_indices(D, 1)
    i, j = i[j >= old], j[j >= old]
    mixed = read_all(domain, steps, p, (V[i] + V[j]) / np.sqrt(2), centre)[1]
    mixed -= (H[:, :, i, i] + H[:, :, j, j]) / 2
    H[:, :, i, j] = H[:, :, j, i] = mixed
    return H, slopes


def read_all(domain: Domain, steps: Steps, p, v, centre) -> list[Float[np.ndarray, "P k n"]]:
    """First and second derivatives at every point along every direction."""
    P, n = len(p), len(v)
    at, along, there = np.repeat(p, n, axis=0), np.tile(v, (P, 1)), np.repeat(centre, n, axis=0)
    found = domain.read_derivatives(at, along, there, steps.step)
    return [x.reshape(P, n, centre.shape[1]).transpose(0, 2, 1) for x in found]
