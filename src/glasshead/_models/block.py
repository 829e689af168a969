"""`gh.Block`: several heads with a residual connection, in front of whatever a Transformer block puts behind them.

The heads and the last token q add up to `u = q + sum_hi a_hi x_i P_h + c`, and the box answers `F(u)`. One token alone
has `u = x S + c` with `S = I + sum_h P_h`, so every sequence is answered like the single token `x* = q + sum_hi a_hi
(x_i - q) P_h S^-1`: to predict an answer, a block asks its box that token. With a norm n in front of the heads that
token is a solution of `x + n(x) sum_h P_h = q + sum_hi a_hi n_i P_h`, and there always is one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy
from typing import Any, cast

import numpy as np
from scipy.special import softmax  # pyright: ignore[reportMissingTypeStubs, reportUnknownVariableType]

from .._types import ArrayLike, Float
from .._validate import as_real, require_shape
from .attention import Attention, Scoring
from .feedforward import Feedforward, random_head
from .fused import Layer
from .inside import Inside
from .multi_head import MultiHead
from .norm import TORCH_EPS, Norm, token_before
from .post_norm import PostNorm, part
from .rotary import Rotary
from .two_layer import TwoLayer
from .whole_layer import WholeLayer

RESIDUAL_MAPS = ("assumed identity", "none", "unknown")
BEHIND = {"behind": Feedforward, "inside": Inside, "post_norm": PostNorm}  # what files hold


class Block(WholeLayer):
    """Heads with value-output maps `v (d, d)`, a residual connection around them, and behind both whatever the box
    does.

    >>> import glasshead as gh
    >>> block = gh.Block.random(8, heads=2, seed=1)
    >>> token = block.single_token([[1.0] * 8, [0.5] * 8])
    >>> bool(abs(block([[1.0] * 8, [0.5] * 8]) - block.behind(token[None, None])[0]).max() < 1e-12), block.asked
    (True, 1)

    `behind` asks the box: a sequence is answered like one token, `single_token(X)`, and the box is asked about that
    one; `asked` counts them. Without `behind` a block can attend but not answer, and that is how it is saved, unless
    `Block.random` made it, or its `network` is known too.

    `residual_map` says what is known of the residual connection: "assumed identity" (then the value maps are
    identified), "none" (there is no such connection) or "unknown"; in the last two cases the value maps are known up to
    one invertible map, and are those that single tokens see. `norms` are normalisations that were recognised, and
    `free (f, d)` the directions of u that no answer sees: value maps are what is left of them without these.

    With a norm before the heads these are for normalised tokens, without gains and shifts: these are part of W, key
    biases and value maps. With `rotary` positions `heads[h].W` is `rotary.W(h, 0)`; `slopes (H,)` are added to scores
    for each place that a token is before the last one (ALiBi has negative ones). `unembedding (d, k)` is what answers
    show of the residual connection in the end, where that is not the residual connection itself. In a `parallel` block
    the network stands beside the heads: a sequence is answered like its last token, moved by what the heads add.
    """

    family = "block"

    def __init__(
        self,
        heads: Iterable[Any],
        *,
        residual_map: str = "assumed identity",
        norms: Sequence[Norm] = (),
        rotary: Rotary | None = None,
        slopes: ArrayLike | None = None,
        unembedding: ArrayLike | None = None,
        parallel: bool = False,
        free: ArrayLike | None = None,
        behind: Any = None,
    ) -> None:
        self._sum = MultiHead(heads)
        d, shape = self._sum.dim, self._sum.v.shape[1:]
        require_shape(shape == (d, d), f"value-output maps v of shape ({d}, {d})", shape)
        if residual_map not in RESIDUAL_MAPS:
            raise ValueError(f"expected residual_map to be one of {RESIDUAL_MAPS}, got {residual_map!r}")
        if behind is not None and not callable(behind):
            raise TypeError(f"expected behind to be a callable that asks the box, got {type(behind).__name__}")
        self.residual_map: str = residual_map
        self.norms: tuple[Norm, ...] = tuple(norms)
        self.parallel: bool = parallel
        self.behind: Any = behind
        self.asked: int = 0
        count = len(self._sum.heads)
        if rotary is not None and len(rotary.heads) != count:
            raise ValueError(f"expected rotary positions of {count} heads, got {len(rotary.heads)}")
        self.rotary: Rotary | None = rotary
        self.slopes: np.ndarray | None = None if slopes is None else as_real(slopes, "slopes")
        if self.slopes is not None:
            require_shape(self.slopes.shape == (count,), f"slopes of shape ({count},)", self.slopes.shape)
        self.unembedding: np.ndarray | None = None if unembedding is None else as_real(unembedding, "unembedding")
        self.free: np.ndarray = np.zeros((0, d)) if free is None else as_real(free, "free")
        require_shape(self.free.ndim == 2 and self.free.shape[1] == d, f"free directions (f, {d})", self.free.shape)

    @classmethod
    def random(cls, dim: int, heads: int, rank: int | None = None, seed: int = 0) -> Block:
        """Gaussian heads of rank `dim // heads` unless told, and behind them a GELU network with a LayerNorm before and
        after it, as in BERT."""
        rng = np.random.default_rng(seed)
        made = [random_head(dim, max(1, dim // heads) if rank is None else rank, rng) for _ in range(heads)]
        block = cls(made, norms=(Norm("layer", TORCH_EPS, "behind"),), free=np.full((1, dim), 1 / np.sqrt(dim)))
        block.behind = Feedforward.random(np.eye(dim) + block._sum.v.sum(axis=0), rng)
        return block

    @property
    def heads(self) -> tuple[Attention, ...]:
        return self._sum.heads

    @property
    def dim(self) -> int:
        return self._sum.dim

    @property
    def dtype(self) -> np.dtype[Any]:
        return self._sum.dtype

    @property
    def has_key_bias(self) -> bool:
        return self._sum.has_key_bias

    @property
    def network(self) -> TwoLayer | None:
        """The network behind the heads, for normalised tokens, where it is known: such a block asks no box."""
        return self.behind.network if isinstance(self.behind, Inside | PostNorm) else None

    @property
    def front(self) -> Norm | None:
        """The norm before the heads, if there is one."""
        return next((norm for norm in self.norms if norm.place == "before"), None)

    def seen(self, X: Float[np.ndarray, "*B d"]) -> Float[np.ndarray, "*B d"]:
        """Tokens as heads see them."""
        return X if self.front is None else self.front(X)

    def scores(self, tokens: Float[np.ndarray, "b n d"]) -> Float[np.ndarray, "b H n"]:
        """The scores of every token for the last one, as heads see tokens: normalised, if there is a norm before."""
        if self.rotary is not None:
            scores = self.rotary.scores(tokens)
        else:
            keys = np.stack([tokens[:, -1] @ np.asarray(h.W).T + h.key_bias for h in self.heads], axis=1)
            scores = np.einsum("bnd,bhd->bhn", tokens, keys)
        if self.slopes is not None:
            scores = scores + self.slopes[:, None] * cast("np.ndarray", np.arange(tokens.shape[1]))[::-1]
        return scores

    def attended(self, tokens: Float[np.ndarray, "b n d"]) -> Float[np.ndarray, "b d"]:
        """What all heads add to the last token, of tokens as heads see them."""
        if self.rotary is None and self.slopes is None:
            return np.asarray(self._sum(tokens))
        weights = np.asarray(softmax(self.scores(tokens), axis=-1))
        return np.einsum("bhn,bnd,hde->be", weights, tokens, self._sum.v, optimize=True)

    def single_token(self, X: ArrayLike) -> np.ndarray:
        """The token that is answered like the sequence X `(N, d)`, or one for each of a batch `(B, N, d)`; NaN where
        it was not found, which a norm before the heads may bring about. In a parallel block it is the last token."""
        batch, single = self.heads[0].batched(X)
        found, total = batch[:, -1], self._sum.v.sum(axis=0)
        if self.front is not None and not self.parallel:
            found = token_before(self.front, total, found + self.attended(self.seen(batch)))
        elif not self.parallel:
            moved, identity = self.attended(batch) - found @ total, self.residual_map == RESIDUAL_MAPS[0]
            if identity:
                moved = cast("np.ndarray", np.linalg.solve((np.eye(self.dim) + total).T, moved.T)).T
            found = found + moved
        return found[0] if single else found

    def __call__(self, X: ArrayLike) -> np.ndarray:
        if self.behind is None:
            raise ValueError(
                "expected a block with behind=, which asks the box: what lies behind these heads is not known; "
                "set block.behind = f"
            )
        batch, one = self.heads[0].batched(X)
        if isinstance(self.behind, Inside | PostNorm):
            whole = self.behind.answers(batch[:, -1], self.attended(self.seen(batch)))
            return whole[0] if one else whole
        self.asked += len(batch)
        answers: np.ndarray = np.asarray(self.behind(self.single_token(batch)[:, None]))
        answers = answers + self.moved(batch) if self.parallel else answers
        return answers[0] if one else answers

    def moved(self, X: Float[np.ndarray, "b n d"]) -> Float[np.ndarray, "b k"]:
        """What the tokens before the last one add to the residual connection, in units of answers."""
        added = self.attended(self.seen(X)) - self.attended(self.seen(X[:, -1:]))
        return added if self.unembedding is None else added @ self.unembedding

    def with_scores(self, *scoring: Scoring) -> Block:
        """This block with another W and key bias for each head, in front of the same box."""
        block = copy(self)
        block._sum, block.asked = self._sum.with_scores(*scoring), 0
        block.rotary = None if self.rotary is None else self.rotary.with_scores(*scoring)
        return block

    def largest_term(self, X: Float[np.ndarray, "*B N d"]) -> Float[np.ndarray, "*B"]:
        """The largest number that is known to be in the answer to each sequence: that of its tokens."""
        return np.asarray(np.abs(X).max(axis=(-2, -1)))

    def factor(self, rank: int | None = None) -> tuple[Float[np.ndarray, "H r d"], Float[np.ndarray, "H r d"]]:
        """`Q, K (H, rank, d)` with `K_h^T Q_h = W_h` for every head h, as `gh.MultiHead.factor`."""
        return self._sum.factor(rank)

    def numpy(self) -> Block:
        return self

    def _layer(self) -> Layer:
        folded = "the norm before has gains of 1 and shifts of 0: its own are folded in"
        mapped = "value maps are those that single tokens see, up to one invertible map of the outputs"
        notes = (folded,) * (self.front is not None) + (mapped,) * (self.residual_map != RESIDUAL_MAPS[0])
        return Layer(self.heads, None, self.rotary, self.slopes, notes)

    def tensors(self) -> dict[str, np.ndarray]:
        named = {name: tensor for name, tensor in self._sum.tensors().items() if name != "bias"}
        named |= {"free": self.free, "residual_map": np.array(float(RESIDUAL_MAPS.index(self.residual_map)))}
        named |= {f"norms.{i}.{norm.kind}.{norm.place}": np.array(norm.eps or 0.0) for i, norm in enumerate(self.norms)}
        named |= {name: x for name in ("slopes", "unembedding") if (x := getattr(self, name)) is not None}
        named |= {"parallel": np.array(1.0)} if self.parallel else {}
        named |= {f"rotary.{name}": x for name, x in (self.rotary.tensors() if self.rotary else {}).items()}
        kept = [(name, self.behind.tensors()) for name, kind in BEHIND.items() if isinstance(self.behind, kind)]
        return named | {f"{place}.{name}": tensor for place, tensors in kept for name, tensor in tensors.items()}

    @classmethod
    def from_tensors(cls, tensors: dict[str, np.ndarray]) -> Block:
        heads = {name: tensor for name, tensor in tensors.items() if name.startswith("heads.")}
        index = as_real(tensors["residual_map"], "residual_map")
        require_shape(index.shape == () and index in range(len(RESIDUAL_MAPS)), "one of the residual maps", index.shape)
        norms = [(name.split("."), float(eps)) for name, eps in sorted(tensors.items()) if name.startswith("norms.")]
        require_shape(tensors["free"].ndim == 2, "free directions (f, d)", tensors["free"].shape)
        behind = [kind.from_tensors(named) for name, kind in BEHIND.items() if (named := part(tensors, name))]
        return cls(
            MultiHead.from_tensors(heads | {"bias": np.zeros(tensors["free"].shape[-1])}).heads,
            residual_map=RESIDUAL_MAPS[int(index)],
            norms=[Norm(kind, eps or None, place) for (_, _, kind, place), eps in norms],
            rotary=Rotary.from_tensors(turning) if (turning := part(tensors, "rotary")) else None,
            slopes=tensors.get("slopes"),
            unembedding=tensors.get("unembedding"),
            parallel="parallel" in tensors,
            free=tensors["free"],
            behind=behind[0] if behind else None,
        )

    def __repr__(self) -> str:
        norms = "".join(f", {norm.kind} norm {norm.place}" for norm in self.norms)
        places = ", rotary positions" * (self.rotary is not None) + ", slopes" * (self.slopes is not None)
        behind = "" if self.behind is not None else ", nothing behind"
        said = f"residual_map={self.residual_map!r}{norms}{places}{behind}"
        return f"Block(dim={self.dim}, heads={len(self.heads)}, {said})"
