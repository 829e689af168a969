"""All weights behind the heads at once, from answers: Gauss-Newton with LSMR, without a matrix.

The answer where the first norm hands on n is `shifts + last_gains * y / sqrt(mean(y^2) + eps)` with `y = gains * n + W2
act(W1 n + b1) + b2` less its mean. Changes of weights are carried through this and back by hand, so that the millions
of weights of a published layer fit as well as the thousands of a small one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.sparse.linalg import LinearOperator, lsmr

from ..._linalg import mean_zero
from ..._models import ACTIVATIONS, Norm, PostNorm, TwoLayer
from ..._network import device_for
from ..._types import Float

NAMES = "W1", "b1", "W2", "b2", "gains", "last_gains", "last_shifts", "eps"
ROUNDS = 12
SOLVED, WORST_CONDITION = 1e-10, 1e12  # of a round, as LSMR understands them
FEWEST_ITERATIONS, MOST_ITERATIONS = 200, 1500  # of it, in one round
ITERATIONS_WORK = 1e11  # products in one round: wide layers take more rounds of fewer iterations
PROBES = 24  # random answers carried back, which show how much each weight matters
ROUNDINGS = 2.0**-50  # of an answer: a box does no better
SLOW = 0.5  # of the last misfit: what falls by less has arrived
SHORTER = 0.25  # of a step that led astray
EQUATIONS = 2.0  # for each weight
NO_GAINS = 1e-6  # of typical output weights: no residual connection goes around the network


@dataclass(frozen=True)
class Weights:
    """Everything behind the first norm; W1 and W2 in coordinates of what has mean 0."""

    W1: Float[np.ndarray, "m p"]
    b1: Float[np.ndarray, " m"]
    W2: Float[np.ndarray, "p m"]
    b2: Float[np.ndarray, " p"]
    gains: Float[np.ndarray, " d"]
    last_gains: Float[np.ndarray, " d"]
    last_shifts: Float[np.ndarray, " d"]
    eps: float
    activation: str

    @property
    def numbers(self) -> int:
        return sum(np.size(getattr(self, name)) for name in NAMES)

    def moved(self, change: np.ndarray) -> Weights:
        parts = unpacked(self, change)
        new = {name: getattr(self, name) + part for name, part in parts.items()}
        new["eps"] = max(float(new["eps"]), 0.0)
        return replace(self, **new)

    def scaled(self) -> Weights:
        """With gains of mean 1, or output weights of that size where there are no gains: nobody sees the size of y."""
        size, typical = float(self.gains.mean()), float(np.sqrt(np.mean(self.W2**2)))
        size = size if abs(size) > NO_GAINS * typical else typical
        turned = np.sign(size)
        return replace(
            self,
            W2=self.W2 / size,
            b2=self.b2 / size,
            gains=self.gains / size,
            eps=self.eps / size**2,
            last_gains=turned * self.last_gains,
        )

    def post_norm(self, norm: Norm, total: np.ndarray, offset: np.ndarray) -> PostNorm:
        Z = mean_zero(len(self.gains)).T
        network = TwoLayer(self.W1 @ Z, self.b1, Z.T @ self.W2, self.b2 @ Z, activation=self.activation)
        last = Norm("layer", self.eps or None, "behind")
        return PostNorm(network, norm, self.gains, last, self.last_gains, self.last_shifts, total, offset)


def unpacked(weights: Weights, change: Any) -> dict[str, Any]:
    parts, at = {}, 0
    for name in NAMES:
        shape = np.shape(getattr(weights, name))
        size = int(np.prod(shape))
        parts[name] = change[at : at + size].reshape(shape)
        at += size
    return parts


@dataclass(frozen=True)
class Tangent:
    """Answers at inputs n with some weights, and how they change with these; its arrays may be on a GPU."""

    weights: Weights
    n: Any  # (N, d)
    Z: Any  # (p, d)
    inputs: Any  # (N, p): n in coordinates
    hidden: Any  # (N, m)
    slope: Any  # (N, m): of each neuron
    y: Any  # (N, p)
    spread: Any  # (N, 1)
    normal: Any  # (N, d): y, normalised
    W2: Any
    last_gains: Any

    @classmethod
    def at(cls, weights: Weights, n: Float[np.ndarray, "N d"]) -> Tangent:
        act, Z = ACTIVATIONS[weights.activation], mean_zero(n.shape[1]).T
        inputs = n @ Z.T
        z = inputs @ weights.W1.T + weights.b1
        hidden = act.value(z)
        y = (weights.gains * n) @ Z.T + hidden @ weights.W2.T + weights.b2
        spread = np.sqrt((y * y).sum(axis=1, keepdims=True) / n.shape[1] + weights.eps)
        normal = (y / spread) @ Z
        slope = act.first(z)
        return cls(weights, n, Z, inputs, hidden, slope, y, spread, normal, weights.W2, weights.last_gains)

    @property
    def answers(self) -> Float[np.ndarray, "N d"]:
        return self.weights.last_shifts + self.last_gains * self.normal

    def on(self, device: str | None) -> Tangent:
        """With its arrays on this device, if there is one."""
        if device is None:
            return self
        import torch

        names = (name for name in self.__dataclass_fields__ if name != "weights")
        return replace(self, **{name: torch.tensor(getattr(self, name), device=device) for name in names})

    def there(self, x: np.ndarray) -> Any:
        """An array where its own are."""
        return x if isinstance(self.n, np.ndarray) else self.n.new_tensor(x)

    def forward(self, change: np.ndarray) -> np.ndarray:
        c, d = unpacked(self.weights, self.there(change)), self.n.shape[1]
        dy = (c["gains"] * self.n) @ self.Z.T + self.hidden @ c["W2"].T + c["b2"]
        dy = dy + (self.slope * (self.inputs @ c["W1"].T + c["b1"])) @ self.W2.T
        along = (self.y * dy).sum(1)[:, None] / d + c["eps"] / 2
        moved = (dy - self.y * along / self.spread**2) / self.spread
        answers = c["last_shifts"] + c["last_gains"] * self.normal + self.last_gains * (moved @ self.Z)
        return back_home(answers.reshape(-1))

    def back(self, answers: np.ndarray) -> np.ndarray:
        r, d = self.there(answers.reshape(tuple(self.n.shape))), self.n.shape[1]
        inner = (self.last_gains * r) @ self.Z.T / self.spread
        along = (self.y * inner).sum(1)[:, None] / self.spread**2
        dy = inner - self.y * along / d
        dz = (dy @ self.W2) * self.slope
        parts = {
            "W1": dz.T @ self.inputs,
            "b1": dz.sum(0),
            "W2": dy.T @ self.hidden,
            "b2": dy.sum(0),
            "gains": ((dy @ self.Z) * self.n).sum(0),
            "last_gains": (r * self.normal).sum(0),
            "last_shifts": r.sum(0),
            "eps": -along.sum().reshape(1) / 2,
        }
        return np.concatenate([back_home(parts[name].reshape(-1)) for name in NAMES])


def back_home(x: Any) -> np.ndarray:
    return x if isinstance(x, np.ndarray) else x.cpu().numpy()


def inputs_needed_for(width: int, dim: int) -> int:
    """How many answers determine all weights, twice over."""
    return int(EQUATIONS * (2 * width + 4)) + dim // 2


def solved_by(here: Tangent, size: np.ndarray, rest: Float[np.ndarray, "N d"]) -> np.ndarray:
    """The change of weights that explains the rest best; `size` is how much each of them matters."""
    work = 12.0 * here.hidden.size * here.n.shape[1]
    now = here.on(device_for(work))
    most = int(np.clip(ITERATIONS_WORK / work, FEWEST_ITERATIONS, MOST_ITERATIONS))

    def forward(x: np.ndarray) -> np.ndarray:
        return now.forward(x / size)

    def back(y: np.ndarray) -> np.ndarray:
        return now.back(y) / size

    shape = (rest.size, now.weights.numbers)
    operator = LinearOperator(shape, matvec=forward, rmatvec=back, dtype=np.float64)  # type: ignore[call-arg]
    return lsmr(operator, rest.ravel(), 0.0, SOLVED, SOLVED, WORST_CONDITION, most)[0] / size


def whole_fit(
    weights: Weights, n: Float[np.ndarray, "N d"], Y: Float[np.ndarray, "N d"], rng: np.random.Generator
) -> tuple[Weights, float]:
    """The weights that answer n with Y best, from some that nearly do; and what is left, over a typical answer."""
    typical = float(np.sqrt(np.mean(Y**2)))
    now = Tangent.at(weights, n)
    rest = Y - now.answers
    least = float(np.sqrt(np.mean(rest**2))) / typical
    for _ in range(ROUNDS):
        if least <= ROUNDINGS:
            break
        probes = [now.back(rng.standard_normal(Y.size)) for _ in range(PROBES)]
        size = np.sqrt(np.mean(np.square(probes), axis=0))
        size = np.maximum(size, 1e-9 * size.max())
        step = solved_by(now, size, rest)
        tried, left = now, np.inf
        for share in (1.0, SHORTER, SHORTER**2):
            tried = Tangent.at(now.weights.moved(share * step), n)
            left = float(np.sqrt(np.mean((Y - tried.answers) ** 2))) / typical
            if left < least:
                break
        if not left < least:
            break
        slow = left > SLOW * least
        now, rest, least = tried, Y - tried.answers, left
        if slow:
            break
    return now.weights.scaled(), least
