"""`gh.Transformer`: one head, and a two-layer ReLU network on what it attends to, `g(x) = w^T ReLU(A^T x + b) + c`.

The network is one that `gh.recover_relu` finds, and one that the straightened oracle undoes: behind a head, a sequence
of two tokens is answered by `g(q + alpha k)`, and with g known that is an equation for the attention weight alpha.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .._types import ArrayLike, Float
from .._validate import as_real, require_shape
from .attention import Head, QueryKey, Scoring, random_scores, require_size, scores_from

SOLVE_STEPS = 40
JUST_INSIDE = 2.0**-60  # at 0 itself all neurons may be at their kinks


@dataclass(frozen=True, eq=False)
class Network:
    """`g(x) = w^T ReLU(A^T x + b) + c`: one number for an input (d,), B of them for (B, d)."""

    A: Float[np.ndarray, "d m"]  # a column for each neuron
    w: Float[np.ndarray, " m"]
    b: Float[np.ndarray, " m"]
    c: float | np.floating

    @property
    def dim(self) -> int:
        return self.A.shape[0]

    @property
    def width(self) -> int:
        return self.A.shape[1]

    def __call__(self, x: ArrayLike) -> Any:
        x = np.asarray(x)
        if x.ndim not in (1, 2) or x.shape[-1] != self.dim:
            raise ValueError(f"expected inputs of shape ({self.dim},) or (B, {self.dim}), got {x.shape}")
        return np.maximum(x @ self.A + self.b, 0) @ self.w + self.c

    @property
    def kink_distances(self) -> Float[np.ndarray, " n"]:
        """How far from the origin each neuron bends, for those that do."""
        norms = np.linalg.norm(self.A, axis=0)
        return np.abs(self.b[norms > 0]) / norms[norms > 0]

    @property
    def farthest_kink(self) -> float:
        return float(self.kink_distances.max(initial=0.0))

    def gradient(self, x: Float[np.ndarray, " d"]) -> Float[np.ndarray, " d"]:
        return self.A @ (self.w * (x @ self.A + self.b > 0))

    def terms(self, x: Float[np.ndarray, "*B d"]) -> Float[np.ndarray, "*B"]:
        """The sum of what the network adds up at x, sizes only."""
        return np.abs(x @ self.A) @ np.abs(self.w)

    def along(self, q: np.ndarray, keys: np.ndarray, alpha: np.ndarray) -> Float[np.ndarray, "B n"]:
        """`g(q + alpha k)` for each pair and every alpha."""
        start, slope = q @ self.A + self.b, keys @ self.A
        return np.maximum(start[:, None] + alpha[:, None] * slope[:, None], 0) @ self.w + self.c

    def steepness(self, q: np.ndarray, keys: np.ndarray, inner: float) -> Float[np.ndarray, " B"]:
        """The least slope of `g(q + alpha k)` for alpha in `[inner, 1 - inner]`, 0 where the slope changes sign."""
        start, slope = q @ self.A + self.b, keys @ self.A
        with np.errstate(divide="ignore", invalid="ignore"):
            kinks = -start / slope
        inside = (kinks > inner) & (kinks < 1 - inner)  # False for NaN: such a neuron never bends
        # Past its kink a neuron is on if its slope is positive, else off: either way the sum grows by w |slope|.
        jumps = np.where(inside, self.w * np.abs(slope), 0.0)
        order = np.argsort(np.where(inside, kinks, 0.0), axis=1)
        first = (slope * (start + inner * slope > 0)) @ self.w
        slopes = first[:, None] + np.c_[np.zeros(len(q)), np.cumsum(np.take_along_axis(jumps, order, 1), axis=1)]
        steady = (np.sign(slopes) == np.sign(first)[:, None]).all(axis=1)
        return np.where(steady, np.abs(slopes).min(axis=1), 0.0)

    def solve(self, q: np.ndarray, keys: np.ndarray, y: Float[np.ndarray, " B"]) -> Float[np.ndarray, " B"]:
        """The alpha with `g(q + alpha k) = y`, where g is monotone along the segment; extrapolated beyond its ends.

        Newton's method on a piecewise linear function: once it lands on the right piece it is exact. Where it would
        leave the bracket it halves that instead.
        """
        start, slope = q @ self.A + self.b, keys @ self.A
        low, high = np.zeros(len(q)), np.ones(len(q))
        rising = self._at(start, slope, high)[0] > self._at(start, slope, low)[0]
        alpha = np.full(len(q), 0.5)
        for _ in range(SOLVE_STEPS):
            value, rate = self._at(start, slope, alpha)
            above = (value > y) == rising
            low, high = np.where(above, low, alpha), np.where(above, alpha, high)
            with np.errstate(divide="ignore", invalid="ignore"):
                step = alpha - (value - y) / rate
            inside = (step >= low) & (step <= high)
            after = np.where(inside, step, (low + high) / 2)
            if np.array_equal(after, alpha):
                break
            alpha = after
        return self._exact(start, slope, alpha, y)

    def kinks_between(self, q: np.ndarray, key: np.ndarray) -> Float[np.ndarray, " n"]:
        """Where g bends on the way from q to q + k, with 0 and 1, for one pair."""
        with np.errstate(divide="ignore", invalid="ignore"):
            kinks = -(q @ self.A + self.b) / (key @ self.A)
        return np.concatenate([[0.0], np.sort(kinks[(kinks > 0) & (kinks < 1)]), [1.0]])

    def _at(self, start: np.ndarray, slope: np.ndarray, alpha: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        active = start + alpha[:, None] * slope
        return np.maximum(active, 0) @ self.w + self.c, (slope * (active > 0)) @ self.w

    def _exact(self, start: np.ndarray, slope: np.ndarray, alpha: np.ndarray, y: np.ndarray) -> np.ndarray:
        """The weight that gives y on the piece where alpha lies, extrapolated: beyond 0 or 1 it says that no weight
        fits. A flat piece tells nothing: NaN."""
        on = start + np.maximum(alpha, JUST_INSIDE)[:, None] * slope > 0
        rate = (slope * on) @ self.w
        rate = np.where(rate == 0, np.nan, rate)
        return (y - self.c - (start * on) @ self.w) / rate


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
        require_shape(inner.ndim == 2 and len(inner) == self.dim, f"A of shape ({self.dim}, m)", inner.shape)
        require_shape(w.shape == inner.shape[1:], f"w of shape {inner.shape[1:]}, one weight per column of A", w.shape)
        b = np.zeros(w.shape) if b is None else as_real(b, "b")
        require_shape(b.shape == w.shape, f"b of shape {w.shape}, like w", b.shape)
        require_shape(c.shape == (), "one number c", c.shape)
        inner, w, b = (array.astype(dtype, copy=False) for array in (inner, w, b))
        self.network: Network = Network(inner, w, b, dtype.type(c))

    @classmethod
    def random(cls, dim: int, width: int, rank: int | None = None, seed: int = 0) -> Transformer:
        """Gaussian weights: scores like `Attention.random`, answers of order 1 on unit-variance tokens."""
        require_size(dim, rank)
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
        """This network behind a head with another W and key bias."""
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
