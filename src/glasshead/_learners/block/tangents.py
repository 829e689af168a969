"""How the answers of all that stands behind the heads of a block change with each of its parameters.

Changes are carried forwards, from parameters to answers, and backwards, as the transpose does, part by part and without
a matrix: through a norm (`NormTangent`), a two-layer network (`NetworkTangent`), and what a block is made of these,
with norms in front (`InsideTangent`) or behind (`PostNormTangent`). Arrays may be those of torch, on a GPU.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from ..._models import Inside, Norm, PostNorm, TwoLayer
from ..._types import Float

Changes = dict[str, Any]  # of parameters, by their names
LONGEST_EPS_STEP = 2.0  # of the logarithm of an eps, at once


@dataclass(frozen=True)
class NormTangent:
    """What a norm made of tokens, and how that changes with them and with its eps."""

    kind: str
    n: Any  # (B, d)
    size: Any  # (B, 1)

    @classmethod
    def at(cls, norm: Norm, x: Float[np.ndarray, "B d"]) -> NormTangent:
        n = norm.centred(x)
        size = np.sqrt(np.mean(n**2, axis=1, keepdims=True) + (norm.eps or 0.0))
        return cls(norm.kind, n / size, size)

    def moved(self, x: Any) -> Any:
        """How normalised tokens move with a change x of tokens: a symmetric map, the same one forwards and back."""
        x = x - x.mean(1)[:, None] if self.kind == "layer" else x
        return (x - self.n * (self.n * x).mean(1)[:, None]) / self.size

    @property
    def by_eps(self) -> Any:
        return -self.n / (2 * self.size**2)


@dataclass(frozen=True)
class NetworkTangent:
    """What a network makes of its inputs n, and how that changes with them and with its weights."""

    n: Any  # (B, d)
    hidden: Any  # (B, m)
    by_z: Any  # (B, m)
    by_gate: Any  # (B, m), or None
    W1: Any
    W2: Any
    gate: Any
    answers: Any  # (B, k)

    @classmethod
    def at(cls, network: TwoLayer, n: Float[np.ndarray, "B d"]) -> NetworkTangent:
        z = n @ network.W1.T + network.b1
        hidden, by_z, by_gate = network.act.value(z), network.act.first(z), None
        if network.gate is not None:
            open_by = n @ network.gate.T + network.gate_bias
            hidden, by_z, by_gate = hidden * open_by, by_z * open_by, hidden
        answers = hidden @ network.W2.T + network.b2
        return cls(n, hidden, by_z, by_gate, network.W1, network.W2, network.gate, answers)

    def forwards(self, by: Changes, moved: Any = None) -> Any:
        """What changes of weights make of the answers; and a change of inputs, if there is any."""
        hidden = self.by_z * (self.n @ by["W1"].T + by["b1"] + (0.0 if moved is None else moved @ self.W1.T))
        if self.gate is not None:
            gate = self.n @ by["gate"].T + by["gate_bias"] + (0.0 if moved is None else moved @ self.gate.T)
            hidden = hidden + self.by_gate * gate
        return hidden @ self.W2.T + self.hidden @ by["W2"].T + by["b2"]

    def backwards(self, y: Any) -> Changes:
        """The gradient by each weight of what has the gradient y by the outputs."""
        z = (y @ self.W2) * self.by_z
        found = {"W1": z.T @ self.n, "b1": z.sum(0), "W2": y.T @ self.hidden, "b2": y.sum(0)}
        if self.gate is not None:
            gate = (y @ self.W2) * self.by_gate
            found |= {"gate": gate.T @ self.n, "gate_bias": gate.sum(0)}
        return found

    def inputs_back(self, y: Any) -> Any:
        """The gradient by the inputs of what has the gradient y by the outputs."""
        found = ((y @ self.W2) * self.by_z) @ self.W1
        return found if self.gate is None else found + ((y @ self.W2) * self.by_gate) @ self.gate


def changed_network(old: TwoLayer, by: Changes) -> TwoLayer:
    gate = {} if old.gate is None else {"gate": old.gate + by["gate"], "gate_bias": old.gate_bias + by["gate_bias"]}
    W1, b1, W2, b2 = old.W1 + by["W1"], old.b1 + by["b1"], old.W2 + by["W2"], old.b2 + by["b2"]
    return TwoLayer(W1, b1, W2, b2, activation=old.activation, **gate)


def changed_eps(norm: Norm, logarithm: float) -> Norm:
    """The norm with the logarithm of its eps moved by so much, as far as one step may; where there is no eps, none."""
    factor = float(np.exp(np.clip(logarithm, -LONGEST_EPS_STEP, LONGEST_EPS_STEP)))
    return replace(norm, eps=(norm.eps or 0.0) * factor or None)


def on_device(tangent: Any, device: str) -> Any:
    """A tangent with its arrays in torch, on that device."""
    import torch

    def moved(x: Any) -> Any:
        if isinstance(x, NormTangent | NetworkTangent):
            return on_device(x, device)
        return torch.tensor(x, device=device) if isinstance(x, np.ndarray) else x

    return replace(tangent, **{each.name: moved(getattr(tangent, each.name)) for each in fields(tangent)})


@dataclass(frozen=True)
class InsideTangent:
    """Norms in front of the heads and of the network, for single tokens. Of an eps the logarithm changes; an
    unembedding stays as it is but for its bias."""

    model: Inside
    seen: Any  # (B, d): by the heads
    read: NormTangent
    network: NetworkTangent
    last: NormTangent | None
    answers: Any  # (B, k)

    @classmethod
    def at(cls, model: Inside, x: Float[np.ndarray, "B d"]) -> InsideTangent:
        a = model.stream(x)
        read = NormTangent.at(model.norm, x if model.parallel else a)
        network = NetworkTangent.at(model.network, read.n)
        whole = a + network.answers
        last = None if model.last is None or model.last.norm is None else NormTangent.at(model.last.norm, whole)
        answers = whole if model.last is None else model.last.logits(whole)
        return cls(model, model.front(x), read, network, last, cls.shown(model, answers))

    @staticmethod
    def shown(model: Inside, answers: np.ndarray) -> np.ndarray:
        """What answers say: of log-probabilities only differences."""
        some = model.last is not None and model.last.probabilities
        return answers - answers.mean(axis=1, keepdims=True) if some else answers

    def changed(self, by: Changes) -> Inside:
        model, last = self.model, self.model.last
        if last is not None:
            norm = None if last.norm is None else changed_eps(last.norm, float(by["last_eps"][0]))
            last = replace(last, norm=norm, bias=last.bias + by["bias"])
        offset, total = model.offset + by["offset"], model.total + by["total"]
        network, norm = changed_network(model.network, by), changed_eps(model.norm, float(by["eps"][0]))
        return replace(model, network=network, norm=norm, offset=offset, total=total, last=last)

    def forwards(self, by: Changes) -> Any:
        model = self.model
        whole = by["offset"] + self.seen @ by["total"]
        moved = by["eps"] * (model.norm.eps or 0.0) * self.read.by_eps
        moved = moved if model.parallel else moved + self.read.moved(whole)
        whole = whole + self.network.forwards(by, moved)
        if model.last is None:
            return whole
        if self.last is not None and model.last.norm is not None:
            whole = self.last.moved(whole) + by["last_eps"] * (model.last.norm.eps or 0.0) * self.last.by_eps
        return self.shown(model, whole @ model.last.E + by["bias"])

    def backwards(self, y: Any) -> Changes:
        model, found = self.model, {}
        if model.last is not None:
            y = self.shown(model, y)
            found["bias"], y = y.sum(0), y @ model.last.E.T
        if self.last is not None and model.last is not None and model.last.norm is not None:
            found["last_eps"] = (model.last.norm.eps or 0.0) * (self.last.by_eps * y).sum().reshape(1)
            y = self.last.moved(y)
        inner = self.network.inputs_back(y)
        found |= self.network.backwards(y)
        found["eps"] = (model.norm.eps or 0.0) * (self.read.by_eps * inner).sum().reshape(1)
        y = y if model.parallel else y + self.read.moved(inner)
        return found | {"offset": y.sum(0), "total": self.seen.T @ y}


@dataclass(frozen=True)
class PostNormTangent:
    """Norms behind the heads and behind the network, where the first of them hands on n."""

    model: PostNorm
    network: NetworkTangent
    last: NormTangent
    last_gains: Any

    @classmethod
    def at(cls, model: PostNorm, n: Float[np.ndarray, "B d"]) -> PostNormTangent:
        network = NetworkTangent.at(model.network, n)
        return cls(model, network, NormTangent.at(model.last, model.gains * n + network.answers), model.last_gains)

    @property
    def answers(self) -> np.ndarray:
        return self.last_gains * self.last.n + self.model.last_shifts

    def changed(self, by: Changes) -> PostNorm:
        model, names = self.model, ("gains", "last_gains", "last_shifts")
        eps = max((model.last.eps or 0.0) + float(by["last_eps"][0]), 0.0)
        moved = {name: getattr(model, name) + by[name] for name in names}
        return replace(
            model, network=changed_network(model.network, by), last=replace(model.last, eps=eps or None), **moved
        )

    def forwards(self, by: Changes) -> Any:
        y = by["gains"] * self.network.n + self.network.forwards(by)
        moved = self.last.moved(y) + by["last_eps"] * self.last.by_eps
        return by["last_shifts"] + by["last_gains"] * self.last.n + self.last_gains * moved

    def backwards(self, y: Any) -> Changes:
        inner = self.last_gains * y
        found = {"last_gains": (y * self.last.n).sum(0), "last_shifts": y.sum(0)}
        found["last_eps"] = (self.last.by_eps * inner).sum().reshape(1)
        inner = self.last.moved(inner)
        return found | self.network.backwards(inner) | {"gains": (inner * self.network.n).sum(0)}
