"""Does the box normalise its tokens before the head, and with which eps?

A normalisation forgets a token's length, all but a trace of it: tokens of about `sqrt(eps d)` are shortened by a factor
that shows eps. Along a ray from zero, where all tokens and the last one lie, sequences that are answered alike are
facts about eps and one score. Two facts on the same ray have the same score only for the true eps.
"""

from __future__ import annotations

import numpy as np

from ..._errors import NotIdentifiable
from ..._learned import LearnedFront
from ..._linalg import unit
from ..._meters import Copies, floor, read_references, slope_step
from ..._models import Norm
from ..._oracles import DOUBLE, Normalised, Oracle

FORGETS = 0.01  # of what other tokens change: how much the same ones, twice as long, may
NORM_SIZES = (0.5, 2.0, 1.0)  # rms entries of the tokens this is tried at
SHIFTED, SHIFTED_ROUNDINGS = 1e-6, 2.0**12  # of the same: how much a shift of all entries may change, or roundings
EXPONENTS = range(-40, 11, 2)  # of two: lengths at which the forgetting begins
EPS_RAYS, MORE_RAYS = 6, 12  # rays that are asked about, in float64 and with fewer digits
PROBE_SHARES = np.array([0.5, 1.0, -0.7])  # of the longest probe, along the ray of the last token
PROBE_LENGTHS = (0.5, 0.2, 0.08, 0.03, 0.01)  # of the last token: shorter ones where scores are too large
QUERY_LENGTH = 0.5  # length of the last token, over the radius of the ball of normalised tokens
EPS_GRID = np.exp(np.linspace(-6, 6, 241))  # around the first guess of eps
EPS_STEPS = 30
EPS_DIFFERENCE = 1e-5  # half of a central difference over log eps: right to 1e-10, and a Newton step needs two digits
# A token of rms entry s that is made twice as long changes by 3 eps / (8 s^2) once it is normalised: by 0.0075, less
# than FORGETS, for this eps. A larger one would not let the box forget lengths there.
LARGEST_EPS = 0.02 * min(NORM_SIZES) ** 2
LARGEST_ERROR, ROUGH_ERROR = 0.1, 3.0  # of eps: one that is known no better is none, in float64, with fewer digits
SNAP = 1e-6  # an eps that near to a power of ten is one, and so is most likely one that may be
EPS_SCATTER = 8.0  # times the scatter between rays
FEWEST_RAYS = 3  # rays that must tell
AGAIN_LENGTHS, AGAIN_RAYS = (0.2, 0.45, 0.7, 0.9), 8  # last tokens, of the radius of the ball, and rays for each
INSIDE = 0.97  # of the radius: no token is longer


def find_norm(oracle: Oracle, rng: np.random.Generator) -> tuple[Norm | None, float]:
    """The normalisation that the box applies to its tokens first, or None, and the relative error of its eps."""
    kind = find_norm_kind(oracle, rng)
    if kind is None:
        return None, 0.0
    try:
        eps, error = find_eps(oracle, kind, rng)
    except NotIdentifiable:
        return None, 0.0
    most = LARGEST_ERROR if oracle.roundoff <= DOUBLE else ROUGH_ERROR
    return (Norm(kind, eps), error) if eps <= LARGEST_EPS and error <= most else (None, 0.0)


def find_norm_kind(oracle: Oracle, rng: np.random.Generator) -> str | None:
    """ "layer" or "rms" if tokens other than the last may be twice as long without much ado."""
    if oracle.dim < 3:
        return None
    shifted = np.inf
    for size in NORM_SIZES:
        size = min(size, oracle.reach / (4 * np.sqrt(oracle.dim)))
        tokens = size * unit_rms(rng.standard_normal((5, oracle.dim)))
        x, q = tokens[:2], tokens[4:]
        variants = [np.r_[others, q] for others in (x, tokens[2:4], 2 * x, x + size)]
        first, *others = (np.asarray(y) for y in oracle(np.stack(variants)))
        changed, longer, shifted = (float(np.abs(y - first).max()) for y in others)
        if not longer < FORGETS * changed:
            return None
        shifted /= changed
    return "layer" if shifted <= max(SHIFTED, SHIFTED_ROUNDINGS * oracle.roundoff) else "rms"


def unit_rms(tokens: np.ndarray) -> np.ndarray:
    """Mean zero, so that a shift shows, and root mean square one."""
    tokens = tokens - tokens.mean(axis=-1, keepdims=True)
    return tokens / np.sqrt(np.mean(tokens**2, axis=-1, keepdims=True))


def find_eps(oracle: Oracle, kind: str, rng: np.random.Generator) -> tuple[float, float]:
    """eps and its relative error, which is zero for a power of ten that is known to six digits."""
    guess = find_first_eps(oracle, rng)
    for longest_probe in PROBE_LENGTHS:
        offsets, roots = read_facts(oracle, Norm(kind, guess), longest_probe, rng)
        tell = np.isfinite(roots).all(axis=1)
        if tell.sum() >= FEWEST_RAYS:
            return eps_of(offsets[tell], roots[tell], guess)
    raise NotIdentifiable("no sequences along a ray are answered alike, so eps does not show")


def eps_of(offsets: np.ndarray, roots: np.ndarray, guess: float) -> tuple[float, float]:
    """The eps for which all facts of a ray imply the same score."""
    grid = guess * EPS_GRID
    misfit = np.array([np.median(np.abs(disagreement(offsets, roots, guess, eps))) for eps in grid])
    eps, steps = float(grid[np.argmin(np.where(np.isfinite(misfit), misfit, np.inf))]), np.zeros(1)
    h = EPS_DIFFERENCE
    for _ in range(EPS_STEPS):
        before, here, after = (disagreement(offsets, roots, guess, eps * np.exp(x)) for x in (-h, 0.0, h))
        with np.errstate(invalid="ignore", divide="ignore"):
            steps = -here * 2 * h / (after - before)
        # The median: one ray in several may have met a false root.
        eps *= float(np.exp(np.clip(np.nan_to_num(np.median(steps)), -0.5, 0.5)))
    decade = 10.0 ** np.round(np.log10(eps))
    error = EPS_SCATTER * float(np.median(np.abs(np.nan_to_num(steps))))
    if len(offsets) > EPS_RAYS:  # a median of many is known better than each of them
        error /= np.sqrt(len(offsets))
    if abs(eps / decade - 1) < max(SNAP, error):
        return float(decade), error if error > SNAP else 0.0
    return eps, error


def find_first_eps(oracle: Oracle, rng: np.random.Generator) -> float:
    """Where answers change most with the length of the other tokens, these are about `sqrt(eps d)` long."""
    d = oracle.dim
    x, y, q = unit_rms(rng.standard_normal((3, d)))
    lengths = np.array([2.0**k for k in EXPONENTS if 2.0**k * np.sqrt(d) < oracle.reach])
    q = q * min(1.0, oracle.reach / (2 * np.sqrt(d)))
    answers = np.asarray(oracle(np.stack([np.stack([c * x, c * y, q]) for c in lengths]))).reshape(len(lengths), -1)
    changes = np.linalg.norm(answers[2:] - answers[:-2], axis=1)
    return float(lengths[1 + int(np.argmax(changes))] ** 2)


def read_facts(
    oracle: Oracle, norm: Norm, longest_probe: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """For each ray and probe: by how much one token, twice, is off the last one, and another, once, answered alike.

    In the coordinates that `norm` would give them; all in multiples of the last token, one array `(rays, probes)` each.
    """
    seen = Normalised(oracle, norm)
    rays = MORE_RAYS if oracle.roundoff > DOUBLE else EPS_RAYS
    directions = rng.standard_normal((rays, seen.dim))
    q = QUERY_LENGTH * np.sqrt(oracle.dim) * directions / np.linalg.norm(directions, axis=1, keepdims=True)
    q = np.repeat(q, len(PROBE_SHARES), axis=0)
    offsets = np.tile(longest_probe * PROBE_SHARES, rays)
    size = float(np.abs(seen(np.stack([q, q], axis=1)[:1])).max())
    noise = floor(oracle, size)
    matching = read_references(seen, Copies(), q, offsets[:, None] * q, noise, slope_step(noise, size))
    root = matching.find_roots()[3]
    missed = matching.read_miss(np.arange(len(root)), root)[0]
    found = (np.abs(missed) <= 64 * matching.noise) & (np.abs(root - Copies.start) < 0.5)
    roots = np.where(found, root, np.nan)
    return offsets.reshape(rays, -1), roots.reshape(rays, -1)


def disagreement(offsets: np.ndarray, roots: np.ndarray, guess: float, eps: float) -> np.ndarray:
    """Between the scores per unit length that the facts of each ray imply if this is eps: all differences, flat."""
    score, _ = implied(QUERY_LENGTH * np.ones_like(offsets), offsets, roots, eps / guess)
    return np.concatenate([score[:, 0] - score[:, 1], score[:, 0] - score[:, 2]])


def implied(here: np.ndarray, offsets: np.ndarray, roots: np.ndarray, ratio: float) -> tuple[np.ndarray, np.ndarray]:
    """What facts along rays imply if eps is so many times the one that tokens were made for: the score per unit of
    length, and how long the last tokens become; lengths are shares of the radius of the ball of normalised tokens."""

    def true_length(share: np.ndarray) -> np.ndarray:
        return share / np.sqrt(share**2 + ratio * (1 - share**2))

    last = true_length(here)
    reference, moved = (true_length(here * (1 + offsets * c)) - last for c in (1.0, roots))
    return Copies().score(moved / reference) / reference, last


def read_eps_again(seen: Normalised, learned: LearnedFront, rng: np.random.Generator) -> float:
    """How far off eps may be, of it, by facts about short and long last tokens of each of several rays: the score per
    unit of length is a straight line of how long the last token is, if eps is right. The head that was read with it
    says how long probes may be."""
    model, curve, radius = learned.model, Copies(), float(np.sqrt(seen.inner.dim))
    ray, here = np.repeat(np.arange(AGAIN_RAYS), len(AGAIN_LENGTHS)), np.tile(AGAIN_LENGTHS, AGAIN_RAYS)
    along = unit(rng.standard_normal((AGAIN_RAYS, seen.dim)))[ray]
    slope, flat = radius**2 * np.sum(along * (along @ model.W.T), axis=1), radius * along @ model.key_bias
    most = (INSIDE / here - 1) / curve.range[1]
    with np.errstate(divide="ignore"):
        offsets = np.clip(curve.typical / (here * (slope * here + flat)), -most, most)
    q = radius * here[:, None] * along
    size = float(np.abs(seen(np.stack([q, q], axis=1)[:1])).max())
    matching = read_references(seen, curve, q, offsets[:, None] * q, learned.noise, slope_step(learned.noise, size))
    found = matching.read()
    ray, here, offsets, slope = (each[found.good] for each in (ray, here, offsets, slope))
    roots, certain = np.asarray(found.root)[found.good], np.abs(here * offsets) / found.error[found.good]
    lines = (ray[:, None] == np.arange(AGAIN_RAYS)) * certain[:, None]
    lines = lines[:, lines.any(axis=0)]
    if len(here) < 2 * lines.shape[1] + FEWEST_RAYS:
        return np.inf

    def off(ratio: float) -> np.ndarray:
        score, last = implied(here, offsets, roots, ratio)
        return certain * (score - slope * last)

    h = EPS_DIFFERENCE
    everything = np.c_[(off(1 + h) - off(1 - h)) / (2 * h), lines, lines * here[:, None]]
    change, *_ = np.linalg.lstsq(everything, -off(1.0), rcond=None)
    scatter = np.linalg.norm(off(1.0) + everything @ change) / np.sqrt(len(here) - everything.shape[1])
    spread = scatter * np.sqrt(np.linalg.pinv(everything.T @ everything)[0, 0])
    return float(2 * abs(change[0]) + EPS_SCATTER * spread)
