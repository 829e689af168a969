"""`gh.Rotary`: scores that depend on how far apart two tokens are, as rotary positions make them.

Keys and queries are turned in planes, each by its own frequency times the place. Only the difference of places shows: a
token n, t places before the last token q, has the score `(K n + k) R(t) (Q q + b)`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import cast

import numpy as np

from .._types import ArrayLike, Float
from .._validate import as_real, require_shape


@dataclass(frozen=True, eq=False)
class Turning:
    """One head: `K, Q (r, d)`, `k_bias, q_bias (r,)` and `frequencies (m,)` in radians per place.

    Coordinate j turns with coordinate `m + j`, and those from `2 m` on not at all. A complex factor for each plane is a
    choice (more where frequencies coincide), and so is the layout: no query tells those in use apart.
    """

    K: Float[np.ndarray, "r d"]
    Q: Float[np.ndarray, "r d"]
    k_bias: Float[np.ndarray, " r"]
    q_bias: Float[np.ndarray, " r"]
    frequencies: Float[np.ndarray, " m"]

    @property
    def planes(self) -> list[tuple[float, Float[np.ndarray, "2 d"]]]:
        """Each frequency, with the two directions of keys that it turns into each other."""
        m = len(self.frequencies)
        return [(float(f), self.K[[j, m + j]]) for j, f in enumerate(self.frequencies)]

    def turned(self, x: Float[np.ndarray, "... r"], t: ArrayLike) -> Float[np.ndarray, "... r"]:
        """`R(t) x` for a number of places, or one for each x."""
        m = len(self.frequencies)
        angles = np.asarray(t)[..., None] * self.frequencies
        c, s, one, other = np.cos(angles), np.sin(angles), x[..., :m], x[..., m : 2 * m]
        still = np.broadcast_to(x[..., 2 * m :], (*np.broadcast_shapes(c.shape, one.shape)[:-1], x.shape[-1] - 2 * m))
        return np.concatenate([c * one + s * other, c * other - s * one, still], axis=-1)

    def W(self, t: float) -> Float[np.ndarray, "d d"]:
        return self.K.T @ self.turned(self.Q.T, t).T

    def key_bias(self, t: float) -> Float[np.ndarray, " d"]:
        return self.K.T @ self.turned(self.q_bias, t)

    def scores(self, tokens: Float[np.ndarray, "b n d"]) -> Float[np.ndarray, "b n"]:
        """The scores of all tokens, for the last one."""
        places = cast("np.ndarray", np.arange(tokens.shape[1]))[::-1]
        query = tokens[:, -1] @ self.Q.T + self.q_bias
        return np.sum((tokens @ self.K.T + self.k_bias) * self.turned(query[:, None], places[None]), axis=-1)

    def with_scores(self, W: np.ndarray, key_bias: np.ndarray) -> Turning:
        """These positions with another part that does not turn, so that `W(0)` and `key_bias(0)` are these."""
        d = len(key_bias)
        return Turning(
            np.concatenate([self.K, np.eye(d)]),
            np.concatenate([self.Q, W - self.W(0)]),
            np.append(self.k_bias, np.zeros(d)),
            np.append(self.q_bias, key_bias - self.key_bias(0)),
            self.frequencies,
        )

    def tensors(self) -> dict[str, np.ndarray]:
        return {name: getattr(self, name) for name in ("K", "Q", "k_bias", "q_bias", "frequencies")}


class Rotary:
    """Rotary positions of several heads.

    >>> turning = gh.Rotary.random(8, heads=2, rank=4, seed=1)
    >>> turning.W(0, 0).shape, bool(np.allclose(turning.W(0, 3), turning.W(0, 0)))
    ((8, 8), False)
    """

    def __init__(self, heads: Iterable[Turning]) -> None:
        self.heads: tuple[Turning, ...] = tuple(heads)
        for head in self.heads:
            (r, d), m = head.K.shape, len(head.frequencies)
            require_shape(head.Q.shape == (r, d), f"Q of shape {(r, d)}, as K", head.Q.shape)
            for bias in (head.k_bias, head.q_bias):
                require_shape(bias.shape == (r,), f"biases of shape ({r},)", bias.shape)
            require_shape(2 * m <= r, f"at most {r // 2} frequencies", (m,))

    @classmethod
    def random(cls, dim: int, heads: int, rank: int, seed: int = 0, base: float = 1e4) -> Rotary:
        """Gaussian projections, with the frequencies `base^(-2j / rank)` of LLaMA."""
        rng, m = np.random.default_rng(seed), rank // 2
        scale = 1 / np.sqrt(dim) / rank**0.25

        def head() -> Turning:
            K, Q = scale * rng.standard_normal((2, rank, dim))
            k_bias, q_bias = 0.3 * rng.standard_normal((2, rank)) / rank**0.25
            return Turning(K, Q, k_bias, q_bias, base ** (-np.arange(m) / m))

        return cls(head() for _ in range(heads))

    @property
    def frequencies(self) -> tuple[np.ndarray, ...]:
        """For each head, in radians per place."""
        return tuple(head.frequencies for head in self.heads)

    @property
    def planes(self) -> tuple[list[tuple[float, np.ndarray]], ...]:
        """For each head, its frequencies with the two directions of keys that each turns."""
        return tuple(head.planes for head in self.heads)

    def W(self, h: int, t: float) -> Float[np.ndarray, "d d"]:
        """The W of head h, for tokens t places before the last one."""
        return self.heads[h].W(t)

    def key_bias(self, h: int, t: float) -> Float[np.ndarray, " d"]:
        return self.heads[h].key_bias(t)

    def scores(self, tokens: Float[np.ndarray, "b n d"]) -> Float[np.ndarray, "b h n"]:
        return np.stack([head.scores(tokens) for head in self.heads], axis=1)

    def with_scores(self, *scoring: tuple[np.ndarray, np.ndarray]) -> Rotary:
        return Rotary(head.with_scores(*each) for head, each in zip(self.heads, scoring, strict=True))

    def tensors(self) -> dict[str, np.ndarray]:
        return {f"{h}.{name}": x for h, head in enumerate(self.heads) for name, x in head.tensors().items()}

    @classmethod
    def from_tensors(cls, tensors: dict[str, np.ndarray]) -> Rotary:
        heads: dict[int, dict[str, np.ndarray]] = {}
        for name, tensor in tensors.items():
            h, part = name.split(".")
            heads.setdefault(int(h), {})[part] = as_real(tensor, name)
        return cls(Turning(**heads[h]) for h in sorted(heads))

    def __repr__(self) -> str:
        fastest = max((float(f.max()) for f in self.frequencies if len(f)), default=0.0)
        return f"Rotary(heads={len(self.heads)}, fastest={fastest:.3g} radians per place)"
