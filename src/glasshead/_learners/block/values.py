"""Every head's value map, and its keys at one token, from sequences `[q + z, q, .., q]`.

A key z beside so many copies of q has the weight `a_h = e^s / (copies + e^s)`, `s = z.k_h`, in head h, and the sequence
is answered like the token `q + sum_h a_h z B_h`, near q. In units of answers at q, rows of what z moved and of what it
would move alone drop in rank by what one head owns (`null_space`): that gives directions `N_h` which no other head
reaches, and the weights. Of each head's inputs `V_h` that shows all but the dimensions that are lost to what answers do
not see; these come from two heads at a time, as one that are told from all others. Then `B_h = V_h C_h` follows from
rows and B.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..._errors import NotConverged
from ..._linalg import norms, null_space, spare_rows, svd
from ..._oracles import STALLED_ROUNDINGS, Oracle, find_alike, read_single
from .blind import MISMATCHED, MORE_ROWS, SPARE_EQUATIONS, SecondReference, read_blind_parts
from .geometry import Reference, Rows, Total, View, copies_of, find_moves, with_copies
from .spaces import Bunches

MOST_NUMBERS = 2**21  # in the equations of a rank drop, which take seconds with so many
FAINT_WEIGHT, FULL = 1e-4, 1e-3  # weights below that share of an even one, or that close to 1, say little about scores
BAD_DROP = 1e-2  # of singular values in a rank drop: none
NO_SHARES = "some keys move answers by no finite share of what they would alone: no weights of heads explain that"


@dataclass(frozen=True)
class Heads:
    """Value maps `B (H, d, d)` up to what is not seen, their inputs `V`, the keys `k (H, d)` at one token, and what of
    answers only that head moves, `spaces`. `misfit` is how far off answers to the rows are, over what keys move."""

    B: np.ndarray
    V: list[np.ndarray]
    k: np.ndarray
    spaces: list[np.ndarray]
    ratio: float
    misfit: float


def rows_needed(dim: int, seen: int, way: Bunches) -> int:
    """How many rows it takes: for keys of d numbers, for the rank drop, and for heads two at a time."""
    ranks, alone = sorted(way.ranks), rows_of_one(seen, way)
    paired = seen + dim - ranks[0] - ranks[1] + way.lost if len(ranks) > 2 else dim
    return int(MORE_ROWS * max(dim, alone, paired)) + SPARE_EQUATIONS


def rows_of_one(seen: int, way: Bunches) -> int:
    """How many rows show the outputs of one head apart from all others."""
    least = max(2, min(way.ranks) - way.lost)
    return seen + spare_rows(seen, least) if len(way.ranks) > 1 else 0


def rows_to_solve(rows: int, seen: int, way: Bunches) -> int:
    """All of them, or as many as can be solved at once: n rows are `(n - p + r) r` equations for n weights."""
    least, rank = int(MORE_ROWS * rows_of_one(seen, way)) + SPARE_EQUATIONS, max(way.ranks) - way.lost
    while rows > least and (rows - seen + rank) * rank * rows > MOST_NUMBERS:
        rows -= 1
    return rows


def read_key_rows(oracle: Oracle, at: Reference, total: Total, z: np.ndarray) -> Rows:
    copies = copies_of(oracle)
    answers = np.asarray(oracle(with_copies(at.token, z[:, None], copies)))
    return Rows(z, answers, z @ total.B / (copies + 1), copies)


def split_heads(
    view: View, total: Total, rows: Rows, way: Bunches, guesses: list[np.ndarray]
) -> tuple[list[np.ndarray], list[np.ndarray], np.ndarray, float]:
    """Inputs `V_h (d, r_h)`, the directions of answers that are the head's own, its weights in the rows, and how much
    smaller singular values of the rank drop are than the others."""
    Y, Z = view.seen(rows.moves), view.seen(rows.z @ total.B)
    size = norms(Z)[:, None]
    if not size.all():
        raise NotConverged(NO_SHARES)
    if len(way.sizes) == 1:
        weights = np.sum(Y * Z, axis=1, keepdims=True) / size**2
        return [np.eye(len(total.B))], [np.eye(Y.shape[1])], weights, 0.0
    some = slice(rows_to_solve(len(Y), Y.shape[1], way))
    each = zip(guesses, way.ranks, strict=True)
    drops = [null_space((Y / size)[some], (Z / size)[some], guess, rank - way.lost) for guess, rank in each]
    spaces = [drop.basis for drop in drops]
    weights = np.stack([np.sum((Y @ N) * (Z @ N), axis=1) / np.sum((Z @ N) ** 2, axis=1) for N in spaces], axis=1)
    if not np.isfinite(weights).all():
        raise NotConverged(NO_SHARES)
    seen_B = view.seen(total.B)
    V = [np.linalg.qr(seen_B @ N)[0] for N in spaces]
    if way.lost:
        V = two_at_a_time(Y, Z, rows.z, weights, seen_B, way)
    return V, spaces, weights, max(drop.ratio for drop in drops)


def two_at_a_time(
    Y: np.ndarray, Z: np.ndarray, z: np.ndarray, weights: np.ndarray, seen_B: np.ndarray, way: Bunches
) -> list[np.ndarray]:
    """Inputs of all heads, each together with one that differs from all others by its weights.

    What l reads of answers belongs to heads c and a alone if `y.l = a_c z.v_c + a_a z.v_a` in all rows, with `v_c + v_a
    = B l`: linear in l and `v_c`, with as many solutions as the two have dimensions, less those lost.
    """
    H, p, ranks = weights.shape[1], Y.shape[1], way.ranks
    apart = np.linalg.norm(weights[:, :, None] - weights[:, None], axis=0) + np.diag(np.full(H, np.inf))
    anchor = int(np.argmax(apart.min(axis=1)))
    V: dict[int, np.ndarray] = {}
    for c in (h for h in range(H) if h != anchor):
        other, own = weights[:, [anchor]], weights[:, [c]]
        right = svd(np.concatenate([Y - other * Z, -(own - other) * z], axis=1), full=True)[2]
        null = right[-(ranks[c] + ranks[anchor] - way.lost) :].T
        of_c = null[p:]
        V[c] = svd(of_c)[0][:, : ranks[c]]
        V.setdefault(anchor, svd(of_c - seen_B @ null[:p])[0][:, : ranks[anchor]])
    return [V[h] for h in range(H)]


def value_maps(view: View, total: Total, rows: Rows, V: list[np.ndarray], weights: np.ndarray) -> np.ndarray:
    """`B_h = V_h C_h (H, d, d)`, where the rows, and `sum_h V_h C_h = B`, say C.

    The sum alone would do, but inputs of different heads may be all but dependent, and then the rows tell them apart.
    They say nothing of outputs to which answers are blind: for these it is the sum alone.
    """
    together = np.concatenate(V, axis=1)
    each = [weights[:, [h]] * (rows.z @ v) for h, v in enumerate(V)]
    scale = (rows.copies + 1) / norms(rows.z)[:, None]
    features = np.concatenate([together, scale * np.concatenate(each, axis=1)])
    seen = np.concatenate([view.seen(total.B), scale * view.seen(rows.moves)])
    if not (np.isfinite(features).all() and np.isfinite(seen).all()):
        raise NotConverged(NO_SHARES)
    C = view.moves(np.linalg.lstsq(features, seen, rcond=None)[0])
    C += np.linalg.lstsq(together, total.B @ view.blind.T, rcond=None)[0] @ view.blind
    ends = np.cumsum([v.shape[1] for v in V])
    return np.stack([v @ C[end - v.shape[1] : end] for v, end in zip(V, ends, strict=True)])


def find_weights(
    oracle: Oracle, at: Reference, rows: Rows, B: np.ndarray, guess: np.ndarray, wanted: float
) -> tuple[np.ndarray, np.ndarray]:
    """The weights `(b, H)` with which each row is answered like `q + sum_h a_h z B_h`, and how far off answers are."""
    moves = np.einsum("bd,hde->bhe", rows.z, B, optimize=True)
    inverse = np.linalg.pinv(moves @ at.jacobian)
    left = np.empty(len(rows.z))

    def read_step(weights: np.ndarray, which: np.ndarray) -> np.ndarray:
        moved = np.einsum("bh,bhe->be", weights, moves[which], optimize=True)
        off = rows.answers[which] - read_single(oracle, at.token + moved)
        left[which] = norms(off)
        return np.einsum("bk,bkh->bh", off, inverse[which], optimize=True)

    weights, _ = find_alike(read_step, guess, wanted, STALLED_ROUNDINGS * oracle.roundoff)
    return weights, left


def keys_from(z: np.ndarray, weights: np.ndarray, left: np.ndarray, copies: int) -> np.ndarray | None:
    """The keys `(H, d)` that give such weights: least squares of scores, each as good as its weight shows it; none
    where too few of them are weights, between 0 and 1."""
    fine = (
        (left <= MISMATCHED * np.median(left))
        & (weights > FAINT_WEIGHT / copies).all(axis=1)
        & (weights < 1 - FULL).all(axis=1)
    )
    if fine.sum() < z.shape[1]:
        return None
    z, weights = z[fine], weights[fine]
    scores, sure = np.log(weights * copies / (1 - weights)), weights * (1 - weights)
    return np.stack(
        [np.linalg.lstsq(z * s[:, None], y * s, rcond=None)[0] for s, y in zip(sure.T, scores.T, strict=True)]
    )


def expected_moves(z: np.ndarray, heads: Heads, copies: int) -> np.ndarray:
    """Where rows are answered, from what is known of the heads."""
    e = np.exp(z @ heads.k.T)
    moves = np.einsum("bd,hde->bhe", z, heads.B, optimize=True)
    return np.einsum("bh,bhe->be", e / (copies + e), moves, optimize=True)


def find_heads(
    oracle: Oracle,
    at: Reference,
    view: View,
    total: Total,
    rows: Rows,
    way: Bunches,
    guesses: list[np.ndarray],
    wanted: float,
    second: SecondReference | None = None,
) -> tuple[Rows, Heads | None]:
    """Heads from rows, once: tokens that are answered alike, value maps, weights, keys; none where they do not fit.

    What answers do not see of these tokens is what was expected of them. Value maps hardly depend on that, and with
    them weights are asked for once more, which do not at all.
    """
    moved = float(np.median(norms(rows.answers - at.answer)))
    if moved == 0:  # keys that most answers, as they are rounded, do not show
        return rows, None
    rows = find_moves(oracle, at, view, rows, wanted)
    V, spaces, weights, ratio = split_heads(view, total, rows, way, guesses)
    if not ratio <= BAD_DROP:
        return rows, None
    B = value_maps(view, total, rows, V, weights)
    if second is not None:
        B = read_blind_parts(oracle, at, second, total, rows.z, B, V)
    weights, left = find_weights(oracle, at, rows, B, np.clip(weights, FULL / rows.copies, 1 - FULL), wanted)
    k = keys_from(rows.z, weights, left, rows.copies)
    if k is None:
        return rows, None
    misfit = float(np.median(left)) / moved
    heads = Heads(B, V, k, spaces, ratio, misfit)
    return replace(rows, moves=expected_moves(rows.z, heads, rows.copies)), heads
