"""The output space of every head where answers have few digits: by how much gradients of saturated answers change.

A derivative at moderate scores takes steps so short that float32 answers leave three digits of it. Between the jumps of
very long keys answers are linear, so steps may be long: the gradient there is the sum of `B_h` over the heads that are
on, neighbouring arcs of a circle differ by one `B_h`, and about twice as many directions as its rank show the outputs
that it reaches. In many more rows it is then seen which heads are on, and the spaces are null spaces of what is left
without one of them, as exact as the answers are.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from ...._errors import NotConverged, TargetMismatch
from ...._linalg import NullSpace, best_weights, random_rotation, svd
from ...._meters import Readout, SumOfHeads
from ...._oracles import Combined, Oracle
from ..saturated import STEP_SHRINK, Arc, KeyCircle, arcs, find_circle, find_interior, random_units, read_arc_point
from .columns import CLEAR_GAP
from .spaces import NeedsScalarRoute, across_inputs, are_separate

CIRCLES = 3  # tried: two jumps may fall together on one
CHORDS, CHORD_STEPS = 2, 6.0  # random chords that are tried, and how many times longer they are than the steps taken
SHORT_STEP, TINIEST_STEP = 1e-3, 1e-6  # of the key's length: a better point is worth some queries, or there is none
BENT_ROUNDINGS = 16.0  # of an answer, times the root of the dimension: a chord that is off by more is no line
FIRST_DIRECTIONS = 8  # of keys in every cell; twice as many as long as they do not show the rank
SPARE_SHARE = 0.7  # of the directions, the rank at most: fewer would show a space badly
CROSSED = 6.0  # times the usual slope: a step that is so much steeper has met a jump after all
ROWS_EACH = 2  # rows for each output in the end, over which rounding averages out
ALL_OR_NOTHING = 0.2  # a weight closer than that to 0 or 1 is one of these, as seen by spaces that are nearly right
FEW_BETWEEN = 0.1  # of the rows, at most, are not that clear
EXACT_ROUNDINGS = 1e3  # roundings: singular values of a null space that are larger, relatively, are none
SEPARATE_ROUNDINGS = 64.0  # heads' outputs that lie closer together are not told apart
EXPLAINED_ROUNDINGS = 64.0  # of B, for each output: what no head reaches is less than that


def find_spaces_in_cells(
    oracle: Oracle, readout: Readout, rng: np.random.Generator
) -> tuple[Readout, list[NullSpace]] | NeedsScalarRoute:
    """A basis of every head's outputs, and the readout in the outputs that heads reach: some 30 queries for each head,
    twice its rank, and `ROWS_EACH` for each output."""
    reason = "there is no circle of keys in one dimension"
    for _ in range(CIRCLES if oracle.dim > 1 else 0):
        oracle.stage = "counting heads"
        try:
            circle, reached = read_reached_outputs(oracle, readout, rng)
        except (NotConverged, TargetMismatch) as error:
            return NeedsScalarRoute(f"long keys do not show the heads ({error})")
        reason = f"long keys show {len(reached)} heads, whose outputs overlap or are not all there are"
        seen = seen_by_heads(oracle, readout, reached)
        if seen is not None:
            oracle.stage = "telling heads apart"
            drops = read_exact_spaces(oracle, seen, circle, reached, rng)
            if drops:
                return seen, drops
    return NeedsScalarRoute(reason)


def read_reached_outputs(
    oracle: Oracle, readout: Readout, rng: np.random.Generator
) -> tuple[KeyCircle, list[np.ndarray]]:
    """For every head that jumps an orthonormal basis, in rows, of the outputs that it reaches."""
    size = np.linalg.norm(readout.B, axis=0)
    weights = rng.standard_normal(len(size)) / np.where(size > 0, size, np.inf)
    one = Combined(oracle, weights, 0.0, 0.0)
    circle, jumps = find_circle(SumOfHeads(one, float(readout.bias @ weights), readout.B @ weights), rng)
    if len(jumps) < 2:
        return circle, []
    saturated = Outputs(oracle, readout, circle)
    cells = [find_cell(saturated, arc, rng) for arc in arcs(jumps)]
    directions, gradients = random_rotation(oracle.dim, rng), np.empty((len(cells), 0, len(size)))
    while True:
        known = gradients.shape[1]
        more = directions[known : known + max(FIRST_DIRECTIONS, known)]
        each = [(saturated.read(cell.key + cell.step * more)[1] - cell.moved) / cell.step for cell in cells]
        gradients = np.concatenate([gradients, each], axis=1)
        known = gradients.shape[1]
        slopes = np.linalg.norm(gradients, axis=2)
        kept = np.flatnonzero(slopes.max(axis=0) <= CROSSED * np.median(slopes))
        last = directions[kept] @ readout.B - gradients[0, kept]  # half a turn on all heads have changed
        changes = [after - before for before, after in itertools.pairwise([*gradients[:, kept], last])]
        reached = [outputs_above_gap(change) for change in changes]
        if known == oracle.dim or max(len(basis) for basis in reached) <= SPARE_SHARE * len(kept):
            return circle, reached


@dataclass(frozen=True)
class Outputs:
    """All outputs of the box for long keys, beside the last token of a circle."""

    oracle: Oracle
    readout: Readout
    circle: KeyCircle

    def read(self, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The keys as they were sent, and how they move every output, both per unit of the circle's keys."""
        saturated, readout = self.circle.saturated, self.readout
        q = saturated.box.as_sent(saturated.q)
        sent = saturated.box.as_sent(q + saturated.length * keys)
        moved = self.oracle(np.stack([sent, np.broadcast_to(q, sent.shape)], axis=1)) - (readout.bias + q @ readout.B)
        return (sent - q) / saturated.length, moved / saturated.length


@dataclass(frozen=True)
class Cell:
    """A key, how it moves every output, and a step that most likely leads to no other piece in any direction."""

    key: np.ndarray
    moved: np.ndarray
    step: float


def find_cell(saturated: Outputs, arc: Arc, rng: np.random.Generator) -> Cell:
    """The cell of an arc, looked at from the middle of the arc or, where that is too near its ends, from inside."""
    point = read_arc_point(saturated.circle, arc)
    cell = find_step(saturated, point.z, 2 * arc.half, rng)
    if cell.step >= SHORT_STEP:
        return cell
    point = find_interior(saturated.circle.saturated, point, rng)
    return find_step(saturated, point.z, point.radius, rng)


def find_step(saturated: Outputs, z: np.ndarray, step: float, rng: np.random.Generator) -> Cell:
    """A step such that all outputs are linear along random chords that reach much further. A jump that one combination
    of the outputs hides shows in the others."""
    (key,), (moved,) = saturated.read(z[None])
    rounding = saturated.oracle.roundoff * float(np.sqrt(len(z)) * np.linalg.norm(moved))
    while step > TINIEST_STEP:
        chord = step * random_units(CHORDS, len(z), rng)
        _, y = saturated.read(np.concatenate([key + chord, key - chord]))
        if np.linalg.norm(y[:CHORDS] + y[CHORDS:] - 2 * moved, axis=1).max() <= BENT_ROUNDINGS * rounding:
            break
        step /= STEP_SHRINK
    return Cell(key, moved, step / CHORD_STEPS)


def outputs_above_gap(change: np.ndarray) -> np.ndarray:
    """The right singular vectors, in rows, of the singular values above the widest gap; all where no gap is wide."""
    _, s, right = svd(change)
    ratios = s[:-1] / np.maximum(s[1:], np.finfo(float).tiny)
    return right[: int(np.argmax(ratios)) + 1] if ratios.max(initial=0.0) > CLEAR_GAP else right


def seen_by_heads(oracle: Oracle, readout: Readout, reached: list[np.ndarray]) -> Readout | None:
    """The readout in the outputs that these heads reach, if that is all that tokens reach and none counts twice."""
    if len(reached) < 2 or not 0 < sum(map(len, reached)) <= min(readout.B.shape):
        return None
    joint = np.concatenate(reached)
    _, s, basis = svd(joint)
    left = readout.B - (readout.B @ basis.T) @ basis
    outside = EXPLAINED_ROUNDINGS * oracle.roundoff * len(basis) * np.linalg.norm(readout.B)
    if s[-1] <= SEPARATE_ROUNDINGS * oracle.roundoff * s[0] or np.linalg.norm(left) > outside:
        return None
    return Readout(readout.bias, readout.B, basis.T)


def read_exact_spaces(
    oracle: Oracle, readout: Readout, circle: KeyCircle, reached: list[np.ndarray], rng: np.random.Generator
) -> list[NullSpace]:
    """What is orthogonal to the outputs of all other heads: with `w` the weights of one head, 0 or 1 for long keys, the
    null space of the matrix with rows `y_i - w_i z_i`. The changes show nearly what it is, hence the weights."""
    keys = np.concatenate([across_inputs(readout, rng) for _ in range(ROWS_EACH)])
    sent, moved = Outputs(oracle, readout, circle).read(keys)
    size = np.linalg.norm(sent @ readout.map, axis=1, keepdims=True)
    Y, Z = moved @ readout.outputs / size, sent @ readout.map / size
    inverse = np.linalg.pinv(np.concatenate(reached) @ readout.outputs)
    guesses = np.split(inverse, np.cumsum([len(basis) for basis in reached])[:-1], axis=1)
    drops = [saturated_null_space(Y, Z, np.linalg.qr(guess)[0]) for guess in guesses]
    good = max(drop.ratio for drop in drops) <= EXACT_ROUNDINGS * oracle.roundoff
    return drops if good and are_separate(drops, SEPARATE_ROUNDINGS * oracle.roundoff) else []


def saturated_null_space(Y: np.ndarray, Z: np.ndarray, guess: np.ndarray) -> NullSpace:
    """The null space that is nearly `guess`, by the rows in which its head is clearly on or off."""
    seen = best_weights(Y @ guess, Z @ guess)
    weights = np.round(seen)
    clear = np.abs(seen - weights) < ALL_OR_NOTHING
    _, s, right = svd(Y[clear] - weights[clear, None] * Z[clear])
    reached = Y.shape[1] - guess.shape[1]
    if clear.mean() < 1 - FEW_BETWEEN or not 0 < reached < len(s):
        return NullSpace(guess, np.inf)
    return NullSpace(right[reached:].T, float(s[reached] / s[reached - 1]))
