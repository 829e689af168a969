"""Two-row questions to a sum of heads: `[z + q ; q]`, and what the answer has beyond that of q alone.

With `total` the sum of all v, the answer to `[q]` is `bias + q.total`, and to `[z + q ; q]` it is that and
`sum_h sigma(z.k_h) z.v_h`, where `k_h = W_h q + key_bias_h`: the rest of this package lives on that sum.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import numpy as np

from ..._errors import Evidence, NotConverged, NotIdentifiable, TargetMismatch
from ..._linalg import random_rotation
from ..._oracles import Oracle
from ..._types import Float

SINGLE = 2.0**-24
NARROW = 2.0**-11
SAFETY = 4.0  # times the usual rounding error of a dot product: nothing here is guaranteed, and none is an adversary


@dataclass(frozen=True)
class Box:
    """The box, its bias and the sum of all v. `loud` is the length of all v together, once these are known.

    A head that takes the mean of the tokens is left out of all of it once it is found: `mean` is its v, `unsure` how
    far that may be off, seen by a unit key.
    """

    oracle: Oracle
    bias: float
    total: Float[np.ndarray, " d"]
    loud: float = 0.0
    mean: Float[np.ndarray, " d"] | None = None
    unsure: float = 0.0

    @property
    def dim(self) -> int:
        return self.oracle.dim

    def sent(self, tokens: np.ndarray) -> np.ndarray:
        """The tokens as the box gets them: a float32 box rounds them, and what was asked is what counts."""
        return tokens.astype(np.float32).astype(np.float64) if self.oracle.roundoff >= SINGLE else tokens

    def ask(
        self, Z: Float[np.ndarray, "n d"], q: Float[np.ndarray, "*n d"], copies: int = 1
    ) -> tuple[Float[np.ndarray, "n d"], Float[np.ndarray, " n"]]:
        """The keys z that were really sent, and `sum_h sigma(z.k_h) z.v_h` for each; one q for all, or one for each.

        Of several `copies` of `z + q` all have the same score, so `log(copies)` is added to `z.k_h`.
        """
        X = np.empty((len(Z), copies + 1, self.dim))
        X[:, -1] = self.sent(q)
        X[:, :-1] = self.sent(Z + X[:, -1])[:, None]
        self.check_lengths(X)
        sent, last = X[:, 0] - X[:, -1], X[:, -1]
        answers = self.oracle(X) - (self.bias + last @ self.total)
        if self.mean is not None:
            answers = answers - (last + copies / (copies + 1) * sent) @ self.mean
        return sent, answers

    def without(self, mean: Float[np.ndarray, " d"], unsure: float) -> Box:
        """The box less a head that takes the mean, with this v."""
        return replace(self, total=self.total - mean, mean=mean, unsure=unsure)

    def check_lengths(self, X: np.ndarray) -> None:
        limit = self.oracle.max_norm
        if limit is not None and np.linalg.norm(X, axis=2).max(initial=0.0) > limit:
            raise NotConverged(f"tokens longer than max_norm = {limit:g} would be needed to take these heads apart")

    def refuse(self, message: str, evidence: Evidence) -> NoReturn:
        """The box is something else, unless it is its limit that makes it look so."""
        if self.oracle.max_norm is not None:
            raise NotConverged(
                f"with tokens up to max_norm = {self.oracle.max_norm:g} heads cannot be told apart: these have to be "
                f"long enough to saturate every head ({evidence})"
            )
        raise TargetMismatch(message, evidence)

    def noise(self, z: np.ndarray | float, q: np.ndarray | float) -> np.ndarray:
        """How far such an answer may be off for keys and queries of these lengths: the promise, and rounding."""
        u, size = 2 * SAFETY * self.oracle.roundoff, (z + 2 * q) * self.loud
        promise = (2 * self.oracle.tolerance + self.oracle.rtol * (size + abs(self.bias))) / (1 - self.oracle.rtol)
        return np.asarray(promise + u * (size + abs(self.bias)) + self.unsure * z)


def open_box(oracle: Oracle, rng: np.random.Generator, known: Mapping[str, Any] | None = None) -> Box:
    """The bias from the zero token, the sum of all v from d long ones: d + 1 queries, or none where both are `known`,
    as `bias` and `v`, from an attempt at reading one head."""
    d, reach, frame = oracle.dim, oracle.reach / 2, random_rotation(oracle.dim, rng)
    if known and np.ndim(known["v"]) == 1:
        return Box(oracle, float(known["bias"]), known["v"])
    zero = np.asarray(oracle(np.zeros((1, 1, d))))
    if zero.ndim != 1:
        raise ValueError(f"expected one number per answer, got answers of shape {zero.shape[1:]}")
    box = Box(oracle, float(zero[0]), np.zeros(d))
    tokens = box.sent(reach * frame)
    answers = oracle(tokens[:, None]) - zero[0]
    if oracle.roundoff >= NARROW:
        oracle(tokens[None, :2])  # where all v cancel, what is left of one-row answers has few digits
    if oracle.roundoff >= NARROW:
        raise NotConverged(
            f"answers with a relative error of {oracle.roundoff:.1g} have too few digits to take several heads apart; "
            "ask a box that answers in float32 or float64"
        )
    total = np.linalg.solve(tokens / reach, answers / reach)
    if not np.isfinite(total).all():
        raise NotIdentifiable("the sum of all v is not finite")
    return Box(oracle, float(zero[0]), total)
