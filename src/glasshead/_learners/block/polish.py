"""All that stands behind the heads of a block at once, from answers to single tokens: Gauss-Newton by LSMR.

The network was read behind a constant, an eps and a last norm that were known only nearly, and took in their errors.
Here all of them move together, with the sum of all value maps, until tokens of ordinary size are answered as the box
does. The unembedding stays as it is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse.linalg import LinearOperator, lsmr

from ..._models import Inside, Norm, TwoLayer
from ..._types import Float

ROUNDS = 5
LSMR = {"atol": 1e-9, "btol": 1e-6, "conlim": 1e12, "maxiter": 400}  # a round need not do more than the next can undo
STALLED, STALLED_ROUNDS = 0.7, 2  # of the last misfit: what falls by less has arrived, if it does so twice
FARTHEST = 2.0  # of the logarithm of an eps in one round

Parts = dict[str, np.ndarray]


@dataclass(frozen=True)
class Normalised:
    """What a norm made of tokens, and how that changes with them and with the logarithm of its eps."""

    norm: Norm
    n: Float[np.ndarray, "B d"]
    size: Float[np.ndarray, "B 1"]

    @classmethod
    def at(cls, norm: Norm, x: np.ndarray) -> Normalised:
        n = norm.centred(x)
        size = np.sqrt(np.mean(n**2, axis=1, keepdims=True) + (norm.eps or 0.0))
        return cls(norm, n / size, size)

    def moved(self, x: np.ndarray) -> np.ndarray:
        """By a change of tokens: a symmetric map, the same one forwards and back."""
        x = self.norm.centred(x)
        return (x - self.n * np.mean(self.n * x, axis=1, keepdims=True)) / self.size

    @property
    def by_eps(self) -> np.ndarray:
        return -(self.norm.eps or 0.0) / 2 * self.n / self.size**2


@dataclass(frozen=True)
class Tangent:
    """The answers of all that is behind the heads to tokens alone, and how they change with every parameter."""

    inside: Inside
    seen: Float[np.ndarray, "B d"]  # by the heads
    read: Normalised
    last: Normalised | None
    hidden: Float[np.ndarray, "B m"]
    by_z: Float[np.ndarray, "B m"]
    by_gate: Float[np.ndarray, "B m"]
    answers: Float[np.ndarray, "B k"]

    @classmethod
    def at(cls, inside: Inside, x: Float[np.ndarray, "B d"]) -> Tangent:
        network, a = inside.network, inside.stream(x)
        read = Normalised.at(inside.norm, x if inside.parallel else a)
        z = read.n @ network.W1.T + network.b1
        value, first = network.act.value(z), network.act.first(z)
        gate = np.ones((1, 1)) if network.gate is None else read.n @ network.gate.T + network.gate_bias
        hidden = value * gate
        whole = a + hidden @ network.W2.T + network.b2
        last = None if inside.last is None or inside.last.norm is None else Normalised.at(inside.last.norm, whole)
        answers = whole if inside.last is None else inside.last.logits(whole)
        return cls(inside, inside.front(x), read, last, hidden, first * gate, value, cls.centred(inside, answers))

    @staticmethod
    def centred(inside: Inside, answers: np.ndarray) -> np.ndarray:
        """Of log-probabilities only differences say something."""
        some = inside.last is not None and inside.last.probabilities
        return answers - answers.mean(axis=1, keepdims=True) if some else answers

    def scales(self) -> Parts:
        """How much an answer changes with each parameter, roughly: of these, and in this order."""
        network, n, root = self.inside.network, self.read.n, np.sqrt(len(self.hidden))
        width, size = np.linalg.norm(network.W2, axis=0), float(np.median(self.read.size))
        front = np.maximum(np.linalg.norm(self.by_z, axis=0) * width, 1e-300)
        found = {"W1": np.broadcast_to(front[:, None], network.W1.shape), "b1": front}
        found["W2"] = np.broadcast_to(np.maximum(np.linalg.norm(self.hidden, axis=0), 1e-300), network.W2.shape)
        offset = np.full(n.shape[1], root / min(1.0, size))
        found |= {"b2": np.full(network.outputs, root), "offset": offset, "total": np.tile(offset, (len(offset), 1))}
        found["eps"] = np.array([np.linalg.norm(self.read.by_eps) + 1e-300])
        if network.gate is not None:
            gate = np.maximum(np.linalg.norm(self.by_gate, axis=0) * width, 1e-300)
            found |= {"gate": np.broadcast_to(gate[:, None], network.gate.shape), "gate_bias": gate}
        if self.inside.last is not None:
            found["bias"] = np.full(len(self.inside.last.bias), root)
        if self.last is not None:
            found["last_eps"] = np.array([np.linalg.norm(self.last.by_eps) + 1e-300])
        return found

    def forwards(self, by: Parts) -> np.ndarray:
        """What such changes of parameters make of the answers."""
        network, last, n = self.inside.network, self.inside.last, self.read.n
        whole = by["offset"] + self.seen @ by["total"]
        moved = by["eps"] * self.read.by_eps
        moved = moved if self.inside.parallel else moved + self.read.moved(whole)
        hidden = self.by_z * (moved @ network.W1.T + n @ by["W1"].T + by["b1"])
        if network.gate is not None:
            hidden = hidden + self.by_gate * (moved @ network.gate.T + n @ by["gate"].T + by["gate_bias"])
        whole = whole + hidden @ network.W2.T + self.hidden @ by["W2"].T + by["b2"]
        if self.last is not None:
            whole = self.last.moved(whole) + by["last_eps"] * self.last.by_eps
        return whole if last is None else self.centred(self.inside, whole @ last.E + by["bias"])

    def backwards(self, y: np.ndarray) -> Parts:
        """The transpose of `forwards`."""
        network, last, n, found = self.inside.network, self.inside.last, self.read.n, {}
        if last is not None:
            y = self.centred(self.inside, y)
            found["bias"], y = y.sum(axis=0), y @ last.E.T
        if self.last is not None:
            found["last_eps"], y = np.array([np.sum(self.last.by_eps * y)]), self.last.moved(y)
        found |= {"b2": y.sum(axis=0), "W2": y.T @ self.hidden}
        z = (y @ network.W2) * self.by_z
        found |= {"W1": z.T @ n, "b1": z.sum(axis=0)}
        inner = z @ network.W1
        if network.gate is not None:
            gate = (y @ network.W2) * self.by_gate
            found |= {"gate": gate.T @ n, "gate_bias": gate.sum(axis=0)}
            inner = inner + gate @ network.gate
        found["eps"] = np.array([np.sum(self.read.by_eps * inner)])
        y = y if self.inside.parallel else y + self.read.moved(inner)
        return found | {"offset": y.sum(axis=0), "total": self.seen.T @ y}

    def step(self, rest: Float[np.ndarray, "B k"]) -> Parts:
        """The changes of all parameters that explain the rest best."""
        scales = self.scales()
        ends = np.cumsum([x.size for x in scales.values()])

        def parts(v: np.ndarray) -> Parts:
            each = zip(scales.items(), np.split(v, ends[:-1]), strict=True)
            return {name: part.reshape(scale.shape) / scale for (name, scale), part in each}

        def back(y: np.ndarray) -> np.ndarray:
            found = self.backwards(y.reshape(rest.shape))
            return np.concatenate([(found[name] / scale).ravel() for name, scale in scales.items()])

        def forth(v: np.ndarray) -> np.ndarray:
            return self.forwards(parts(v)).ravel()

        shape = (rest.size, int(ends[-1]))
        operator = LinearOperator(shape, matvec=forth, rmatvec=back, dtype=np.float64)  # type: ignore[call-arg]
        return parts(lsmr(operator, rest.ravel(), **LSMR)[0])


def changed(inside: Inside, by: Parts) -> Inside:
    """With all parameters moved by so much."""
    old, last = inside.network, inside.last
    gate = {} if old.gate is None else {"gate": old.gate + by["gate"], "gate_bias": old.gate_bias + by["gate_bias"]}
    W1, b1, W2, b2 = old.W1 + by["W1"], old.b1 + by["b1"], old.W2 + by["W2"], old.b2 + by["b2"]
    network = TwoLayer(W1, b1, W2, b2, activation=old.activation, **gate)

    def other(norm: Norm, by: np.ndarray) -> Norm:
        return replace(norm, eps=(norm.eps or 0.0) * float(np.exp(np.clip(by[0], -FARTHEST, FARTHEST))) or None)

    if last is not None:
        norm = None if last.norm is None else other(last.norm, by["last_eps"])
        last = replace(last, norm=norm, bias=last.bias + by["bias"])
    offset, total = inside.offset + by["offset"], inside.total + by["total"]
    return replace(inside, network=network, norm=other(inside.norm, by["eps"]), offset=offset, total=total, last=last)


def polished(inside: Inside, x: Float[np.ndarray, "B d"], answers: Float[np.ndarray, "B k"]) -> Inside:
    """The model that answers these tokens best, from one that nearly does."""
    now, answers = Tangent.at(inside, x), Tangent.centred(inside, answers)
    left, stalled = float(np.linalg.norm(answers - now.answers)), 0
    for _ in range(ROUNDS):
        tried = Tangent.at(changed(now.inside, now.step(answers - now.answers)), x)
        rest = float(np.linalg.norm(answers - tried.answers))
        if not rest < left:
            break
        stalled = stalled + 1 if rest > STALLED * left else 0
        now, left = tried, rest
        if stalled >= STALLED_ROUNDS:
            break
    return now.inside
