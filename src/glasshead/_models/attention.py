"""`gh.Attention`, one softmax attention head, and `Head`, what every model with one head shares.

W is kept as it was given, whole or as two factors `K^T Q` from projections, and made whole only when asked for.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from scipy.special import softmax  # pyright: ignore[reportMissingTypeStubs, reportUnknownVariableType]

from .._linalg import factored_svd, numerical_rank
from .._types import ArrayLike, DTypeLike, Float
from .._validate import as_real, require_rank, require_shape
from .export import Exported
from .fused import Layer

Kind = TypeVar("Kind", bound="Head")
QueryKey = tuple[np.ndarray, np.ndarray]
Scoring = tuple[np.ndarray, np.ndarray]  # W and a key bias


class Head:
    """The part of a model that scores tokens against the last one, `x_i . (W x_N + key_bias)`."""

    _part: np.ndarray  # W, or Q where there are factors
    _factors: QueryKey | None
    _key_bias: np.ndarray | None

    def _set_scores(
        self, W: ArrayLike | None, factors: QueryKey | None, key_bias: ArrayLike | None, dtype: DTypeLike | None = None
    ) -> None:
        """`W`, or `factors = (Q, K)` with `K^T Q = W`."""
        first = as_real(W, "W") if factors is None else factors[0]
        square = first.ndim == 2 and first.shape[0] == first.shape[1] and first.size > 0
        require_shape(square or factors is not None, "W of shape (d, d) with d >= 1", first.shape)
        dtype = first.dtype if dtype is None else dtype
        first = first.astype(dtype, copy=False)
        self._part = first
        self._factors = None if factors is None else (first, factors[1].astype(dtype, copy=False))
        self._key_bias = None
        if key_bias is not None:
            self._key_bias = as_real(key_bias, "key_bias").astype(dtype, copy=False)
            require_shape(self._key_bias.shape == (self.dim,), f"key_bias of shape ({self.dim},)", self._key_bias.shape)

    @property
    def heads(self: Kind) -> tuple[Kind, ...]:
        """The head alone: a sum of heads has several."""
        return (self,)

    @property
    def dim(self) -> int:
        return self._part.shape[1]

    @property
    def dtype(self) -> np.dtype[np.floating]:
        return self._part.dtype

    @property
    def W(self) -> Float[np.ndarray, "d d"]:
        return self._part if self._factors is None else self._factors[1].T @ self._factors[0]

    @property
    def W_norm(self) -> float:
        """The Frobenius norm of W."""
        if self._factors is None:
            return float(np.linalg.norm(self.W))
        Q, K = self._factors
        return float(np.sqrt(max(0.0, np.sum((Q @ Q.T) * (K @ K.T)))))

    @property
    def key_bias(self) -> Float[np.ndarray, " d"]:
        """The vector added to `W x_N`; zeros where the head has none."""
        return np.zeros(self.dim, self.dtype) if self._key_bias is None else self._key_bias

    @property
    def has_key_bias(self) -> bool:
        return self._key_bias is not None and bool(np.any(self._key_bias))

    def keys_against(self, last: Float[np.ndarray, "B d"]) -> Float[np.ndarray, "B d"]:
        """`W x + key_bias` for each row x of `last`: what the other tokens are scored with."""
        keys = last @ self.W.T if self._factors is None else (last @ self._factors[0].T) @ self._factors[1]
        return keys if self._key_bias is None else keys + self._key_bias

    def weights(self, batch: Float[np.ndarray, "B N d"]) -> Float[np.ndarray, "B N"]:
        """How much each token counts."""
        keys = self.keys_against(np.ascontiguousarray(batch[:, -1]))
        return softmax(np.einsum("bnd,bd->bn", batch, keys), axis=-1)

    def batched(self, X: ArrayLike) -> tuple[np.ndarray, bool]:
        """One sequence or a batch of them as a batch, and whether it was one."""
        batch = np.asarray(X, dtype=self.dtype)
        if batch.ndim not in (2, 3) or batch.shape[-1] != self.dim or batch.shape[-2] < 1:
            raise ValueError(f"expected sequences of shape (N, {self.dim}) or (B, N, {self.dim}), got {batch.shape}")
        return (batch, False) if batch.ndim == 3 else (batch[None], True)

    def factor(self, rank: int | None = None) -> tuple[Float[np.ndarray, "r d"], Float[np.ndarray, "r d"]]:
        """`Q, K (rank, d)` with `K^T Q = W`, balanced (equal singular values): the projections up to their gauge.

        `rank=None` keeps every singular value above the rounding level; a smaller rank gives the nearest such head.
        """
        require_rank(rank, self.dim)
        U, s, Vt = np.linalg.svd(self.W) if self._factors is None else factored_svd(*self._factors)
        keep = min(len(s), rank or max(1, numerical_rank(s, self.dim)))
        root, missing = np.sqrt(s[:keep])[:, None], ((0, (rank or keep) - keep), (0, 0))
        return np.pad(root * Vt[:keep], missing), np.pad(root * U[:, :keep].T, missing)

    def numpy(self: Kind) -> Kind:
        return self

    def score_tensors(self) -> dict[str, np.ndarray]:
        tensors = {"W": self.W} if self._factors is None else {"Q": self._factors[0], "K": self._factors[1]}
        return tensors if self._key_bias is None else tensors | {"key_bias": self._key_bias}

    @property
    def form(self) -> str:
        """What a repr says about it."""
        rank = "" if self._factors is None else f", rank={len(self._factors[0])}"
        return f"dim={self.dim}{rank}" + ", key_bias" * self.has_key_bias


def scores_from(tensors: dict[str, np.ndarray]) -> dict[str, Any]:
    """The arguments of `_set_scores` in what `score_tensors` gave, or a file says that it did."""
    factors = None
    if "W" not in tensors:
        factors = Q, K = as_real(tensors["Q"], "Q"), as_real(tensors["K"], "K")
        require_factors(Q, K)
    return {"W": tensors.get("W"), "factors": factors, "key_bias": tensors.get("key_bias")}


def require_factors(Q: np.ndarray, K: np.ndarray) -> None:
    require_shape(Q.ndim == 2 and Q.size > 0, "Q of shape (r, d)", Q.shape)
    require_shape(K.shape == Q.shape, f"K of shape {Q.shape}, like Q", K.shape)


def random_scores(dim: int, rank: int | None, rng: np.random.Generator) -> dict[str, Any]:
    """Gaussian scores: on unit-variance tokens of variance about `dim`; `rank` keeps the factors."""
    if rank is None:
        return {"W": rng.standard_normal((dim, dim)) / np.sqrt(dim), "factors": None}
    Q, K = rng.standard_normal((2, rank, dim))
    return {"W": None, "factors": (Q / np.sqrt(rank * dim), K)}


def require_size(dim: int, rank: int | None) -> None:
    if dim < 1:
        raise ValueError(f"expected dim >= 1, got {dim}")
    require_rank(rank, dim)


class Attention(Head, Exported):
    """A single softmax attention head, `softmax_i(x_i . (W x_N + key_bias))^T (X v) + bias`.

    >>> import glasshead as gh
    >>> head = gh.Attention([[1.0, 0.0], [0.0, 1.0]], [1.0, -1.0])
    >>> float(head([[3.0, 2.0]]))
    1.0

    Callable on one sequence `(N, d)` or a batch `(B, N, d)`; the last row is the query token. The answer is one number
    per sequence, or `k` numbers where `v` has shape `(d, k)`. It computes in the dtype of `W` and `v`.
    """

    family = "attention"

    def __init__(self, W: ArrayLike, v: ArrayLike, *, key_bias: ArrayLike | None = None, bias: ArrayLike = 0.0) -> None:
        self._set(as_real(W, "W"), None, v, key_bias, bias)

    def _set(
        self, W: np.ndarray | None, factors: QueryKey | None, v: ArrayLike, key_bias: ArrayLike | None, bias: ArrayLike
    ) -> None:
        v, bias = as_real(v, "v"), as_real(bias, "bias")
        dtype = np.result_type(v, *([W] if factors is None else factors[:1]))
        self._set_scores(W, factors, key_bias, dtype)
        dim = self.dim
        require_shape(v.ndim in (1, 2) and len(v) == dim and v.size > 0, f"v of shape ({dim},) or ({dim}, k)", v.shape)
        require_shape(bias.shape in ((), v.shape[1:]), f"a bias of shape {v.shape[1:] or '()'}", bias.shape)
        self.v: np.ndarray = v.astype(dtype, copy=False)
        self.bias: np.ndarray = np.broadcast_to(bias.astype(dtype), v.shape[1:])[()]

    @classmethod
    def from_projections(
        cls,
        Q: ArrayLike,
        K: ArrayLike,
        V: ArrayLike,
        w_o: ArrayLike,
        *,
        scale: float = 1.0,
        q_bias: ArrayLike | None = None,
        v_bias: ArrayLike | None = None,
    ) -> Attention:
        """The head with query, key and value projections `Q, K, V (r, d)` and output `w_o (r,)` or `(r, k)`.

        The factors are kept: the forward pass costs O(r d) per token and `W` is made only when asked for. A key
        projection's own bias shifts all scores alike, so there is nothing to pass for it.
        """
        q, k, v, w_o = as_real(Q, "Q"), as_real(K, "K"), as_real(V, "V"), as_real(w_o, "w_o")
        require_factors(q, k)
        require_shape(v.ndim == 2 and v.shape[1] == q.shape[1], f"V of shape (r, {q.shape[1]})", v.shape)
        require_shape(
            w_o.ndim in (1, 2) and len(w_o) == len(v), f"w_o of shape ({len(v)},) or ({len(v)}, k)", w_o.shape
        )
        key_bias = None if q_bias is None else scale * (as_real(q_bias, "q_bias") @ k)
        head = cls.__new__(cls)
        head._set(None, (scale * q, k), v.T @ w_o, key_bias, 0.0 if v_bias is None else as_real(v_bias, "v_bias") @ w_o)
        return head

    @classmethod
    def random(cls, dim: int, rank: int | None = None, seed: int = 0) -> Attention:
        """A Gaussian head whose scores on unit-variance tokens have variance about `dim`; `rank` keeps its factors."""
        require_size(dim, rank)
        rng = np.random.default_rng(seed)
        head = cls.__new__(cls)
        head._set(v=rng.standard_normal(dim), **random_scores(dim, rank, rng), key_bias=None, bias=0.0)
        return head

    def __call__(self, X: ArrayLike) -> np.ndarray | np.floating:
        batch, single = self.batched(X)
        answers = np.einsum("bn,bn...->b...", self.weights(batch), batch @ self.v) + self.bias
        return answers[0] if single else answers

    def with_scores(self, scoring: Scoring) -> Attention:
        """This head with another W and key bias."""
        return Attention(scoring[0], v=self.v, key_bias=scoring[1], bias=self.bias)

    def with_values(self, v: ArrayLike, bias: ArrayLike = 0.0) -> Attention:
        """The head with these scores, another v and another bias."""
        return Attention.from_tensors(self.score_tensors() | {"v": np.asarray(v), "bias": np.asarray(bias)})

    def largest_term(self, X: Float[np.ndarray, "*B N d"]) -> Float[np.ndarray, "*B"]:
        """The largest number that the answer to each sequence is made of."""
        values = (X @ self.v).reshape(*X.shape[:-1], -1)
        return np.asarray(np.abs(values).max(axis=(-2, -1)) + np.abs(self.bias).max())

    def _layer(self) -> Layer:
        return Layer((self,), self.bias)

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
