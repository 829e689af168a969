"""`gh.MultiHead`: several attention heads, added up."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from scipy.special import softmax  # pyright: ignore[reportMissingTypeStubs, reportUnknownVariableType]

from .._types import ArrayLike, DTypeLike, Float
from .._validate import as_real, require_shape
from .attention import Attention, Scoring
from .circuits import Circuits
from .fused import Layer
from .projections import heads_of, projections_of, with_readout

NUMBERS_AT_ONCE = 2**20  # numbers held at once per array: a few of them fit in the cache


class MultiHead(Circuits):
    """The sum of its heads, each a `gh.Attention`, and one bias.

    >>> import glasshead as gh
    >>> model = gh.MultiHead([gh.Attention.random(8, rank=2, seed=seed) for seed in range(3)], bias=0.5)
    >>> float(model([[0.0] * 8]))
    0.5

    Callable on one sequence `(N, d)` or a batch `(B, N, d)`; the last row is the query token. The answer is one number
    per sequence, or `k` numbers where every `v` has shape `(d, k)`. Biases of the heads are added to `bias`: `.heads`
    have none of their own. Heads made from projections keep their factors; `.W` makes all of them.
    """

    family = "multi-head"

    def __init__(self, heads: Iterable[Any], *, bias: ArrayLike = 0.0) -> None:
        heads = tuple(heads)
        require_alike(heads)
        outputs, bias = heads[0].v.shape[1:], as_real(bias, "bias")
        require_shape(bias.shape in ((), outputs), f"a bias of shape {outputs or '()'}", bias.shape)
        self.dtype: np.dtype[Any] = np.result_type(*(head.dtype for head in heads))
        total = (bias + sum(head.bias for head in heads)).astype(self.dtype)
        self.bias: np.ndarray = total + np.zeros(outputs, self.dtype)
        self.heads: tuple[Attention, ...] = tuple(without_bias(head, self.dtype) for head in heads)
        self._stacked = Stacked(self.heads)

    @classmethod
    def random(cls, dim: int, heads: int, rank: int | None = None, seed: int = 0) -> MultiHead:
        """Gaussian heads, each like `Attention.random`; `rank` keeps their factors."""
        require_head_count(heads)
        seeds = np.random.SeedSequence(seed).generate_state(heads, np.uint64)
        return cls([Attention.random(dim, rank, seed=int(one)) for one in seeds])

    @classmethod
    def from_projections(
        cls,
        Q: ArrayLike,
        K: ArrayLike,
        V: ArrayLike,
        W_o: ArrayLike,
        heads: int,
        *,
        scale: float | None = None,
        q_bias: ArrayLike | None = None,
        v_bias: ArrayLike | None = None,
        o_bias: ArrayLike | None = None,
        readout: ArrayLike | None = None,
    ) -> MultiHead:
        """The layer with fused projections `Q, K, V (d, d)`, rows by head, and output `W_o (k, d)`.

        `scale=None` means `1/sqrt(d_h)` with `d_h` rows of Q per head. `readout (k,)` turns the k outputs into one
        number. A key projection's own bias shifts all scores alike, so there is nothing to pass for it.
        """
        require_head_count(heads)
        W_o, o_bias = with_readout(W_o, o_bias, readout)
        return cls(heads_of(Q, K, V, W_o, heads, scale, q_bias, v_bias), bias=o_bias)

    @classmethod
    def from_torch(cls, module: Any, readout: ArrayLike | None = None) -> MultiHead:
        """The parameters of a `torch.nn.MultiheadAttention` as self-attention, `module(x, x, x)[0]` at the last token.

        `readout (k,)` turns its outputs into one number; without, answers are vectors. Layouts (`batch_first`) and
        causal masks do not matter to the last token. Layers that add keys of their own are refused.
        """
        return cls.from_projections(**projections_of(module), readout=readout)

    @property
    def dim(self) -> int:
        return self.heads[0].dim

    @property
    def W(self) -> Float[np.ndarray, "H d d"]:
        return np.stack([head.W for head in self.heads])

    @property
    def v(self) -> Float[np.ndarray, "H d *k"]:
        return np.stack([head.v for head in self.heads])

    @property
    def key_bias(self) -> Float[np.ndarray, "H d"]:
        return np.stack([head.key_bias for head in self.heads])

    @property
    def has_key_bias(self) -> bool:
        return any(head.has_key_bias for head in self.heads)

    def keys_against(self, last: Float[np.ndarray, "B d"]) -> Float[np.ndarray, "H B d"]:
        """`W_h x + key_bias_h` for each head h and each row x of `last`."""
        return self._stacked.keys_against(last)

    def weights(self, batch: Float[np.ndarray, "B N d"]) -> Float[np.ndarray, "B H N"]:
        """How much each token counts for each head."""
        keys = self.keys_against(np.ascontiguousarray(batch[:, -1]))
        return softmax(keys.swapaxes(0, 1) @ batch.swapaxes(1, 2), axis=-1)

    def __call__(self, X: ArrayLike) -> np.ndarray | np.floating:
        batch, single = self.heads[0].batched(X)
        size = max(1, NUMBERS_AT_ONCE // (len(self.heads) * sum(batch.shape[1:])))
        parts = [self._answers(batch[start : start + size]) for start in range(0, max(1, len(batch)), size)]
        answers = np.concatenate(parts)
        return answers[0] if single else answers

    def _answers(self, batch: np.ndarray) -> np.ndarray:
        return self._stacked.read(batch, self.weights(batch)) + self.bias

    def with_scores(self, *scoring: Scoring) -> MultiHead:
        """The sum of these heads, each with another W and key bias."""
        heads = [head.with_scores(other) for head, other in zip(self.heads, scoring, strict=True)]
        return MultiHead(heads, bias=self.bias)

    def largest_term(self, X: Float[np.ndarray, "*B N d"]) -> Float[np.ndarray, "*B"]:
        """The largest numbers that the answer to each sequence is made of, one of each head, added up."""
        return np.asarray(sum(head.largest_term(X) for head in self.heads) + np.abs(self.bias).max())

    def factor(self, rank: int | None = None) -> tuple[Float[np.ndarray, "H r d"], Float[np.ndarray, "H r d"]]:
        """`Q, K (H, rank, d)` with `K_h^T Q_h = W_h` for every head h, each pair balanced as in `Attention.factor`.

        `rank=None` takes the largest rank of all heads; a head of a lower rank gets rows of zeros.
        """
        parts = [head.factor(rank) for head in self.heads]
        return stack([Q for Q, _ in parts]), stack([K for _, K in parts])

    def numpy(self) -> MultiHead:
        return self

    def _layer(self) -> Layer:
        return Layer(self.heads, self.bias)

    def tensors(self) -> dict[str, np.ndarray]:
        parameters = [head.score_tensors() | {"v": head.v} for head in self.heads]
        named = {f"heads.{h}.{name}": tensor for h, own in enumerate(parameters) for name, tensor in own.items()}
        return named | {"bias": np.asarray(self.bias)}

    @classmethod
    def from_tensors(cls, tensors: dict[str, np.ndarray]) -> MultiHead:
        grouped: dict[int, dict[str, np.ndarray]] = {}
        for key in tensors.keys() - {"bias"}:
            _, h, name = key.split(".")
            grouped.setdefault(int(h), {})[name] = tensors[key]
        heads = [Attention.from_tensors(grouped[h] | {"bias": np.zeros(())}) for h in range(len(grouped))]
        return cls(heads, bias=tensors["bias"])

    def __repr__(self) -> str:
        ranks = sorted({len(own["Q"]) for head in self.heads if "Q" in (own := head.score_tensors())})
        rank = f", rank={'..'.join(str(r) for r in dict.fromkeys((ranks[0], ranks[-1])))}" if ranks else ""
        outputs = "" if self.heads[0].v.ndim == 1 else f", outputs={self.heads[0].v.shape[1]}"
        biases = ", key_bias" * self.has_key_bias + ", bias" * bool(np.any(self.bias))
        return f"MultiHead(dim={self.dim}, heads={len(self.heads)}{rank}{outputs}{biases}, {self.dtype})"


def without_bias(head: Attention, dtype: DTypeLike) -> Attention:
    """The head in this dtype, without its bias."""
    if head.dtype == dtype and not np.any(head.bias):
        return head
    tensors = {name: a.astype(dtype) for name, a in head.tensors().items()}
    return Attention.from_tensors(tensors | {"bias": np.zeros((), dtype)})


def require_head_count(heads: int) -> None:
    if heads < 1:
        raise ValueError(f"expected heads >= 1, got {heads}")


def require_alike(heads: tuple[Any, ...]) -> None:
    require_head_count(len(heads))
    for head in heads:
        if not isinstance(head, Attention):
            raise TypeError(f"expected every head to be a gh.Attention, got {type(head).__name__}")
        require_shape(head.dim == heads[0].dim, f"heads of one dimension, {heads[0].dim} like the first", (head.dim,))
        require_shape(head.v.shape == heads[0].v.shape, f"v of shape {heads[0].v.shape}, like the first", head.v.shape)


class Stacked:
    """Factors padded with zeros to the largest rank where every head has them, otherwise whole matrices."""

    def __init__(self, heads: tuple[Attention, ...]):
        self.dim = heads[0].dim
        scores = [head.score_tensors() for head in heads]
        factored = all("Q" in own for own in scores)
        self.Q = stack([own["Q"] for own in scores] if factored else [head.W for head in heads])
        self.K = stack([own["K"] for own in scores]) if factored else None
        biased = any(head.has_key_bias for head in heads)
        self.key_bias = np.stack([head.key_bias for head in heads])[:, None] if biased else None
        self.v = np.stack([head.v for head in heads])

    def keys_against(self, last: np.ndarray) -> np.ndarray:
        """`(H, B, d)`."""
        rows = last @ self.Q.reshape(-1, self.dim).T
        by_head = rows.reshape(len(last), *self.Q.shape[:2]).swapaxes(0, 1)
        keys = by_head if self.K is None else by_head @ self.K
        return keys if self.key_bias is None else keys + self.key_bias

    def read(self, batch: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """What the heads answer together, for `weights (B, H, N)`."""
        if self.v.ndim == 2:
            return np.einsum("bhn,bhn->b", weights, self.v @ batch.swapaxes(1, 2))
        # With k outputs it is cheaper to add up tokens before reading them than to read every token for every head.
        by_input = self.v.reshape(-1, self.v.shape[2])
        return (weights @ batch).reshape(len(batch), len(by_input)) @ by_input


def stack(matrices: list[np.ndarray]) -> np.ndarray:
    rows = max(map(len, matrices))
    return np.stack([np.pad(M, ((0, rows - len(M)), (0, 0))) for M in matrices])
