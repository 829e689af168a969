"""A recovered head with its error bounds, and what they allow the box to answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from .._models import Attention
from .._oracle import Oracle
from .._plan import information_limit

ROUNDINGS = 1 / 3  # the power of a rounding, of an answer's size: no head that was read right is that far off


@dataclass(frozen=True)
class Learned:
    """A head and how far each of its parameters may be off.

    `strict` is for answers that promise all their digits: another box makes the bounds wide, which is no excuse then.
    """

    model: Attention
    rank: int
    bound: float
    bound_v: float
    bound_key_bias: float
    bound_bias: float
    confidence: float
    strict: bool = field(default=False, kw_only=True)

    caveat: ClassVar[str] = ""  # what cannot be known
    needed: ClassVar[str] = ""  # and what would make the bounds better, where that is more than the promise

    @property
    def limit(self) -> int:
        """The free parameters over the numbers per answer: no learner can do with fewer queries."""
        head, outputs = self.model, self.model.v[0].size
        biases = outputs * bool(np.any(head.bias))
        parameters = information_limit(head.dim, self.rank, key_bias=head.has_key_bias) + (outputs - 1) * head.dim
        return -(-(parameters + biases) // outputs)

    @property
    def words(self) -> str:
        """What was found, for the reason given to the user."""
        head = self.model
        biases = " and ".join(["a key bias"] * head.has_key_bias + ["a bias"] * bool(np.any(head.bias))) or "no bias"
        rank = f"of rank {self.rank}" if self.rank else f"whose W cannot be told from 0 (at most {self.bound:.1e})"
        return f"one head {rank} with {biases}{self.caveat}"

    def through(self, oracle: Oracle) -> Oracle:
        """The oracle to check the head with: one that makes noise a promise, where there is noise but no promise."""
        return oracle

    def allowed(self, X: np.ndarray, oracle: Oracle) -> np.ndarray:
        """How far the box's answers to `X (B, N, d)` may lie from the model's if the box is the head it was taken for.

        Scores off by at most e move a softmax by at most `exp(2e) - 1` in total; the values' half range does the rest.
        """
        head, d, u = self.model, oracle.dim, oracle.roundoff
        norms = np.linalg.norm(X, axis=-1)
        longest, last = norms.max(axis=1), norms[:, -1]
        values = (X @ head.v).reshape(*X.shape[:2], -1)
        half_range = (values.max(axis=1) - values.min(axis=1)).max(axis=-1) / 2
        size = np.abs(values).max(axis=(1, 2)) + float(np.abs(head.bias).max())
        keys = head.W_norm * last + np.linalg.norm(head.key_bias)
        score = longest * (self.bound * last + self.bound_key_bias) + 8 * (d + 4) * u * longest * keys
        moved = half_range * np.minimum(2.0, np.expm1(np.minimum(2 * score, 700.0)))
        rounding = u * (2 * (d + 8) * longest * np.linalg.norm(head.v) + 16 * size)
        promise = (oracle.tolerance + oracle.rtol * size) / (1 - oracle.rtol)
        bounded = moved + longest * self.bound_v + self.bound_bias + promise + rounding
        return np.minimum(bounded, u**ROUNDINGS * size) if self.strict else bounded
