"""The map of the paper, and what its proofs share: v from basis vectors, a score from a two-row query."""

from __future__ import annotations

import tomllib
from importlib.resources import files

import numpy as np
from scipy.special import logit

from .._errors import NotIdentifiable
from .._oracles import Oracle


def results() -> list[dict[str, str]]:
    """Every result of the paper: `name`, `says`, `function` and `test`; the last two are empty where not done yet."""
    return tomllib.loads((files("glasshead.paper") / "results.toml").read_text())["result"]


def read_v(oracle: Oracle) -> np.ndarray:
    """`v_i = f([e_i])`: d queries."""
    v = np.asarray(oracle(np.eye(oracle.dim)[:, None]))
    if v.ndim != 1:
        raise ValueError(f"expected a box with one number per answer, as in the paper, got {v.shape[1]}")
    if not v.any():
        raise NotIdentifiable("v = 0: the box answers 0 to everything whatever W is, so no learner could read W")
    return v


def read_unit_scores(oracle: Oracle, A: np.ndarray, B: np.ndarray, v: np.ndarray) -> np.ndarray:
    """`a . W b` for the rows of `A` and `B`: the softmax over `[a + b ; b]` is `sigma(a . W b)`."""
    alpha = (oracle(np.stack([A + B, B], axis=1)) - B @ v) / (A @ v)
    # A saturated or rounded weight is taken as the nearest one a sigmoid can have.
    return logit(np.clip(alpha, np.finfo(float).tiny, 1 - 2.0**-53))
