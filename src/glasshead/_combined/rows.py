"""What a two-token answer says about values, with all scores known: one linear equation for each output.

`[q + z ; q]` is answered by `bias + sum_h (q + sigma(z.k_h) z) B_h`, `k_h = W_h q + key_bias_h`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from .._models import MultiHead
from .._oracle import Oracle
from .._types import Float
from .sizes import Sizes

SAFETY = 4.0
LOST = (
    2.0**10
)  # roundings that a score is usually off by: answers that do not depend on scores are worth that much more
UNSURE = 1e-3  # of a score's size: heads further off are no recovery. One so close to 0 may have the other sign


@dataclass(frozen=True)
class Equations:
    """`rows @ B = right`, each divided by its noise: what is left is off by about `unit` of an output's size."""

    rows: Float[np.ndarray, "n Hd"]
    right: Float[np.ndarray, "n k"]


def noise_unit(oracle: Oracle) -> float:
    """The relative error of an answer."""
    return oracle.rtol + SAFETY * float(np.sqrt(oracle.dim)) * oracle.roundoff


def constant_noise(oracle: Oracle, sizes: Sizes) -> float:
    """The error that does not grow with the tokens, as the length of a token with that share of an answer."""
    size = sizes.each
    seen = size > 0
    constant = oracle.tolerance + (oracle.rtol + oracle.roundoff) * np.abs(sizes.bias[seen])
    return float((constant / size[seen]).max(initial=0.0)) / noise_unit(oracle)


def scores_of(model: MultiHead, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """`z.k_h (n, H)`, and how large these could be for tokens of such lengths."""
    z, keys = X[:, 0] - X[:, 1], model.keys_against(X[:, 1])
    return np.einsum("nd,hnd->nh", z, keys), np.linalg.norm(z, axis=1)[:, None] * np.linalg.norm(keys, axis=2).T


def noise_of(X: np.ndarray, scores: np.ndarray, steep: np.ndarray, constant: float) -> Float[np.ndarray, " n"]:
    """The noise of each answer, as a length of tokens; errors of W add to it unless all heads are saturated."""
    least = np.maximum(0.0, np.abs(scores) - UNSURE * steep)
    depends = (steep * expit(least) * expit(-least)).max(axis=1)
    return np.linalg.norm(X, axis=2).max(axis=1) * (1 + LOST * depends) + constant


def equations(model: MultiHead, X: np.ndarray, answers: np.ndarray, oracle: Oracle, sizes: Sizes) -> Equations:
    scores, steep = scores_of(model, X)
    noise = noise_of(X, scores, steep, constant_noise(oracle, sizes))
    scale = np.divide(1.0, noise, out=np.zeros_like(noise), where=noise > 0)[:, None]
    q, z = X[:, 1], X[:, 0] - X[:, 1]
    rows = (q[:, None] + expit(scores)[:, :, None] * z[:, None]).reshape(len(X), -1)
    return Equations(rows * scale, (answers - sizes.bias) * scale)
