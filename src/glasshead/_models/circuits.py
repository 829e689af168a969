"""What interpretability looks at in a head: the maps `W_QK` and `W_OV`, their singular values and eigenvalues.

Tokens are rows, as in TransformerLens: the last token x_N scores a token x_i by `x_N W_QK x_i`, and a token adds
`x_i W_OV` to the answer. Neither depends on the basis in which queries and keys, values and outputs meet.
"""

from __future__ import annotations

import numpy as np

from .._types import Float
from .export import Exported


class Circuits(Exported):
    """A model made of heads, each seen as two maps of tokens."""

    @property
    def W_QK(self) -> Float[np.ndarray, "H d d"]:
        """`W^T` of each head: query times key; with rotary positions, of a token at the last one's place."""
        return np.stack([np.asarray(head.W).T for head in self._layer().heads])

    @property
    def W_OV(self) -> Float[np.ndarray, "H d k"]:
        """The value-output map of each head; one column where it answers one number."""
        return np.stack([np.asarray(head.v).reshape(len(head.v), -1) for head in self._layer().heads])

    @property
    def W_QK_singular_values(self) -> Float[np.ndarray, "H d"]:
        """Falling, for each head."""
        return np.linalg.svd(self.W_QK, compute_uv=False)

    @property
    def W_OV_singular_values(self) -> Float[np.ndarray, "H s"]:
        """Falling, for each head."""
        return np.linalg.svd(self.W_OV, compute_uv=False)

    @property
    def W_QK_eigenvalues(self) -> np.ndarray:
        """Complex `(H, d)`, the largest first: positive ones are of directions in which tokens attend to their like."""
        return eigenvalues(self.W_QK)

    @property
    def W_OV_eigenvalues(self) -> np.ndarray:
        """Complex `(H, d)`, the largest first: positive ones are of directions that a head copies. ValueError where
        answers are not as long as tokens."""
        return eigenvalues(self.W_OV)


def eigenvalues(maps: np.ndarray) -> np.ndarray:
    if maps.shape[1] != maps.shape[2]:
        raise ValueError(
            f"expected answers as long as tokens, d = {maps.shape[1]}, got {maps.shape[2]}: "
            "such a map has no eigenvalues, but W_OV_singular_values"
        )
    values = np.linalg.eigvals(maps)
    return np.take_along_axis(values, np.argsort(-np.abs(values), axis=1, kind="stable"), axis=1)
