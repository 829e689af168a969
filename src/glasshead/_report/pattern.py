"""What heads look at: how much every token of a few sample sequences counts for each token after it."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import softmax

from .._learned import suited_length
from .._models import Block, FrontHead

TOKENS = 12  # of a sample sequence
PERIOD = 4  # tokens until the repeated sequence begins again
DIGITS = 6  # of a weight on the page


def sample_sequences(model: Any, seed: int = 0) -> dict[str, np.ndarray]:
    """Sequences `(N, d)` of Gaussian tokens, each under a name that says what it is."""
    rng = np.random.default_rng(seed)
    size = float(np.median([head.W_norm for head in model.heads]))
    key_bias = float(np.median([np.linalg.norm(head.key_bias) for head in model.heads]))
    length = suited_length(model.dim, size, key_bias) / (2 * np.sqrt(model.dim))
    tokens = rng.standard_normal((TOKENS, model.dim))
    return {
        "tokens of a size that suits the heads": length * tokens,
        f"{PERIOD} tokens, again and again": 2 * length * tokens[np.arange(TOKENS) % PERIOD],
        "tokens with entries of size 1": tokens,
    }


def attention_pattern(model: Any, X: np.ndarray) -> np.ndarray:
    """`(H, N, N)`: row n is how much tokens 0 to n count when token n is the last one."""
    pattern = np.zeros((len(model.heads), len(X), len(X)))
    for n in range(len(X)):
        begun = X[None, : n + 1]
        if isinstance(model, Block):
            begun = begun if model.front is None else model.front(begun)
            pattern[:, n, : n + 1] = softmax(model.scores(begun)[0], axis=-1)
        else:
            begun = model.seen(begun) if isinstance(model, FrontHead) else begun
            pattern[:, n, : n + 1] = [head.weights(begun)[0] for head in model.heads]
    return pattern


def patterns(model: Any) -> list[dict[str, Any]]:
    """For the page: each sample's name, and per head the weights of tokens 0 to n for every n."""
    return [
        {
            "name": name,
            "weights": [
                [[float(f"{w:.{DIGITS}g}") for w in row[: n + 1]] for n, row in enumerate(head)]
                for head in attention_pattern(model, X)
            ],
        }
        for name, X in sample_sequences(model).items()
    ]
