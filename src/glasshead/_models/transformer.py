"""`gh.Transformer`: one head, and a two-layer ReLU network on what it attends to."""

from __future__ import annotations

import numpy as np

from .._types import ArrayLike, Float
from .._validate import as_real, check_shape
from .attention import Head, QueryKey, Scoring, check_size, random_scores, scores_from
from .network import Network


class Transformer(Head):
    """`w^T ReLU(A^T x + b) + c` of the attention output `x = softmax_i(x_i . (W x_N + key_bias))^T X`.

    >>> import glasshead as gh
    >>> model = gh.Transformer([[1.0, 0.0], [0.0, 1.0]], A=[[1.0, -1.0], [0.0, 2.0]], w=[1.0, 3.0])
    >>> float(model([[2.0, 2.0]]))
    8.0

    `A` has shape `(d, m)`, one column per neuron. The one-layer Transformer of the paper has `b = c = 0`. Callable on
    one sequence `(N, d)` or a batch `(B, N, d)`, one number per sequence.
    """

    family = "transformer"

    def __init__(
        self,
        W: ArrayLike,
        A: ArrayLike,
        w: ArrayLike,
        *,
        b: ArrayLike | None = None,
        c: ArrayLike = 0.0,
        key_bias: ArrayLike | None = None,
    ) -> None:
        self._set(as_real(W, "W"), None, key_bias, A, w, b, c)

    def _set(
        self,
        W: np.ndarray | None,
        factors: QueryKey | None,
        key_bias: ArrayLike | None,
        A: ArrayLike,
        w: ArrayLike,
        b: ArrayLike | None,
        c: ArrayLike,
    ) -> None:
        inner, w, c = as_real(A, "A"), as_real(w, "w"), as_real(c, "c")
        dtype = np.result_type(inner, w, *([W] if factors is None else factors[:1]))
        self._set_scores(W, factors, key_bias, dtype)
        check_shape(inner.ndim == 2 and len(inner) == self.dim, f"A of shape ({self.dim}, m)", inner.shape)
        check_shape(w.shape == inner.shape[1:], f"w of shape {inner.shape[1:]}, one weight per column of A", w.shape)
        b = np.zeros(w.shape) if b is None else as_real(b, "b")
        check_shape(b.shape == w.shape, f"b of shape {w.shape}, like w", b.shape)
        check_shape(c.shape == (), "one number c", c.shape)
        inner, w, b = (array.astype(dtype, copy=False) for array in (inner, w, b))
        self.network = Network(inner, w, b, dtype.type(c))

    @classmethod
    def random(cls, dim: int, width: int, rank: int | None = None, seed: int = 0) -> Transformer:
        """Gaussian weights: scores like `Attention.random`, answers of order 1 on unit-variance tokens."""
        check_size(dim, rank)
        if width < 1:
            raise ValueError(f"expected width >= 1, got {width}")
        rng = np.random.default_rng(seed)
        A, w = rng.standard_normal((dim, width)) / np.sqrt(dim), rng.standard_normal(width) / np.sqrt(width)
        model = cls.__new__(cls)
        model._set(**random_scores(dim, rank, rng), key_bias=None, A=A, w=w, b=None, c=0.0)
        return model

    @classmethod
    def around(
        cls, head: Head, A: ArrayLike, w: ArrayLike, *, b: ArrayLike | None = None, c: ArrayLike = 0.0
    ) -> Transformer:
        """The Transformer with the scores of `head`."""
        model = cls.__new__(cls)
        model._set(**scores_from(head.score_tensors()), A=A, w=w, b=b, c=c)
        return model

    @property
    def A(self) -> Float[np.ndarray, "d m"]:
        return self.network.A

    @property
    def w(self) -> Float[np.ndarray, " m"]:
        return self.network.w

    @property
    def b(self) -> Float[np.ndarray, " m"]:
        return self.network.b

    @property
    def c(self) -> float | np.floating:
        return self.network.c

    @property
    def width(self) -> int:
        return self.network.width

    @property
    def has_biases(self) -> bool:
        """Whether the network has any."""
        return bool(np.any(self.b) or np.any(self.c))

    def __call__(self, X: ArrayLike) -> np.ndarray | np.floating:
        batch, single = self.batched(X)
        answers = self.network(np.einsum("bn,bnd->bd", self.weights(batch), batch))
        return answers[0] if single else answers

    def with_scores(self, scoring: Scoring) -> Transformer:
        """The same network behind a head with another W and key bias."""
        W, key_bias = scoring
        return Transformer(W, A=self.A, w=self.w, b=self.b, c=self.c, key_bias=key_bias)

    def largest_term(self, X: Float[np.ndarray, "*B N d"]) -> Float[np.ndarray, "*B"]:
        """The largest number that the answer to each sequence is made of: all that the network adds up, sizes only."""
        largest = self.network.terms(X).max(axis=-1)
        return np.asarray(largest + np.abs(self.w) @ np.abs(self.b) + abs(float(self.c)))

    def tensors(self) -> dict[str, np.ndarray]:
        return self.score_tensors() | {"A": self.A, "w": self.w, "b": self.b, "c": np.asarray(self.c)}

    @classmethod
    def from_tensors(cls, tensors: dict[str, np.ndarray]) -> Transformer:
        model = cls.__new__(cls)
        model._set(**scores_from(tensors), A=tensors["A"], w=tensors["w"], b=tensors["b"], c=tensors["c"])
        return model

    def __repr__(self) -> str:
        return f"Transformer({self.form}, width={self.width}{', biases' * self.has_biases}, {self.dtype})"
