"""A recovery as its page shows it: the saved fields, every head beside the true one where that is known, and words."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .._identify import distance
from .._linalg import factored_svd
from .._models import Head, Model, MultiHead, Placed, drawn_model, nearest_heads
from .._oracles import SINGLE
from .._recovery import Recovery
from .packing import FactorPair, packed_matrix
from .pattern import patterns
from .run import Run

ROOM = 2.75e6  # bytes of matrices in a page, which has 3 MB in all
TRUE_SHARE = 0.4  # of the room, for the true W of all heads
DIFFERENCE_SHARE = 0.7  # of what is left then, for what they differ by; the rest is for v
MOST_SINGULAR = 512  # singular values of a head on a page
LARGEST_DENSE = 2048  # rows of a W whose decomposition takes seconds, not minutes
SHOWN_DIGITS = 16  # at most: a float64 has no more


def recovery_data(found: Recovery, run: Run | None = None, truth: Model | None = None) -> dict[str, Any]:
    """All that the page of a recovery shows, as JSON takes it."""
    whole = drawn_model(found.model)
    model = whole.model if isinstance(whole, Placed) else whole
    signs = run is not None and run.answers == "sign"
    far = None if truth is None else distance_to_truth(whole, truth, signs)
    true_heads = None if far is None or truth is None else matched_heads(model, truth)
    ranks = found.rank if isinstance(found.rank, tuple) else (found.rank,) * len(model.heads)
    heads = [
        head_data(head, None if true_heads is None else true_heads[h], int(ranks[h]))
        for h, head in enumerate(model.heads)
    ]
    embed(heads, model, true_heads, signs)
    return {
        "kind": "recovery",
        "headline": headline(found, far, min(head["norm"] for head in heads)),
        "recovery": found.to_dict(),
        "overhead": found.overhead,
        "distance": far,
        "model": str(model),
        "dim": model.dim,
        "checked": None if found.checked is None else str(found.checked),
        "run": None if run is None else run_data(run),
        "heads": heads,
        "norms": {"W": max(head["norm"] for head in heads), "v": length_of(values_of(model.heads, signs))},
        "errors": {
            "W": None if true_heads is None else max(head["error"] for head in heads),
            "v": None if true_heads is None else value_distance(model, true_heads, signs),
        },
        "patterns": patterns(model),
    }


def run_data(run: Run) -> dict[str, Any]:
    """What may be shown of a run: where the true model lies is nobody's business."""
    shown = {name: getattr(run, name) for name in ("command", "target", "answers", "seconds")}
    return shown | {"history": [list(point) for point in run.history]}


def distance_to_truth(model: Model, truth: Model, signs: bool) -> float | None:
    """The distance of the two, None where they cannot be compared."""
    try:
        far = distance(model, truth, up_to_scale=signs)
    except (TypeError, ValueError):
        return None
    return far if math.isfinite(far) else None


def matched_heads(model: Model, truth: Model) -> list[Head] | None:
    """The true head for each that was found, in pairs that are nearest in all; None where their numbers differ."""
    if model.dim != truth.dim or len(model.heads) != len(truth.heads):
        return None
    found, true = ([np.asarray(head.W, float) for head in each.heads] for each in (model, truth))
    return [truth.heads[h] for h in nearest_heads(found, true)]


def head_data(head: Head, true: Head | None, rank: int) -> dict[str, Any]:
    """The numbers of one head."""
    W = np.asarray(head.W, float)
    data: dict[str, Any] = {
        "rank": rank,
        "norm": float(np.linalg.norm(W)),
        "largest": float(np.abs(W).max()),
        "singular": singular_values(head),
        "key_bias": head.has_key_bias,
    }
    if true is not None:
        W_true = np.asarray(true.W, float)
        off = W - W_true
        data |= {
            "true_singular": singular_values(true),
            "error": float(np.linalg.norm(off)),
            "largest_error": float(np.abs(off).max()),
        }
    return data


def singular_values(head: Head) -> list[float]:
    """The singular values of W, the largest first; of a large W that is kept as factors none beyond these, of any other
    none."""
    own = head.score_tensors()
    if "Q" in own and head.dim > MOST_SINGULAR:
        return factored_svd(own["Q"], own["K"])[1].tolist()
    return np.linalg.svd(head.W, compute_uv=False)[:MOST_SINGULAR].tolist() if head.dim <= LARGEST_DENSE else []


def factors_of(head: Head) -> FactorPair | None:
    """Two factors of W, where they hold fewer numbers than W and do not take minutes to find."""
    if "Q" not in head.score_tensors() and head.dim > LARGEST_DENSE:
        return None
    Q, K = head.factor()
    return (K.T, Q) if 2 * len(Q) < head.dim else None


def embed(heads: list[dict[str, Any]], model: Model, true_heads: list[Head] | None, signs: bool) -> None:
    """Put W and v of every head into its data, with what is true and the difference as far as there is room.

    W comes first. The truth is there whole, or as the same numbers where float32 does not tell it from W, or not at
    all; of the difference the largest entries stay where there is no room for all of them.
    """
    found = [np.asarray(head.W, float) for head in model.heads]
    left = pack_all(heads, "W", found, ROOM, factors=[factors_of(head) for head in model.heads])
    if true_heads is not None:
        true = [np.asarray(head.W, float) for head in true_heads]
        trial: list[dict[str, Any]] = [{} for _ in heads]
        taken = left - pack_all(trial, "true", true, left, factors=[factors_of(head) for head in true_heads])
        if taken <= TRUE_SHARE * ROOM and all(each["true"]["block"] == 1 for each in trial):
            left -= taken
            for head, each in zip(heads, trial, strict=True):
                head |= each
        else:
            for head in heads:
                if head["W"]["block"] == 1 and head["largest_error"] <= SINGLE * head["largest"]:
                    head["true"] = {"like": "W"}
        some = DIFFERENCE_SHARE * left
        left -= some - pack_all(heads, "difference", [W - other for W, other in zip(found, true, strict=True)], some)
    values = values_of(model.heads, signs)
    if values is None:
        return
    left = pack_all(heads, "v", values, left / 2)
    true_values = None if true_heads is None else values_of(true_heads, signs)
    if true_values is not None and true_values[0].shape == values[0].shape and isinstance(model, Head | MultiHead):
        pack_all(heads, "true_v", true_values, left)


def values_of(heads: Any, signs: bool) -> list[np.ndarray] | None:
    """The v of every head as `(d, k)`, all of them over their common length where only signs were seen."""
    if not all(hasattr(head, "v") for head in heads):
        return None
    values = [np.asarray(head.v, float).reshape(head.dim, -1) for head in heads]
    size = float(np.linalg.norm(values)) if signs else 1.0
    return [v / (size or 1.0) for v in values]


def length_of(values: list[np.ndarray] | None) -> float | None:
    return None if values is None else float(np.linalg.norm(values))


def value_distance(model: Model, true_heads: list[Head], signs: bool) -> float | None:
    """How far apart all v are, None where they are not those of a sum of heads."""
    found, true = values_of(model.heads, signs), values_of(true_heads, signs)
    if found is None or true is None or found[0].shape != true[0].shape or not isinstance(model, Head | MultiHead):
        return None
    return float(np.linalg.norm(np.asarray(found) - true))


def pack_all(
    heads: list[dict[str, Any]],
    name: str,
    matrices: list[np.ndarray],
    room: float,
    factors: list[FactorPair | None] | None = None,
) -> float:
    """Pack a matrix for each head under that name; returns the room that is left."""
    share = room / len(matrices)
    for head, matrix, parts in zip(heads, matrices, factors or [None] * len(matrices), strict=True):
        head[name] = packed_matrix(matrix, share, parts)
        room -= sum(len(head[name].get(part, "")) for part in ("dense", "left", "right"))
    return room


def headline(found: Recovery, far: float | None, norm: float) -> dict[str, Any]:
    """The one number that is read first: `big` and what it is, and the sentence below it, with `value` behind them."""
    if far is not None:
        value, words = far, "The relative distance to the true parameters, those of the target's own file, is"
        basis = "measured against the true model"
    elif found.bound is not None and norm > 0:
        value = found.bound / norm
        sure = "follows from the promise" if found.confidence == 1 else f"confidence {found.confidence:.4g}"
        words, basis = f"The certified bound on the relative error of W ({sure}) is", "certified without the truth"
    elif found.residual is not None:
        value, words = found.residual, "On fresh sequences the largest error, over the largest answer, is"
        basis = "of fresh answers predicted"
    else:
        return {"big": "unchecked", "what": "nothing is known of the error", "words": found.reason, "value": None}
    digits = SHOWN_DIGITS if value == 0 else math.floor(-math.log10(value))
    if digits < 1:
        return {"big": f"{100 * value:.3g}%", "what": f"off, {basis}", "words": words, "value": value}
    digits = min(digits, SHOWN_DIGITS)
    return {"big": f"{digits} digit{'s' * (digits > 1)}", "what": basis, "words": words, "value": value}
