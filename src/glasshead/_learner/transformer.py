"""A one-layer Transformer: the network from one-row queries, then W through the network."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._errors import BudgetExceeded, NotIdentifiable, TargetMismatch
from .._meter.lever import longest
from .._meter.values import Values
from .._models import Transformer
from .._oracle import Oracle
from .._oracle.network import Network
from .._oracle.straightened import Flat, Straightened
from .._plan import information_limit
from .._relu.learn import recover_relu
from .._relu.network import ReluNetwork
from .attention import learn_key_bias, scheme
from .front_laws import check_front_laws

CONFIDENCE = 0.99  # in what fresh queries did not contradict
LOOSE = 0.45  # the check allows `roundoff ** LOOSE`


@dataclass(frozen=True)
class LearnedTransformer:
    """A Transformer, the network it was found with, and how well that one is known: by a check, not by a guarantee."""

    model: Transformer
    rank: int
    network: ReluNetwork
    confidence: float

    bound = bound_v = None
    needed = ""

    def through(self, oracle: Oracle) -> Oracle:
        return oracle

    @property
    def words(self) -> str:
        """What was found, for the reason given to the user."""
        bias = "a key bias" if self.model.has_key_bias else "no key bias"
        rank = f"of rank {self.rank}" if self.rank else "whose W cannot be told from 0"
        return f"one head {rank} with {bias}, and behind it a ReLU network with {self.network.reason}"

    def allowed(self, X: np.ndarray, oracle: Oracle) -> np.ndarray:
        """How far off fresh answers may be: so much of all that the network adds up that it is no rounding."""
        terms = np.abs(X @ self.model.A) @ np.abs(self.model.w)
        size = terms.max(axis=1) + np.abs(self.model.w) @ np.abs(self.model.b) + abs(float(self.model.c))
        loose = max(oracle.roundoff**LOOSE, 100 * (self.network.residual or 0.0))
        return (loose + oracle.rtol) * size + oracle.tolerance

    @property
    def limit(self) -> int:
        """The free parameters: those of W, and d for every kink of the network and for its linear part."""
        model, one = self.model, int(self.model.has_biases)
        network = (self.network.kinks + 1) * (model.dim + one)
        return information_limit(model.dim, self.rank, key_bias=model.has_key_bias) - model.dim + network


def learn_transformer(
    oracle: Oracle, rng: np.random.Generator, rank: int | None = None, accuracy: float | None = None
) -> LearnedTransformer:
    """Recover head and network: as many queries as the network takes, and one for every score."""
    oracle.stage = "checking that it is a head"
    if np.ndim(oracle(np.zeros((1, 1, oracle.dim)))) > 1:
        raise ValueError("expected one number per answer for family 'transformer'; family='any-network' takes several")
    check_front_laws(oracle, rng)
    oracle.stage = "reading the network"
    seed = int(rng.integers(2**31))
    network = recover_relu(lambda x: oracle(x[:, None]), oracle.dim, max_norm=oracle.max_norm, seed=seed)
    if not np.any(network.w):
        raise NotIdentifiable(
            f"the network behind the head is constant: every one-row answer is {float(network.c):.6g}, so the "
            "attention weights never reach the output and no learner could read W from it"
        )
    known: dict = {"A": network.A, "w": network.w, "b": network.b, "c": network.c}
    try:
        return read_head(oracle, network, rng, rank, accuracy, known)
    except (TargetMismatch, Flat):  # the tokens of one frame may lie where the network hides them
        return read_head(oracle, network, rng, rank, accuracy, known)
    except BudgetExceeded as error:
        error.known = known | error.known
        raise


def read_head(oracle: Oracle, network: ReluNetwork, rng, rank, accuracy, known: dict) -> LearnedTransformer:
    known_network = Network(network.A, network.w, network.b, float(network.c))
    plain = Straightened(oracle, known_network, rng, network.residual or 0.0)
    values = Values(plain.values, 0.0, min(1.0, longest(oracle)))
    meter = learn_key_bias(plain, values, rng, known, around=plain.values)
    oracle.stage = "reading W"
    found = scheme(meter, rng, rank, accuracy)
    head = found.head(plain.values, meter.key_bias, 0.0)
    model = Transformer.around(head, network.A, network.w, b=network.b, c=network.c)
    return LearnedTransformer(model, found.rank, network, min(CONFIDENCE, found.confidence))
