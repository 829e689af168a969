"""The route of arXiv 2608.03294: with repeated tokens the answer is a rational function with a pole for every head."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import eig
from scipy.optimize import least_squares, linear_sum_assignment
from scipy.special import expit

from .._errors import NotConverged
from .._limits import information_limit
from .._linalg import numerical_rank
from .._models import Attention, MultiHead
from .._oracles import Oracle, as_oracle, read_unit_rows
from .._recovery import Recovery, recovered
from .._types import Float
from .._validate import whole

HELD_OUT = 16
NO_RECOVERY = 1e-3  # a residual above this is no recovery
KEY_LENGTHS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
QUALITY_PILOTS = 8


def rational_interpolation(
    oracle: Any, heads: int, samples: int | None = None, copies: int = 32, seed: int = 0
) -> Recovery:
    """All heads from rational interpolation over token repetitions: exact in exact arithmetic, not in float64.

    >>> target = gh.MultiHead.random(4, heads=2, seed=1)
    >>> found = gh.baselines.rational_interpolation(target, heads=2)
    >>> found.heads, gh.distance(found.model, target) < 1e-6
    (2, True)

    Sent p copies of `z + q` and k copies of q, head h adds `(z.v_h) r / (r + exp(-z.W_h q))` to the answer, `r = p/k`.
    So `samples` values of r, `2 * heads` if not given, determine the pairs `(z.W_h q, z.v_h)` for one z and q. For each
    of d tokens q that is done for d keys z and for the sums of the first with every other, which tell which pairs
    belong to one head; between tokens q the vectors v_h tell. That makes `samples * (2 d**2 - d) + d` queries, no
    more than the `4 H d**2 - 2 H + 1` of that paper; and `48 * samples` pilots for the scale at which the poles lie
    best apart, and 16 to check. `copies` bounds p and k.

    Written from the description of the method, to compare with: poles by the Loewner pencil, then Levenberg-Marquardt.
    Poles must be told apart from values in double precision. Few heads are found to many digits; from about four on
    some probes fail, and `NotConverged` carries what came out. `gh.recover` does not interpolate.
    """
    oracle = as_oracle(oracle)
    heads, copies = whole(heads, "heads", least=1), whole(copies, "copies", least=2)
    samples = 2 * heads if samples is None else whole(samples, "samples", least=2 * heads)
    start, rng = oracle.queries, np.random.default_rng(whole(seed, "seed", least=0))
    ratios = spread_ratios(samples, copies)
    v = read_unit_rows(oracle)
    Z, Q = (np.linalg.qr(rng.standard_normal((oracle.dim, oracle.dim)))[0] for _ in range(2))
    Z *= find_best_scale(oracle, v, ratios, heads, rng)
    columns = [read_column(oracle, v, ratios, heads, Z, q) for q in Q]
    model = heads_from_columns(columns, Z, Q)
    residual = read_residual(oracle, model, rng)
    found = recovered(
        model,
        rank=tuple(numerical_rank(np.linalg.svd(W, compute_uv=False), oracle.dim) for W in model.W),
        queries=oracle.queries - start,
        limit=heads * information_limit(oracle.dim),
        residual=residual,
        reason=f"rational interpolation with {samples} ratios for each of {len(Q) * (2 * len(Z) - 1)} probes",
    )
    if not residual <= NO_RECOVERY:
        raise NotConverged(
            f"rational interpolation lost the poles of {heads} heads in double precision: held-out answers are off by "
            f'{residual:.1g}; use gh.recover(oracle, family="multi-head")',
            found,
        )
    return found


class Ratio(NamedTuple):
    p: int
    k: int


class Column(NamedTuple):
    """For one q: `scores[h, i] = z_i . W_h q`, `values[h, i] = z_i . v_h`, heads in an order of its own."""

    scores: np.ndarray
    values: np.ndarray
    ratios: np.ndarray
    answers: np.ndarray  # what the two were fitted to


def spread_ratios(samples: int, copies: int) -> list[Ratio]:
    """`p : k` from 1 : copies to copies : 1, evenly in the logarithm as far as whole numbers allow."""
    every = [Ratio(1, k) for k in range(copies, 0, -1)] + [Ratio(p, 1) for p in range(2, copies + 1)]
    if samples > len(every):
        raise ValueError(f"expected at most {len(every)} samples for copies={copies}, got {samples}; allow more copies")
    logs, chosen = np.log([ratio.p / ratio.k for ratio in every]), []
    for want in np.linspace(logs[0], logs[-1], samples):
        left = [i for i in range(len(every)) if i not in chosen]
        chosen.append(min(left, key=lambda i: abs(logs[i] - want)))
    return [every[i] for i in sorted(chosen)]


def read_ratios(oracle: Oracle, v: np.ndarray, ratios: list[Ratio], Z: np.ndarray, q: np.ndarray) -> np.ndarray:
    """What the keys add to `q.v`, for every row of Z and every ratio."""

    def sequences(ratio: Ratio) -> np.ndarray:
        return np.concatenate([np.repeat((Z + q)[:, None], ratio.p, 1), np.tile(q, (len(Z), ratio.k, 1))], axis=1)

    return np.column_stack([oracle(sequences(ratio)) - q @ v for ratio in ratios])


def find_best_scale(oracle: Oracle, v: np.ndarray, ratios: list[Ratio], heads: int, rng: np.random.Generator) -> float:
    """The length of keys at which the last head is best seen: too short and all poles meet, too long and all leave."""
    z, q = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in rng.standard_normal((2, QUALITY_PILOTS, oracle.dim)))
    r = np.array([ratio.p / ratio.k for ratio in ratios])

    def read_quality(scale: float) -> float:
        answers = [read_ratios(oracle, v, ratios, scale * z[i : i + 1], q[i])[0] for i in range(QUALITY_PILOTS)]
        return min(conditioning(r, y, heads) for y in answers)

    return max(KEY_LENGTHS, key=read_quality)


def read_column(oracle: Oracle, v: np.ndarray, ratios: list[Ratio], heads: int, Z: np.ndarray, q: np.ndarray) -> Column:
    d, r = len(Z), np.array([ratio.p / ratio.k for ratio in ratios])
    probes = np.vstack([Z, (Z[:1] + Z[1:]) / np.sqrt(2)])
    y, total = read_ratios(oracle, v, ratios, probes, q), probes @ v
    s, c = pairs(r, y, total, heads)
    weighed = np.stack([s / np.sqrt(np.mean(s**2)), c / np.sqrt(np.mean(c**2))], axis=-1)
    order = [np.arange(heads), *(by_sums(weighed[0], weighed[i], weighed[d + i - 1]) for i in range(1, d))]
    scores, values = (np.array([x[i][order[i]] for i in range(d)]).T for x in (s, c))
    return Column(scores, values, r, y[:d])


def heads_from_columns(columns: list[Column], Z: np.ndarray, Q: np.ndarray) -> MultiHead:
    """Z and Q have orthogonal rows, those of Q of length one."""
    values = agreed([column.values for column in columns])

    def refitted(column: Column) -> np.ndarray:
        """The scores once more with the values known, which leaves half as many numbers to find."""
        start = by_values(column, values).T
        return polished_pairs(start, values.T, np.log(column.ratios), column.answers, values_known=True)[0].T

    scores = np.stack([refitted(column) for column in columns], axis=-1)
    inverse = np.linalg.inv(Z)
    return MultiHead([Attention(inverse @ S @ Q, inverse @ value) for S, value in zip(scores, values, strict=True)])


def agreed(tables: list[np.ndarray]) -> np.ndarray:
    """`z_i . v_h` does not depend on q: the median over all columns, in the order of the one most others agree with."""
    matched = [[other[by_vectors(one, other)] for other in tables] for one in tables]
    spread = [np.median(np.linalg.norm(np.array(all_) - all_[j], axis=(1, 2))) for j, all_ in enumerate(matched)]
    return np.median(matched[int(np.argmin(spread))], axis=0)


def by_values(column: Column, values: np.ndarray) -> np.ndarray:
    """The scores of a column in the order of `values`, probe by probe: one failed probe spoils no other."""
    orders = [by_vectors(values[:, i : i + 1], column.values[:, i : i + 1]) for i in range(values.shape[1])]
    return np.column_stack([column.scores[order, i] for i, order in enumerate(orders)])


def read_residual(oracle: Oracle, model: MultiHead, rng: np.random.Generator) -> float:
    X = rng.standard_normal((HELD_OUT, 4, oracle.dim)) / np.sqrt(oracle.dim) ** 0.5
    truth = np.asarray(oracle(X))
    return float(np.abs(model(X) - truth).max() / np.abs(truth).max())


Polished = tuple[np.ndarray, np.ndarray]  # scores, and the values that belong to them
SATURATED_SCORE = 30.0  # past this size a score saturates whatever the ratio
FIT_ACCURACY = 1e-13  # relative: a few hundred roundings, past which neither a step nor a misfit says anything


def loewner(r: Float[np.ndarray, " M"], y: Float[np.ndarray, " M"]) -> tuple[np.ndarray, np.ndarray]:
    """The Loewner matrix of `y / r = sum_h c_h / (r + exp(-s_h))` between alternate points, and the shifted one."""
    phi = y / r
    (xa, xb), (fa, fb) = (r[::2], r[1::2]), (phi[::2], phi[1::2])
    gap = xa[:, None] - xb
    weight = np.sqrt(xa[:, None] * xb)  # rows and columns of one size: the poles do not change
    return weight * (fa[:, None] - fb) / gap, weight * ((xa * fa)[:, None] - xb * fb) / gap


def conditioning(r: np.ndarray, y: np.ndarray, heads: int) -> float:
    """The part that the last head has in the Loewner matrix: below the rounding of y it cannot be found."""
    s = np.linalg.svd(loewner(r, y)[0], compute_uv=False)
    return float(s[heads - 1] / s[0]) if s[0] > 0 else 0.0


def first_guess(r: np.ndarray, y: np.ndarray, heads: int) -> np.ndarray:
    """Scores from the poles of the rational interpolant; where one is no negative number, from its size."""
    L, shifted = loewner(r, y)
    U, _, Vt = np.linalg.svd(L)
    left, right = U[:, :heads].T, Vt[:heads].T
    sizes = np.abs(np.asarray(eig(left @ shifted @ right, left @ L @ right, right=False)))
    return -np.log(np.clip(np.where(np.isfinite(sizes), sizes, 1.0), np.exp(-SATURATED_SCORE), np.exp(SATURATED_SCORE)))


def pairs(
    r: Float[np.ndarray, " M"], y: Float[np.ndarray, "P M"], total: Float[np.ndarray, " P"], heads: int
) -> tuple[Float[np.ndarray, "P H"], Float[np.ndarray, "P H"]]:
    """Scores and values for every row of y. `total` is the sum of the values: y at infinity, known beforehand.

    The poles of the interpolant, then Levenberg-Marquardt.
    """
    t, y = np.append(np.log(r), np.inf), np.column_stack([y, total])
    s = np.array([first_guess(r, row[:-1], heads) for row in y])
    return polished_pairs(s, fitted_values(s, t, y), t, y)


def polished_pairs(s: np.ndarray, c: np.ndarray, t: np.ndarray, y: np.ndarray, values_known: bool = False) -> Polished:
    """Scores and values that fit y best, row by row, from a first guess; by MINPACK's Levenberg-Marquardt."""
    rows = [polished_row(*row, t, values_known) for row in zip(s, c, y, strict=True)]
    return np.array([score for score, _ in rows]), np.array([value for _, value in rows])


def polished_row(s: np.ndarray, c: np.ndarray, y: np.ndarray, t: np.ndarray, values_known: bool) -> Polished:
    def unpack(x: np.ndarray) -> Polished:
        return np.clip(x[: len(s)], -SATURATED_SCORE, SATURATED_SCORE), c if values_known else x[len(s) :]

    def residual(x: np.ndarray) -> np.ndarray:
        score, value = unpack(x)
        return expit(score + t[:, None]) @ value - y

    def jacobian(x: np.ndarray) -> np.ndarray:
        score, value = unpack(x)
        weight = expit(score + t[:, None])
        by_score = value * weight * (1 - weight)
        return by_score if values_known else np.hstack([by_score, weight])

    start = s if values_known else np.concatenate([s, c])
    stop = {"xtol": FIT_ACCURACY, "ftol": FIT_ACCURACY, "gtol": FIT_ACCURACY}
    found = least_squares(residual, start, jacobian, method="lm", **stop)  # type: ignore[arg-type]
    return unpack(found.x)


def fitted_values(s: Float[np.ndarray, "P H"], t: Float[np.ndarray, " M"], y: Float[np.ndarray, "P M"]) -> np.ndarray:
    """The values that fit y best beside given scores, for every row."""
    return np.array(
        [np.linalg.lstsq(expit(one + t[:, None]), row, rcond=FIT_ACCURACY)[0] for one, row in zip(s, y, strict=True)]
    )


def by_sums(one: np.ndarray, other: np.ndarray, together: np.ndarray) -> np.ndarray:
    """For each pair of `one` its partner in `other`, so that the half sums lie in `together`; all are (H, 2)."""
    sums = (one[:, None] + other) / np.sqrt(2)
    cost = np.sum((sums[:, :, None] - together) ** 2, axis=-1).min(axis=-1)
    return linear_sum_assignment(cost)[1]


def by_vectors(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """For each row of `one` the row of `other` that is the same vector."""
    return linear_sum_assignment(np.sum((one[:, None] - other) ** 2, axis=-1))[1]
