"""A one-layer Transformer: the network from one-row queries, then W through the network."""

from __future__ import annotations

from contextlib import suppress

import numpy as np

from .._checks import check_a_few, check_front_laws
from .._errors import BudgetExceeded, NotIdentifiable, TargetMismatch, WrongOutputs
from .._learned import LearnedTransformer
from .._limits import OVERHEAD, information_limit
from .._meters import Values
from .._models import Transformer
from .._oracles import FAR_OUT, LESS_FAR_OUT, Flat, Oracle, Straightened
from .._relu import ReluNetwork, recover_relu
from .._schemes import read_W
from .frames import find_frames


def learn_transformer(
    oracle: Oracle, rng: np.random.Generator, rank: int | None = None, accuracy: float | None = None
) -> LearnedTransformer:
    """Recover head and network: as many queries as the network takes, and one for every score."""
    oracle.stage = "checking that it is a head"
    if np.ndim(oracle(np.zeros((1, 1, oracle.dim)))) > 1:
        words = "expected one number per answer for family 'transformer'; family='any-network' takes several"
        raise WrongOutputs(words)
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
        with suppress(TargetMismatch, Flat):  # the tokens of one frame may lie where the network hides them
            learned = read_head(oracle, network, rng, rank, accuracy, known, FAR_OUT)
            if check_a_few(oracle, learned, rng):
                return learned
        return read_head(oracle, network, rng, rank, accuracy, known, LESS_FAR_OUT)
    except BudgetExceeded as error:
        error.known = known | error.known
        raise


def read_head(
    oracle: Oracle, network: ReluNetwork, rng, rank, accuracy, known: dict, far_out: float
) -> LearnedTransformer:
    plain = Straightened(oracle, network, rng, network.residual or 0.0, far_out)
    values = Values(plain.values, 0.0, min(1.0, oracle.reach))
    meter = find_frames(plain, values, rng, known, around=plain.values)
    oracle.stage = "reading W"
    oracle.expect(information_limit(oracle.dim, rank) + OVERHEAD)
    found = read_W(meter, rng, rank, accuracy)
    head = found.head(plain.values, meter.key_bias, 0.0)
    model = Transformer.around(head, network.A, network.w, b=network.b, c=network.c)
    return LearnedTransformer(model=model, rank=found.rank, network=network)
