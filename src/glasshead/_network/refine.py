"""All weights at once, from answers: Gauss-Newton, with what is linear projected out.

Second derivatives give every weight to about as many digits as differences have, a box's answers to all of its digits.
Output weights and biases enter linearly and are solved for in every round; the rest follows from the linearised answers
by LSMR, without a matrix: for the tens of thousands of weights of a wide network it would not fit into memory.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse.linalg import LinearOperator, lsmr

from .._linalg import LEAST_DIVISOR, rms
from .._models import TwoLayer
from .._types import Float
from .signs import Sided

REFINING_ROUNDS = 40
LSMR = {"atol": 1e-9, "btol": 1e-6, "conlim": 1e12, "maxiter": 1000}  # a round need not do more than the next can undo
STALLED = 0.7  # of the last misfit: what falls by less has arrived,
STALLED_ROUNDS = 2  # if it does so twice
DAMPED = 0.03  # of columns of length 1: what is added to them where a full step leads astray
ANSWER_ROUNDING = 2.0**-51  # of a typical answer: a box adds up its neurons no better
NOISE_REACHED = 4.0  # times the noise of an answer: what is left is no more than that
ARRIVED = 30.0  # times the noise of an answer: no step helps beyond that
LONGEST_DAMPED = 8  # rounds that lead astray, each more damped than the last
EQUATIONS_PER_WEIGHT = 2.0  # for each weight


def inputs_for(model: TwoLayer) -> int:
    """How many answers determine all weights, twice over."""
    return int(EQUATIONS_PER_WEIGHT * model.parameters / model.outputs) + model.width + 16


@dataclass(frozen=True)
class Linearised:
    """A network around its present weights, on given inputs."""

    sided: Sided
    X1: Float[np.ndarray, "n e"]
    features: Float[np.ndarray, "n f"]
    slopes: tuple[np.ndarray, ...]  # of each neuron's output by its z and, if gated, by its gate

    @classmethod
    def at(cls, sided: Sided, X: np.ndarray) -> Linearised:
        model, X1 = sided.model, np.concatenate([X, np.ones((len(X), 1))], axis=1)
        z = X @ model.W1.T + model.b1
        value, first = model.act.value(z), model.act.first(z)
        slopes: tuple[np.ndarray, ...] = (first,)
        if model.gate is not None:
            gate = X @ model.gate.T + model.gate_bias
            slopes, value = (first * gate, value), value * gate
        linear = [X] if sided.linear is not None else []
        return cls(sided, X1, np.concatenate([value, *linear, np.ones((len(X), 1))], axis=1), slopes)

    def solved(self, Y: np.ndarray) -> tuple[Sided, np.ndarray]:
        """The best output weights, biases and linear part for these neurons, and what is left of the answers."""
        size = np.maximum(np.linalg.norm(self.features, axis=0), LEAST_DIVISOR)
        found = np.linalg.lstsq(self.features / size, Y, rcond=None)[0] / size[:, None]
        old, m = self.sided.model, self.sided.model.width
        model = TwoLayer(
            old.W1,
            old.b1,
            found[:m].T,
            found[-1],
            activation=old.activation,
            gate=old.gate,
            gate_bias=old.gate_bias,
        )
        linear = None if self.sided.linear is None else found[m:-1].T
        return Sided(model, linear, self.sided.words), Y - self.features @ found

    def step(self, W2: Float[np.ndarray, "k m"], rest: Float[np.ndarray, "n k"], damping: float) -> list[np.ndarray]:
        """Changes of the weights in front of the activation, and of those of the gate, that explain the rest best."""
        Q, (n, k), (m, e) = np.linalg.qr(self.features)[0], rest.shape, (W2.shape[1], self.X1.shape[1])
        size = [
            np.maximum(np.linalg.norm(s, axis=0) * np.linalg.norm(W2, axis=0), LEAST_DIVISOR)[:, None]
            for s in self.slopes
        ]

        def off_linear(x: np.ndarray) -> np.ndarray:
            return x - Q @ (Q.T @ x)

        def forward(x: np.ndarray) -> np.ndarray:
            parts = zip(self.slopes, size, x.reshape(len(size), m, e), strict=True)
            return off_linear(sum(s * (self.X1 @ (change / c).T) for s, c, change in parts) @ W2.T).ravel()

        def back(y: np.ndarray) -> np.ndarray:
            inner = off_linear(y.reshape(n, k)) @ W2
            return np.stack([(s * inner).T @ self.X1 / c for s, c in zip(self.slopes, size, strict=True)]).ravel()

        shape = (n * k, len(size) * m * e)
        operator = LinearOperator(shape, matvec=forward, rmatvec=back, dtype=np.float64)  # type: ignore[call-arg]
        found = lsmr(operator, rest.ravel(), damp=damping, **LSMR)[0]
        return [change / c for change, c in zip(found.reshape(len(size), m, e), size, strict=True)]


def moved(sided: Sided, changes: list[np.ndarray]) -> Sided:
    old = sided.model
    gate = (
        {}
        if old.gate is None
        else {
            "gate": old.gate + changes[1][:, :-1],
            "gate_bias": old.gate_bias + changes[1][:, -1],
        }
    )
    W1, b1 = old.W1 + changes[0][:, :-1], old.b1 + changes[0][:, -1]
    return Sided(TwoLayer(W1, b1, old.W2, old.b2, activation=old.activation, **gate), sided.linear, sided.words)


def refined(sided: Sided, X: np.ndarray, Y: np.ndarray, noise: float) -> tuple[Sided, float]:
    """The network that answers X with Y best, from one that nearly does; and the mean square root of what is left.

    Full steps where they help, damped ones after one that led astray.
    """
    now = Linearised.at(sided, X)
    best, rest = now.solved(Y)
    noise = max(noise, ANSWER_ROUNDING * rms(Y))
    least, damping, stalled, astray = rms(rest), 0.0, 0, 0
    for _ in range(REFINING_ROUNDS):
        if least <= NOISE_REACHED * noise or stalled >= STALLED_ROUNDS or astray >= LONGEST_DAMPED:
            break
        step = now.step(best.model.W2, rest, damping)
        if not all(np.isfinite(change).all() for change in step):
            astray, damping = astray + 1, max(DAMPED, 4 * damping)
            continue
        tried = Linearised.at(moved(best, step), X)
        found, remaining = tried.solved(Y)
        left = rms(remaining)
        if left < least:
            stalled, astray = (stalled + 1 if left > STALLED * least else 0), 0
            now, best, rest, least, damping = tried, found, remaining, left, damping / 10
        elif least <= ARRIVED * noise:
            break
        else:
            astray, damping = astray + 1, max(DAMPED, 4 * damping)
    return best, least
