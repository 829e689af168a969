"""W of low rank r from about `2 d r - r^2` scores, the rank being found on the way.

Columns are read until a new one lies in the span of those before it, which shows in one score more than there are
columns. Random looks outside the span then say, one score each, whether anything is left there. All other columns lie
in the span: r scores each are enough.
"""

from __future__ import annotations

import numpy as np

from .._errors import BudgetExceeded
from .._limits import PROVED
from .._linalg import rms
from .._meters import Meter, Scores
from .columns import ENOUGH_KEYS, TUNED_AFTER, Columns, Measured, full, measured_matrix

# A part R of W outside the span shows in a random look as |R| g h / sqrt(d (d - r)), with g, h standard Gaussian if R
# has rank one, and rarely less if it has more. The rms of 8 such products is below 1/7 with probability below 0.001,
# and `PROVED` is the rest.
LOOKS_OUTSIDE, HIDDEN_FACTOR = 8, 7.0
LOOKS_WORDS = f"{LOOKS_OUTSIDE} random looks bound what W has beyond that rank, too low in {1 - PROVED:.1%} of cases"


def hidden_factor(dim: int, rank: int) -> float:
    """How much larger than a typical look outside a span of that rank the whole of what is there can be."""
    return float(HIDDEN_FACTOR * np.sqrt(dim * (dim - rank)))


def new_columns(columns: Columns, begun: Scores) -> tuple[np.ndarray, float]:
    """How much of m new columns leaves the span of the k columns before them, given k + m scores of each.

    Some m combinations of k + m keys are orthogonal to that span. Returns the singular values of what they see, per
    unit length, and the noise: as many columns are new as there are singular values above it.
    """
    meter, k, n = columns.meter, len(columns), begun.t.shape[1]
    keys, seen = meter.keys.vectors[:n], columns.keys_on_basis[:n]
    mix = np.c_[-solved_or_nearest(seen[:k].T, seen[k:].T).T, np.eye(n - k)]
    mix /= np.linalg.norm(mix @ keys, axis=1, keepdims=True)
    each = (begun.halfwidth + begun.rounding(columns.W_norm)) @ np.abs(mix).T
    values = np.linalg.svd(begun.t @ mix.T, compute_uv=False)
    # Errors of m columns do not line up: together they look like sqrt(m) of them, not like m.
    return values, meter.likely(float(np.linalg.norm(each)) / np.sqrt(n - k))


def solved_or_nearest(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """`A^-1 B`, or the least-squares solution where A is singular.

    That happens where keys do not tell the columns apart, as only for another box: nothing is orthogonal to all then.
    """
    try:
        return np.linalg.solve(A, B)
    except np.linalg.LinAlgError:
        return np.linalg.lstsq(A, B, rcond=None)[0]


def read_outside(
    columns: Columns, U: np.ndarray, rng: np.random.Generator, enough: float = 0.0
) -> tuple[float, float, float]:
    """Random looks outside the columns of `U`: the rms of what they see, its noise, and a bound on all of it.

    One look first: where it sees more than noise, and more than `enough`, the others are not needed.
    """
    d = len(U)
    g, b = rng.standard_normal((2, LOOKS_OUTSIDE, d))
    a = g - (g @ U) @ U.T
    a /= np.linalg.norm(a, axis=1, keepdims=True)
    b /= np.linalg.norm(b, axis=1, keepdims=True)
    keys, mix = columns.meter.pairs(a, rng)
    meter = columns.meter.suited(keys).sharper()
    seen, noise = read_seen(meter, columns.W_norm, b[:1], keys[:1], mix[:1])
    if seen[0] > max(meter.likely(float(noise[0])), enough):
        return float(seen[0]), meter.likely(float(noise[0])), np.inf
    rest = read_seen(meter, columns.W_norm, b[1:], keys[1:], mix[1:])
    typical, bound = (rms(np.append(*both)) for both in zip((seen, noise), rest, strict=True))
    return typical, meter.likely(bound), float(hidden_factor(d, U.shape[1]) * (typical + bound))


def read_seen(meter: Meter, W_norm: float, b: np.ndarray, keys: np.ndarray, mix: np.ndarray):
    """`|a . W b|` for each a that `mix` combines from two keys, and its error."""
    scores = meter.columns(b, keys)
    seen = np.abs(np.einsum("nk,nk->n", mix, scores.t))
    return seen, np.einsum("nk,nk->n", np.abs(mix), scores.halfwidth + scores.rounding(W_norm) + scores.drift)


KNOWN_EACH = 64  # columns known for each that is begun at once: so many are tested one by one for adding anything,
KNOWN_EACH_IN_ROUNDS = 1  # or as many again are begun, where one column takes as many rounds as many do
BEGUN_SHARE = 6  # one in so many columns at most is begun at once: what is begun in vain is about a tenth of the rest


def low_rank(
    meter: Meter, rng: np.random.Generator, rank: int | None = None, accuracy: float | None = None
) -> Measured:
    """W of unknown rank, or of rank at most `rank`; to within `accuracy`, or as well as can be."""
    columns = Columns(meter)
    try:
        if rank is None:
            hidden = find_column_span(columns, rng, accuracy)
            return read_inside(columns, *columns.span(), rng, hidden, exact=accuracy is None)
        read_next(columns, rank)
        U, s = columns.span()
        # A direction too faint to be told from error may be where the other columns are strong.
        hidden = None if len(s) == rank else read_outside(columns, U, rng, np.inf)[2]
        return read_inside(columns, U, s, rng, hidden, exact=True)
    except BudgetExceeded as error:
        k = len(columns)
        columns.report(error, k * (meter.dim - k))  # what is left if the columns seen are all there is
        raise


def read_next(columns: Columns, count: int, begun: Scores | None = None) -> None:
    """The next columns, after those begun before, at a scale that is settled on the way."""
    before = len(columns)
    columns.read(count, begun)
    tune_early(columns, before)


def tune_early(columns: Columns, before: int) -> None:
    """Settle the scale while columns are few: after 4 of them, 8, 16, .."""
    doubled = any(before < TUNED_AFTER * 2**k <= len(columns) for k in range(4))
    if doubled and columns.meter.dim >= ENOUGH_KEYS:
        columns.tune()


def at_once(known: int, meter: Meter) -> int:
    """How many columns to begin at once; those that turn out not to be new were begun in vain."""
    each = KNOWN_EACH_IN_ROUNDS if meter.in_rounds else KNOWN_EACH
    return min(max(TUNED_AFTER // each, 1 + known // each), max(1, meter.dim // BEGUN_SHARE))


def find_column_span(columns: Columns, rng: np.random.Generator, accuracy: float | None) -> float:
    """Columns until nothing of W is left outside their span. Returns a bound on what could still hide there."""
    d, begun = columns.meter.dim, None
    while True:
        before = len(columns)
        k = before + (len(begun) if begun else 0)
        ahead = at_once(k, columns.meter)
        # Stopping may save less than asking whether to stop.
        if (d - k) ** 2 <= ahead * (k + ahead) + 2 * LOOKS_OUTSIDE:
            read_next(columns, d - k, begun)
            return 0.0
        enough = 0.0 if accuracy is None else accuracy / (2 * hidden_factor(d, k))
        begun = columns.read_first(k + ahead, ahead, begun)
        tune_early(columns, before)
        seen, noise = new_columns(columns, begun)
        new = int(np.sum(seen > max(noise, enough)))
        if new < ahead:
            if new:
                read_next(columns, 0, begun[:new])
            more, noise, hidden = read_outside(columns, columns.span()[0], rng, enough)
            if more <= max(noise, enough):
                return hidden
            begun = begun[new : new + 1 + k // BEGUN_SHARE]  # what is left is faint: it may not take many more columns


def read_inside(
    columns: Columns, U: np.ndarray, s: np.ndarray, rng: np.random.Generator, hidden: float | None, exact: bool
) -> Measured:
    """The columns not yet measured, known to lie in the span of `U`."""
    meter, Y, error = columns.meter, columns.Y, columns.error
    queries, k, r = meter.queries, len(columns), U.shape[1]
    confidence, sure = (1.0, "") if hidden is None or k == len(queries) else (PROVED, LOOKS_WORDS)
    if k == len(queries) or r == 0:
        padded = np.pad(Y, ((0, 0), (0, len(queries) - k)))
        known = columns.whole_error if k == len(queries) else queries.gain * error
        whole = measured_matrix(padded @ queries.inverse.T, known + (hidden or 0.0), r)
        return Measured(whole.left, None, whole.rank, whole.bound, confidence, sure=sure)
    frame = meter.frame(U, rng, exact)
    meter = meter.suited(frame.vectors).tuned(frame.vectors @ Y)
    meter.expect((len(queries) - k) * len(frame.vectors))
    block = meter.columns(queries.vectors[k:], frame.vectors)
    coordinates = np.concatenate([U.T @ Y, U.T @ frame.inverse @ block.t.T], axis=1)
    each = np.sqrt(block.t.size) * block.rounding(columns.W_norm) + np.sqrt(len(block.t)) * block.drift
    inner = block.errors.through(frame) + frame.gain * each
    # What lies outside is missing, and is seen by keys that reach outside as well.
    stray = 1 + frame.gain * float(np.linalg.norm(frame.vectors - frame.vectors @ U @ U.T))
    outside = outside_error(coordinates[:, :k], coordinates[:, k:], error, inner) if hidden is None else hidden
    bound = queries.gain * (np.hypot(error, inner) + stray * outside)
    return Measured(U, coordinates @ queries.inverse.T, r, float(bound), confidence, frame, sure)


def outside_error(measured: np.ndarray, others: np.ndarray, error: float, inner: float) -> float:
    """How far the other columns can leave the span, given that they are true combinations of the measured ones.

    If `others = measured @ C`, they leave it by `||E C||`, E the error of the measured columns. That of the coordinates
    moves C by the usual perturbation bound for linear systems.
    """
    least = float(np.linalg.svd(measured, compute_uv=False)[-1])
    if least <= error:
        return np.inf
    C = np.linalg.lstsq(measured, others, rcond=None)[0]
    return error * (float(np.linalg.norm(C, 2)) + inner / least) / (1 - error / least)


def read_W(meter: Meter, rng: np.random.Generator, rank: int | None = None, accuracy: float | None = None) -> Measured:
    """W by the scheme that suits it: all scores of a W known to have full rank, else no more than its rank needs."""
    return full(meter) if rank == meter.dim else low_rank(meter, rng, rank, accuracy)
