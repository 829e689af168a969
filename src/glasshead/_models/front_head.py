"""`gh.FrontHead`: a head in front of a network that stays a black box, with a `gh.Norm` before it if there is one.

To answer a sequence it asks the box a shorter one with the same attention output: copies of one token `q + c u` before
the last token q, with `c sigma(c s + log copies) = 1`, where u is the way from q to the output and s its score. A
normalisation of tokens has a way back: every token inside a ball is some token's normalisation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy.special import expit  # pyright: ignore[reportMissingTypeStubs]

from .._types import ArrayLike, Float
from .._validate import as_real, require_shape
from .attention import Head, QueryKey, scores_from
from .norm import Norm

Behind = Callable[[np.ndarray], np.ndarray]
NORM_TENSORS = {f"{kind}_norm_eps": kind for kind in Norm.kinds}  # what a normalisation is in a file


class FrontHead(Head):
    """`softmax_i(x_i . (W x_N + key_bias))`-weighted tokens, and behind them whatever the box does with the result.

    >>> import glasshead as gh
    >>> head = gh.FrontHead([[1.0, 0.0], [0.0, 1.0]], behind=lambda X: X[:, 0].sum(axis=-1) ** 2, residual=False)
    >>> head.attend([[3.0, 4.0]]).tolist(), float(head([[3.0, 4.0]]))
    ([3.0, 4.0], 49.0)

    `behind` asks the box: to answer a sequence the head asks it a shorter one with the same attention output, which the
    box must answer alike if W is right. `residual` says whether the box may also see the last token; then the shorter
    sequence ends with the same one, otherwise it is the attention output alone. Without `behind` the head can attend
    but not answer, and that is how it is saved.

    `norm` is set where the box normalises its tokens before the head (`norm.kind` is "layer" or "rms", `norm.eps`).
    Then W and key_bias are for `norm(x)`, the token with mean 0 (for "layer") and mean square 1: the box's own gains
    and shifts are part of them, and for "layer" `W 1 = W^T 1 = 0`, since no answer shows what W does to a token's mean.
    """

    family = "any-network"

    behind: Any  # a Behind, or None
    residual: bool
    norm: Norm | None

    def __init__(
        self,
        W: ArrayLike,
        *,
        key_bias: ArrayLike | None = None,
        behind: Any = None,
        residual: bool = True,
        norm: Any = None,
    ) -> None:
        self._set(as_real(W, "W"), None, key_bias, behind, residual, norm)

    def _set(
        self,
        W: ArrayLike | None,
        factors: QueryKey | None,
        key_bias: ArrayLike | None,
        behind: Any,
        residual: bool,
        norm: Any,
    ) -> None:
        if behind is not None and not callable(behind):
            raise TypeError(f"expected behind to be a callable that asks the box, got {type(behind).__name__}")
        if norm is not None and not isinstance(norm, Norm):
            raise TypeError(f"expected norm to be None or what a recovered head has as .norm, got {norm!r}")
        self._set_scores(W, factors, key_bias)
        self.behind, self.residual, self.norm = behind, bool(residual), norm

    def seen(self, X: np.ndarray) -> np.ndarray:
        """The tokens as the head sees them."""
        return X if self.norm is None else self.norm(X)

    def attend(self, X: ArrayLike) -> np.ndarray:
        """The attention output: one vector `(d,)` for a sequence `(N, d)`, or `(B, d)` for a batch `(B, N, d)`."""
        batch, single = self.batched(X)
        batch = self.seen(batch)
        out = np.einsum("bn,bnd->bd", self.weights(batch), batch)
        return out[0] if single else out

    def __call__(self, X: ArrayLike) -> np.ndarray | np.generic:
        if self.behind is None:
            raise ValueError(
                "expected a head with behind=, which asks the box: what lies behind this head is not known; "
                "set head.behind = f, or call gh.FrontHead(head.W, key_bias=head.key_bias, behind=f)"
            )
        batch, single = self.batched(X)
        answers: list[Any] = [None] * len(batch)
        for which, shortened in self.shorter(batch):
            asked: np.ndarray = np.asarray(self.behind(shortened))
            for i, y in zip(which, asked, strict=True):
                answers[i] = y
        return np.array(answers)[0] if single else np.array(answers)

    def shorter(self, X: ArrayLike) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Groups of sequences, by their indices in `X`, and shorter ones with the same attention output."""
        return shorter(self, self.batched(X)[0])

    def can_shorten(self, X: ArrayLike) -> bool:
        """Whether some shorter sequence has the same attention output as X."""
        try:
            return len(list(self.shorter(X))) > 0
        except ValueError:
            return False

    def within(self, basis: Float[np.ndarray, "d n"], norm: Norm, behind: Behind | None) -> FrontHead:
        """This head as one on normalised tokens that it sees only by their coordinates in an orthonormal basis."""
        factors = None if self._factors is None else (self._factors[0] @ basis.T, self._factors[1] @ basis.T)
        W = basis @ self.W @ basis.T if factors is None else None
        key_bias = None if self._key_bias is None else basis @ self._key_bias
        head = FrontHead.__new__(FrontHead)
        head._set(W, factors, key_bias, behind, self.residual, norm)
        return head

    def tensors(self) -> dict[str, np.ndarray]:
        tensors = self.score_tensors() | {"residual": np.array(float(self.residual))}
        return tensors if self.norm is None else tensors | {f"{self.norm.kind}_norm_eps": np.array(self.norm.eps)}

    @classmethod
    def from_tensors(cls, tensors: dict[str, np.ndarray], behind: Behind | None = None) -> FrontHead:
        numbers = {name: as_real(tensors[name], name) for name in tensors.keys() & {"residual", *NORM_TENSORS}}
        for name, number in numbers.items():
            require_shape(number.shape == (), f"one number {name}", number.shape)
        norms = [Norm(kind, float(numbers[name])) for name, kind in NORM_TENSORS.items() if name in numbers]
        head = cls.__new__(cls)
        head._set(
            **scores_from(tensors), behind=behind, residual=bool(numbers["residual"]), norm=norms[0] if norms else None
        )
        return head

    def __repr__(self) -> str:
        norm = "" if self.norm is None else f", norm={self.norm.kind}(eps={self.norm.eps:.3g})"
        return f"FrontHead({self.form}, residual={self.residual}{norm})"


MOST_COPIES = 64
LONGEST_FACTOR = 3.0  # times the way to the attention output
FACTOR_GRID = 256
FACTOR_HALVINGS = 60
INSIDE = 1 - 1e-6  # of the ball that normalised tokens fill


def shorter(head: FrontHead, X: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Groups of sequences of equal length: their indices in `X (B, N, d)`, and what to ask instead of them."""
    outputs, last = head.attend(X), head.seen(X[:, -1])
    if not head.residual:
        yield np.arange(len(X)), (outputs if head.norm is None else head.norm.token(outputs))[:, None]
        return
    u = outputs - last
    s = np.einsum("bd,bd->b", u, head.keys_against(last))
    todo, copies = np.arange(len(X)), 1
    while len(todo) and copies <= MOST_COPIES:
        c = least_factor(s[todo], copies)
        tokens = last[todo] + c[:, None] * u[todo]
        fits = np.isfinite(c) & can_be_sent(head, tokens)
        if fits.any():
            yield todo[fits], with_last_token(head, tokens[fits], X[todo[fits], -1], copies)
        todo, copies = todo[~fits], 2 * copies
    if len(todo):
        raise ValueError(
            f"expected sequences whose attention output {MOST_COPIES} copies of one token and the last one can have, "
            f"got one with a score of {s[todo[0]]:.3g} towards it; ask about shorter tokens"
        )


def can_be_sent(head: FrontHead, tokens: np.ndarray) -> np.ndarray:
    """Which tokens are a normalisation of some token, if that matters, and of one that may be sent."""
    longest, fits = getattr(head.behind, "max_norm", None) or np.inf, np.ones(len(tokens), bool)
    if head.norm is not None:
        fits = np.mean(tokens**2, axis=1) < INSIDE
        tokens = head.norm.token(np.where(fits[:, None], tokens, 0.0))
    return fits & (np.linalg.norm(tokens, axis=1) <= longest)


def with_last_token(head: FrontHead, tokens: np.ndarray, last: np.ndarray, copies: int) -> np.ndarray:
    tokens = tokens if head.norm is None else head.norm.token(tokens)
    return np.stack([tokens] * copies + [last], axis=1)


def least_factor(s: np.ndarray, copies: int) -> np.ndarray:
    """The least c from 1 to `LONGEST` with `c sigma(c s + log copies) = 1`, NaN where there is none."""

    def excess(c: np.ndarray) -> np.ndarray:
        return c * expit(c * s + np.log(copies)) - 1

    grid = np.linspace(1.0, LONGEST_FACTOR, FACTOR_GRID)[:, None] + 0 * s
    above = excess(grid) >= 0
    first = above.argmax(axis=0)
    high = np.where(above.any(axis=0), np.take_along_axis(grid, first[None], axis=0)[0], np.nan)
    low = high - (LONGEST_FACTOR - 1) / (FACTOR_GRID - 1)
    for _ in range(FACTOR_HALVINGS):
        middle = (low + high) / 2
        up = excess(middle) >= 0
        low, high = np.where(up, low, middle), np.where(up, middle, high)
    return high
