"""Key bias and W of a head whose network stays a black box, from any meter that matches answers."""

from __future__ import annotations

import numpy as np

from ..._learned import MEASURED, LearnedFront
from ..._limits import Goal
from ..._meters import MatchingMeter
from ..._models import Behind, FrontHead
from ..._schemes import Measured, read_W

FRONT_SAFETY = 4.0  # times the errors that noise and slopes, or the brackets left, suggest


def read_front(meter: MatchingMeter, rng: np.random.Generator, goal: Goal, known: dict, residual: bool) -> LearnedFront:
    """Key bias and W, not yet checked."""
    oracle = meter.oracle
    oracle.stage = "reading the key bias"
    meter = meter.read_pull()
    known["pull"] = meter.pull
    oracle.stage = "reading W"
    found = read_W(meter, rng, goal.rank, goal.accuracy)
    bound = FRONT_SAFETY * found.bound
    length = float(np.linalg.norm(meter.origin))
    key_bias = meter.pull - found.W @ meter.origin
    key_bias_error = FRONT_SAFETY * meter.pull_error + bound * length
    if float(np.linalg.norm(key_bias)) <= key_bias_error:  # a bias that cannot be told from none is none
        key_bias = None
    model = front_head(found, key_bias, oracle, residual)
    return LearnedFront(
        model=model,
        rank=found.rank,
        bound=bound,
        bound_key_bias=key_bias_error,
        confidence=min(found.confidence, MEASURED),
        noise=meter.ruler.noise,
        scale=float(np.hypot(length, meter.kappa)),
        score_error=meter.rho * (bound * meter.kappa + FRONT_SAFETY * meter.pull_error),
    )


def front_head(found: Measured, key_bias: np.ndarray | None, behind: Behind, residual: bool) -> FrontHead:
    """As factors where these are the smaller description, else as one matrix."""
    if found.right is None or 2 * len(found.right) >= len(found.left):
        return FrontHead(found.W, key_bias=key_bias, behind=behind, residual=residual)
    tensors = {"Q": found.right, "K": np.ascontiguousarray(found.left.T), "residual": np.array(float(residual))}
    return FrontHead.from_tensors(tensors if key_bias is None else tensors | {"key_bias": key_bias}, behind)
