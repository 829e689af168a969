"""Lemma A.1: away from 0 and 1 the logit is Lipschitz, and clipping keeps noisy weights there."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import logit  # pyright: ignore[reportMissingTypeStubs]

from .._types import no_type_check
from .._validate import real

TAU_CLIP = 1 / (1 + math.exp(0.5))  # sigma(-1/2): logits up to 1/2 are left alone
LIPSCHITZ = 5.0  # the paper's round number; at TAU_CLIP the constant is 4.2553...


@no_type_check
def lemma_a_1(tau: float = TAU_CLIP) -> float:
    """The Lipschitz constant of the logit on `[tau, 1 - tau]`, `1 / (tau * (1 - tau))`: at most 5 for the paper's tau.

    >>> round(gh.paper.lemma_a_1(), 4)
    4.2553

    So for weights in that interval `|logit(clip(estimate)) - logit(weight)| <= 5 |estimate - weight|`, whatever the
    estimate. The default tau is `sigma(-1/2)`.
    """
    tau = real(tau, "tau", "a number strictly between 0 and 1/2", lambda x: 0 < x < 0.5)
    return 1 / (tau * (1 - tau))


def clipped_logit(weights: np.ndarray) -> np.ndarray:
    return logit(np.clip(weights, TAU_CLIP, 1 - TAU_CLIP))
