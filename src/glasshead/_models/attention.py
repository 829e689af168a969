"""One attention head: softmax over the scores of all tokens against the last one, then a linear read-out."""

from __future__ import annotations

import numpy as np

from .._arrays import as_real, check_shape
from .head import Head, check_size, random_scores, scores_from


class Attention(Head):
    """A single softmax attention head, `softmax_i(x_i . (W x_N + key_bias))^T (X v) + bias`.

    >>> import glasshead as gh
    >>> head = gh.Attention([[1.0, 0.0], [0.0, 1.0]], [1.0, -1.0])
    >>> float(head([[3.0, 2.0]]))
    1.0

    Callable on one sequence `(N, d)` or a batch `(B, N, d)`; the last row is the query token. The answer is one number
    per sequence, or `k` numbers where `v` has shape `(d, k)`. It computes in the dtype of `W` and `v`.
    """

    family = "attention"

    def __init__(self, W, v, *, key_bias=None, bias=0.0):
        self._set(as_real(W, "W"), None, v, key_bias, bias)

    def _set(self, W, factors, v, key_bias, bias) -> None:
        v, bias = as_real(v, "v"), as_real(bias, "bias")
        dtype = np.result_type(v, W if W is not None else factors[0])
        self._set_scores(W, factors, key_bias, dtype)
        dim = self.dim
        check_shape(v.ndim in (1, 2) and len(v) == dim and v.size > 0, f"v of shape ({dim},) or ({dim}, k)", v.shape)
        check_shape(bias.shape in ((), v.shape[1:]), f"a bias of shape {v.shape[1:] or '()'}", bias.shape)
        self.v: np.ndarray = v.astype(dtype, copy=False)
        self.bias = np.broadcast_to(bias.astype(dtype), v.shape[1:])[()]

    @classmethod
    def from_projections(cls, Q, K, V, w_o, *, scale=1.0, q_bias=None, v_bias=None) -> Attention:
        """The head with query, key and value projections `Q, K, V (r, d)` and output `w_o (r,)` or `(r, k)`.

        The factors are kept: the forward pass costs O(r d) per token and `W` is made only when asked for. A key
        projection's own bias shifts all scores alike, so there is nothing to pass for it.
        """
        Q, K, V, w_o = (as_real(a, name) for a, name in ((Q, "Q"), (K, "K"), (V, "V"), (w_o, "w_o")))
        check_shape(Q.ndim == 2 and Q.size > 0, "Q of shape (r, d)", Q.shape)
        check_shape(K.shape == Q.shape, f"K of shape {Q.shape}, like Q", K.shape)
        check_shape(V.ndim == 2 and V.shape[1] == Q.shape[1], f"V of shape (r, {Q.shape[1]})", V.shape)
        check_shape(w_o.ndim in (1, 2) and len(w_o) == len(V), f"w_o of shape ({len(V)},) or ({len(V)}, k)", w_o.shape)
        key_bias = None if q_bias is None else scale * (as_real(q_bias, "q_bias") @ K)
        head = cls.__new__(cls)
        head._set(None, (scale * Q, K), V.T @ w_o, key_bias, 0.0 if v_bias is None else as_real(v_bias, "v_bias") @ w_o)
        return head

    @classmethod
    def random(cls, dim: int, rank: int | None = None, seed: int = 0) -> Attention:
        """A Gaussian head whose scores on unit-variance tokens have variance about `dim`; `rank` keeps its factors."""
        check_size(dim, rank)
        rng = np.random.default_rng(seed)
        v = rng.standard_normal(dim)
        head = cls.__new__(cls)
        head._set(**random_scores(dim, rank, rng), v=v, key_bias=None, bias=0.0)
        return head

    def __call__(self, X) -> np.ndarray | np.floating:
        batch, single = self.batched(X)
        weights, values = self.weights(batch), batch @ self.v
        answers = np.einsum("bn,bn...->b...", weights, values) + self.bias
        return answers[0] if single else answers

    def tensors(self) -> dict[str, np.ndarray]:
        return self.score_tensors() | {"v": self.v, "bias": np.asarray(self.bias)}

    @classmethod
    def from_tensors(cls, tensors: dict[str, np.ndarray]) -> Attention:
        head = cls.__new__(cls)
        head._set(**scores_from(tensors), v=tensors["v"], bias=tensors["bias"])
        return head

    def __repr__(self) -> str:
        outputs = "" if self.v.ndim == 1 else f", outputs={self.v.shape[1]}"
        return f"Attention({self.form}{outputs}{', bias' * bool(np.any(self.bias))}, {self.dtype})"
