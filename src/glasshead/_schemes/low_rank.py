"""Is there anything of W outside a span? One number per look, and what a few looks prove."""

from __future__ import annotations

import numpy as np

from .._errors import BudgetExceeded
from .._meters import Meter
from .columns import Begun, Columns
from .full import ENOUGH, TUNING, Measured, from_matrix, full

LOOKS = 8
CONFIDENCE = 0.999
# A part R of W outside the span shows in a random look as |R| g h / sqrt(d (d - r)), with g, h standard Gaussian if R
# has rank one, and rarely less if it has more. The rms of 8 such products is below 1/7 with probability below 0.001.
HIDES = 7.0


def spread(dim: int, rank: int) -> float:
    """How much larger than a typical look outside a span of that rank the whole of what is there can be."""
    return float(HIDES * np.sqrt(dim * (dim - rank)))


def news(columns: Columns, begun: Begun) -> tuple[np.ndarray, float]:
    """How much of m new columns leaves the span of the k columns before them, given k + m scores of each.

    Some m combinations of k + m keys are orthogonal to that span. Returns the singular values of what they see, per
    unit length, and the noise: as many columns are new as there are singular values above it.
    """
    meter, k, n = begun.meter, len(columns), begun.keys
    keys, seen = meter.keys.vectors[:n], columns.keys_on_basis[:n]
    mix = np.c_[-solved(seen[:k].T, seen[k:].T).T, np.eye(n - k)]
    mix /= np.linalg.norm(mix @ keys, axis=1, keepdims=True)
    each = (begun.scores.halfwidth + meter.rounding(columns.W_norm)) @ np.abs(mix).T
    values = np.linalg.svd(begun.scores.t @ mix.T, compute_uv=False)
    # Errors of m columns do not line up: together they look like sqrt(m) of them, not like m.
    return values, meter.likely(float(np.linalg.norm(each)) / np.sqrt(n - k))


def solved(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """Where keys do not tell the columns apart, as only those of another box, nothing is orthogonal to all of them."""
    try:
        return np.linalg.solve(A, B)
    except np.linalg.LinAlgError:
        return np.linalg.lstsq(A, B, rcond=None)[0]


def look(columns: Columns, U: np.ndarray, rng: np.random.Generator, enough: float = 0.0) -> tuple[float, float, float]:
    """Random looks outside the columns of `U`: the rms of what they see, its noise, and a bound on all of it.

    One look first: where it sees more than noise, and more than `enough`, the others are not needed.
    """
    d = len(U)
    g, b = rng.standard_normal((2, LOOKS, d))
    a = g - (g @ U) @ U.T
    a /= np.linalg.norm(a, axis=1, keepdims=True)
    b /= np.linalg.norm(b, axis=1, keepdims=True)
    keys, mix = columns.meter.pairs(a, rng)
    meter = columns.meter.suited(keys).sharper()
    seen, noise = one_by_one(meter, columns.W_norm, b[:1], keys[:1], mix[:1])
    if seen[0] > max(meter.likely(float(noise[0])), enough):
        return float(seen[0]), meter.likely(float(noise[0])), np.inf
    rest = one_by_one(meter, columns.W_norm, b[1:], keys[1:], mix[1:])
    rms, bound = (float(np.sqrt(np.mean(np.append(*both) ** 2))) for both in zip((seen, noise), rest, strict=True))
    return rms, meter.likely(bound), spread(d, U.shape[1]) * (rms + bound)


def one_by_one(meter: Meter, W_norm: float, b: np.ndarray, keys: np.ndarray, mix: np.ndarray):
    """`|a . W b|` for each a that `mix` combines from two keys, and its error."""
    scores = meter.columns(b, keys)
    seen = np.abs(np.einsum("nk,nk->n", mix, scores.t))
    return seen, np.einsum("nk,nk->n", np.abs(mix), scores.halfwidth + meter.rounding(W_norm) + meter.drift)


SHARE = 6  # at most one in so many columns is begun at once: what is begun in vain then stays near a tenth of the rest


def low_rank(
    meter: Meter, rng: np.random.Generator, rank: int | None = None, accuracy: float | None = None
) -> Measured:
    """W of unknown rank, or of rank at most `rank`; to within `accuracy`, or as well as can be."""
    columns = Columns(meter)
    try:
        if rank is None:
            hidden = search(columns, rng, accuracy)
            return inside(columns, *columns.span(), rng, hidden, exact=accuracy is None)
        take(columns, rank)
        U, s = columns.span()
        # A direction too faint to be told from error may be where the other columns are strong.
        hidden = None if len(s) == rank else look(columns, U, rng, np.inf)[2]
        return inside(columns, U, s, rng, hidden, exact=True)
    except BudgetExceeded as error:
        k, d = len(columns), meter.oracle.dim
        error.known |= {"b": meter.queries.vectors[:k], "W_b": columns.Y.T}
        error.needed = max(error.needed, k * (d - k))  # what is left if the columns seen are all there is
        raise


def take(columns: Columns, count: int, begun: Begun | None = None) -> None:
    before = len(columns)
    columns.measure(count, begun)
    settle(columns, before)


def settle(columns: Columns, before: int) -> None:
    """Settle the scale while columns are few: after 4 of them, 8, 16, .."""
    doubled = any(before < TUNING * 2**k <= len(columns) for k in range(4))
    if doubled and columns.meter.oracle.dim >= ENOUGH:
        columns.meter = columns.meter.tuned(columns.scores, columns.noise)


def at_once(known: int, dim: int, careful: int) -> int:
    """How many columns to begin at once; those that turn out not to be new were begun in vain."""
    return min(max(TUNING // careful, 1 + known // careful), max(1, dim // SHARE))


def search(columns: Columns, rng: np.random.Generator, accuracy: float | None) -> float:
    """Columns until nothing of W is left outside their span. Returns a bound on what could still hide there."""
    d, begun = columns.meter.oracle.dim, None
    while True:
        before = len(columns)
        k = before + (len(begun) if begun else 0)
        ahead = at_once(k, d, columns.meter.careful)
        if (d - k) ** 2 <= ahead * (k + ahead) + 2 * LOOKS:  # stopping would save less than asking whether to stop
            take(columns, d - k, begun)
            return 0.0
        enough = 0.0 if accuracy is None else accuracy / (2 * spread(d, k))
        begun = columns.begin(ahead, k + ahead, begun)
        settle(columns, before)
        seen, noise = news(columns, begun)
        new = int(np.sum(seen > max(noise, enough)))
        if new < ahead:
            if new:
                take(columns, 0, begun[:new])
            more, noise, hidden = look(columns, columns.span()[0], rng, enough)
            if more <= max(noise, enough):
                return hidden
            begun = begun[new : new + 1 + k // SHARE]  # what is left is faint: it may not take many more columns


def inside(
    columns: Columns, U: np.ndarray, s: np.ndarray, rng: np.random.Generator, hidden: float | None, exact: bool
) -> Measured:
    """The columns not yet measured, known to lie in the span of `U`."""
    meter, Y, error = columns.meter, columns.Y, columns.error
    queries, k, r = meter.queries, len(columns), U.shape[1]
    confidence = 1.0 if hidden is None or k == len(queries) else CONFIDENCE
    if k == len(queries) or r == 0:
        padded = np.pad(Y, ((0, 0), (0, len(queries) - k)))
        known = columns.whole_error if k == len(queries) else queries.gain * error
        whole = from_matrix(padded @ queries.inverse.T, known + (hidden or 0.0), r)
        return Measured(whole.left, None, whole.rank, whole.bound, confidence)
    frame = meter.frame(U, rng, exact)
    meter = meter.suited(frame.vectors).tuned(frame.vectors @ Y)
    block = meter.columns(queries.vectors[k:], frame.vectors)
    coordinates = np.concatenate([U.T @ Y, U.T @ frame.inverse @ block.t.T], axis=1)
    each = np.sqrt(block.t.size) * meter.rounding(columns.W_norm) + np.sqrt(len(block.t)) * meter.drift
    inner = block.errors.through(frame) + frame.gain * each
    # What lies outside is missing, and is seen by keys that reach outside as well.
    stray = 1 + frame.gain * float(np.linalg.norm(frame.vectors - frame.vectors @ U @ U.T))
    outside = shared_with(coordinates[:, :k], coordinates[:, k:], error, inner) if hidden is None else hidden
    bound = queries.gain * (np.hypot(error, inner) + stray * outside)
    return Measured(U, coordinates @ queries.inverse.T, r, float(bound), confidence)


def shared_with(measured: np.ndarray, others: np.ndarray, error: float, inner: float) -> float:
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
    return full(meter) if rank == meter.oracle.dim else low_rank(meter, rng, rank, accuracy)
