"""Decoder blocks to be taken apart: a norm in front of the heads and of the network, rotary positions, shared heads.

They are functions of their own, independent of what `glasshead` has for models, and answer for the last token only.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.special import erf, expit, softmax

ACTIVATIONS = {
    "gelu": lambda z: z * (1 + erf(z / np.sqrt(2))) / 2,
    "relu": lambda z: np.maximum(z, 0.0),
}


@dataclass
class Decoder:
    """`a = x + heads(norm(x))`, then `a + network(norm(a))`; behind that, if `final` is a number of logits, a last norm
    and an unembedding. `sharing` heads stand on one key and value head each."""

    d: int
    heads: int
    seed: int = 0
    rank: int | None = None
    sharing: int = 1
    norm: str = "rms"
    eps: float = 1e-6
    theta: np.ndarray | None = None  # frequencies of rotary positions; rank // 2 of them, or fewer
    neighbours: bool = False  # pairs of neighbouring coordinates turn, or those of the first half with the second
    network: str = "swiglu"
    biases: bool = True
    size: float = 1.0  # of scores
    final: int = 0
    probabilities: bool = False
    parallel: bool = False  # the network beside the heads
    slopes: np.ndarray | None = None  # of scores, for each head, per place (ALiBi)
    weights: dict = field(default_factory=dict)

    def __post_init__(self):
        g = np.random.default_rng(self.seed)
        d, H, r = self.d, self.heads, self.rank or self.d // self.heads
        self.rank, G, m = r, H // self.sharing, 8 * d // 3
        at = self.weights
        at["gain"], at["shift"] = 1 + 0.2 * g.normal(size=(3, d)), 0.2 * g.normal(size=(3, d)) * (self.norm == "layer")
        at["Q"], at["K"], at["V"] = (g.normal(size=(n, d, r)) / np.sqrt(d) for n in (H, G, G))
        at["Q"] *= self.size
        at["bq"], at["bk"], at["bv"] = (0.3 * self.biases * g.normal(size=(n, r)) for n in (H, G, G))
        at["O"], at["bo"] = g.normal(size=(H, r, d)) / np.sqrt(d), 0.2 * self.biases * g.normal(size=d)
        at["A"], at["B"] = g.normal(size=(2, d, m)) / np.sqrt(d)
        at["a"] = 0.2 * self.biases * g.normal(size=m)
        at["C"] = g.normal(size=(m, d)) / np.sqrt(m)
        at["E"] = g.normal(size=(d, self.final)) / np.sqrt(d) if self.final else np.eye(d)
        self.of = np.arange(H) // self.sharing

    @property
    def dim(self) -> int:
        return self.d

    def normed(self, x, i):
        x = x - x.mean(-1, keepdims=True) if self.norm == "layer" else x
        x = x / np.sqrt(np.mean(x**2, -1, keepdims=True) + self.eps)
        return x * self.weights["gain"][i] + self.weights["shift"][i]

    def turned(self, z, places):
        """z (.., N, r), turned by how far along each place is."""
        if self.theta is None:
            return z
        k = len(self.theta)
        c, s = np.cos(np.outer(places, self.theta)), np.sin(np.outer(places, self.theta))
        a, b = (slice(0, 2 * k, 2), slice(1, 2 * k, 2)) if self.neighbours else (slice(0, k), slice(k, 2 * k))
        out = z.copy()
        out[..., a], out[..., b] = z[..., a] * c - z[..., b] * s, z[..., a] * s + z[..., b] * c
        return out

    def attended(self, X):
        at, n, places = self.weights, self.normed(X, 0), np.arange(X.shape[1])
        out = at["bo"]
        for h, g in enumerate(self.of):
            k = self.turned(self.projected(n @ at["K"][g] + at["bk"][g]), places)
            q = self.turned(self.projected(n[:, -1:] @ at["Q"][h] + at["bq"][h]), places[-1:])[:, 0]
            s = np.einsum("bnr,br->bn", k, q) / np.sqrt(self.rank)
            if self.slopes is not None:
                s = s - self.slopes[h] * (places[-1] - places)
            out = out + np.einsum("bn,bnr->br", self.weighed(s), n @ at["V"][g] + at["bv"][g]) @ at["O"][h]
        return out

    def projected(self, z):
        return z

    def weighed(self, scores):
        return softmax(scores, axis=1)

    def __call__(self, X):
        at, x = self.weights, X[:, -1]
        a = x + self.attended(X)
        h = self.normed(x if self.parallel else a, 1)
        inner = h @ at["A"] + at["a"]
        inner = inner * expit(inner) * (h @ at["B"]) if self.network == "swiglu" else ACTIVATIONS[self.network](inner)
        y = a + inner @ at["C"]
        if not self.final:
            return y
        logits = self.normed(y, 2) @ at["E"]
        return logits - np.log(np.exp(logits).sum(-1, keepdims=True)) if self.probabilities else logits

    # What can be known, for tokens that are normalised without gain or shift.

    def seen(self) -> np.ndarray:
        return np.eye(self.d) - (1 / self.d if self.norm == "layer" else 0.0)

    def P(self, h):
        at = self.weights
        return self.seen() @ (at["gain"][0][:, None] * at["V"][self.of[h]]) @ at["O"][h]

    def W(self, h, t=0):
        """Of a token t places before the last."""
        return self.scoring(h, t)[0]

    def scoring(self, h, t=0):
        at, seen = self.weights, self.seen()
        K, Q = (seen @ (at["gain"][0][:, None] * M) for M in (at["K"][self.of[h]], at["Q"][h]))
        M = self.turned(np.eye(self.rank)[:, None], np.array([0]))[:, 0]
        M = M @ self.turned(np.eye(self.rank)[:, None], np.array([t]))[:, 0].T
        b = at["shift"][0] @ at["Q"][h] + at["bq"][h]
        return K @ M @ Q.T / np.sqrt(self.rank), K @ M @ b / np.sqrt(self.rank)


def llama_frequencies(planes: int, base: float = 1e4) -> np.ndarray:
    return base ** (-np.arange(planes) / planes)


# Boxes beside the family.


class Window(Decoder):
    """Only the last 16 tokens are seen."""

    def weighed(self, scores):
        return softmax(np.where(np.arange(scores.shape[1])[::-1] < 16, scores, -np.inf), axis=1)


class SoftCapped(Decoder):
    def weighed(self, scores):
        return softmax(3 * np.tanh(scores / 3), axis=1)


class HardlyCapped(Decoder):
    """At 50, as in a published model: scores of ordinary tokens are off by a thousandth."""

    def weighed(self, scores):
        return softmax(50 * np.tanh(scores / 50), axis=1)


class SelfBonus(Decoder):
    """The last token has a little more for itself than positions say."""

    def weighed(self, scores):
        return softmax(scores + 1e-3 * (np.arange(scores.shape[1]) == scores.shape[1] - 1), axis=1)


class Sink(Decoder):
    def weighed(self, scores):
        return np.exp(scores) / (1 + np.exp(scores).sum(axis=1, keepdims=True))


class Sigmoid(Decoder):
    def weighed(self, scores):
        return expit(scores)


class QKNorm(Decoder):
    """Keys and queries are normalised once more: scores are no longer bilinear."""

    def projected(self, z):
        return 1.5 * z / np.sqrt(np.mean(z**2, axis=-1, keepdims=True) + 1e-6)


class TwoLayers(Decoder):
    def __call__(self, X):
        first = np.stack([super(TwoLayers, self).__call__(X[:, : i + 1]) for i in range(X.shape[1])], axis=1)
        return super().__call__(first)


class Experts(Decoder):
    """The sign of a coordinate of the last token chooses between two sets of heads."""

    def __post_init__(self):
        super().__post_init__()
        self.other = Decoder(**{name: getattr(self, name) for name in ("d", "heads", "norm")}, seed=self.seed + 1000)

    def attended(self, X):
        return np.where(X[:, -1:, 0] > 0, super().attended(X), self.other.attended(X))


class KeyExperts(Decoder):
    """Each token chooses by itself."""

    def __post_init__(self):
        super().__post_init__()
        self.other = np.random.default_rng(self.seed + 1000).normal(size=(self.d, self.d)) / np.sqrt(self.d)

    def attended(self, X):
        return super().attended(np.where(X[..., :1] > 1, X @ self.other, X))


class FirstPlace(Decoder):
    """Answers for the first token."""

    def __call__(self, X):
        return super().__call__(X[:, ::-1])


class Sandwich(Decoder):
    """Another norm between the heads and the residual connection."""

    def attended(self, X):
        return self.normed(super().attended(X), 2)


class Places(Decoder):
    """A vector for each place is added in front, as in GPT-2: such boxes are recovered."""

    @property
    def table(self):
        return 0.3 * np.random.default_rng(self.seed).normal(size=(512, self.d))

    def placed(self, X):
        return X + self.table[: X.shape[1]]

    def __call__(self, X):
        return super().__call__(self.placed(X))


class PlacesBehind(Places):
    """A vector for each place is added behind the norm."""

    def placed(self, X):
        return X

    def normed(self, x, i):
        return super().normed(x, i) + (self.table[: x.shape[1]] if i == 0 else 0.0)


class PlacesTimes(Places):
    """Tokens are multiplied by a vector for each place."""

    def placed(self, X):
        return X * (1 + self.table[: X.shape[1]])


class PlacesOfKeys(Places):
    """A vector for each place is added to all tokens but the last."""

    def placed(self, X):
        return np.concatenate([super().placed(X[:, :-1]), X[:, -1:]], axis=1)


class PlacesFromTheEnd(Places):
    def placed(self, X):
        return super().placed(X[:, ::-1])[:, ::-1]


OTHER_PLACES = (PlacesBehind, PlacesTimes, PlacesOfKeys, PlacesFromTheEnd)
NEIGHBOURS = (Window, SoftCapped, HardlyCapped, SelfBonus, Sink, Sigmoid, QKNorm, TwoLayers, Experts, KeyExperts)
NEIGHBOURS = (*NEIGHBOURS, FirstPlace, Sandwich, *OTHER_PLACES)


class TorchBlock:
    """`nn.TransformerEncoderLayer` as it is initialised."""

    def __init__(self, d, heads, width, seed, activation="relu", dtype="float64", norm_first=True):
        import torch

        import glasshead as gh

        torch.manual_seed(seed)
        kind = getattr(torch, dtype)
        layer = torch.nn.TransformerEncoderLayer(
            d, heads, width, dropout=0.0, activation=activation, batch_first=True, norm_first=norm_first
        )
        self.d, self.heads, self.dtype, self.norm_first = d, heads, dtype, norm_first
        self.inside = gh.MultiHead.from_torch(layer.self_attn.double()).heads
        self.layer = layer.to(kind).eval()

    @property
    def dim(self):
        return self.d

    def __call__(self, X):
        import torch

        with torch.no_grad():
            return self.layer(torch.as_tensor(X, dtype=getattr(torch, self.dtype)))[:, -1].numpy()

    def P(self, h):
        return np.asarray(self.inside[h].v) - np.mean(self.inside[h].v, axis=0)

    def scoring(self, h, t=0):
        seen = np.eye(self.d) - (1 / self.d if self.norm_first else 0.0)
        return seen @ self.inside[h].W @ seen, seen @ self.inside[h].key_bias

    def W(self, h, t=0):
        return self.scoring(h)[0]
