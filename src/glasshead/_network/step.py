"""The first look at a box: how long are inputs at which it bends, how noisy is it, and how long should steps be.

Along a line that is short beside the bends a smooth function is a polynomial of low degree; along one that is long it
takes many. Nodes of Chebyshev tell: the share of the highest degrees in what is not linear says whether a line is
resolved. Steps of differences are as long as their two errors allow: noise over the square of the step, and what two
orders of differences disagree by.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from .._linalg import LEAST_DIVISOR, rms, unit
from .._types import Float
from .domain import HIGHEST, SECOND_COARSE, SECOND_DERIVATIVE, Domain, SphereDomain

CHEBYSHEV_NODES = 17
HIGH_DEGREES = 13  # and above
RESOLVED = 2e-4  # of all that is not linear along a line: at most this in the highest degrees
BENDS = 1e-9  # of an answer: less is no bend
LINES = 5
OFFSET = 0.3  # of a line's half length: how far from 0 it passes, so that it meets most hyperplanes that matter
RUNGS = 40  # lengths from 2^-20 to 2^20 times that to begin with
BASE = 1.0  # of a line that is just resolved: points where typical neurons are neither linear nor flat
STEP_LINES = 8
STEP_LENGTHS = 0.7 ** np.arange(0, 12)  # of the longest step tried
LONGEST_STRAIGHT = 0.3  # of the radius of inputs
LONGEST_TURN = 0.3  # radians
SMOOTH_ERROR = 1e-4  # of a typical second derivative: larger errors come from kinks or from noise


@dataclass(frozen=True)
class Steps:
    """The step of differences, the error of one answer, that of one second derivative, and a typical one."""

    step: float
    noise: float
    error: float
    typical: float

    @property
    def smooth(self) -> bool:
        """Whether differences of second order are known at all: next to kinks, and in noise, they are not."""
        return bool(self.error < SMOOTH_ERROR * self.typical)


def chebyshev(answers: Float[np.ndarray, "n nodes k"]) -> Float[np.ndarray, "n nodes"]:
    """The size of each Chebyshev coefficient along each line."""
    angle = np.pi * (np.arange(CHEBYSHEV_NODES) + 0.5) / CHEBYSHEV_NODES
    transform = 2 / CHEBYSHEV_NODES * np.cos(np.outer(np.arange(CHEBYSHEV_NODES), angle))
    return np.linalg.norm(np.einsum("cn,lnk->lck", transform, answers), axis=2)


def read_lines(domain: Domain, length: float, rng: np.random.Generator) -> tuple[bool, float]:
    """Whether lines of this half length bend at all, and the share of the highest degrees in that."""
    nodes = np.cos(np.pi * (np.arange(CHEBYSHEV_NODES) + 0.5) / CHEBYSHEV_NODES)
    p = length * unit(rng.standard_normal((LINES, domain.dim)))
    v = unit(rng.standard_normal((LINES, domain.dim)))
    X = OFFSET * p[:, None] + length * nodes[None, :, None] * v[:, None]
    size = chebyshev(domain.ask(X.reshape(-1, domain.dim)).reshape(LINES, CHEBYSHEV_NODES, -1))
    bent = size[:, 2:].max(axis=1)
    share = size[:, HIGH_DEGREES:].max(axis=1) / np.maximum(bent, LEAST_DIVISOR)
    bends = bent > BENDS * size.max(axis=1)
    return bool(bends.any()), float(np.median(share[bends])) if bends.any() else 0.0


def find_radius(domain: Domain, rng: np.random.Generator) -> Domain:
    """The domain with inputs of the length at which neurons bend, by bisection."""
    if isinstance(domain, SphereDomain):
        return domain
    low, high = 0, RUNGS + 1
    while high - low > 1:
        middle = (low + high) // 2
        bends, share = read_lines(domain, domain.radius * 2.0 ** (middle - RUNGS // 2), rng)
        low, high = (middle, high) if not bends or share <= RESOLVED else (low, middle)
    return replace(domain, radius=BASE * domain.radius * 2.0 ** (low - RUNGS // 2))


def find_steps(domain: Domain, rng: np.random.Generator) -> Steps:
    """The step at which noise and curvature of higher order together are least."""
    p = domain.base_points(STEP_LINES, 0, rng)
    v = unit(rng.standard_normal((STEP_LINES, len(domain.tangents)))) @ domain.tangents
    longest = LONGEST_TURN * domain.radius if isinstance(domain, SphereDomain) else LONGEST_STRAIGHT * domain.radius
    found, noise = [], np.inf
    for step in (longest * STEP_LENGTHS).tolist():
        answers = domain.read_stencils(p, v, step)
        fine, coarse = (np.einsum("s,nsk->nk", w, answers) / step**2 for w in (SECOND_DERIVATIVE, SECOND_COARSE))
        rounding = 2.0**-53 * np.sqrt(np.mean(answers**2))
        noise = min(noise, max(rounding, rms(np.einsum("s,nsk->nk", HIGHEST, answers))))
        typical = rms(fine)
        apart = float(np.sqrt(np.mean((fine - coarse) ** 2, axis=1)).max())
        found.append((step, typical, apart))
    scored = []
    for step, typical, apart in found:
        curved = typical * (apart / typical) ** (8 / 6) if 0 < apart < typical else apart
        scored.append((curved + noise * float(np.linalg.norm(SECOND_DERIVATIVE)) / step**2, step, typical))
    error, step, typical = min(scored)
    return Steps(step, noise, error, typical)
