"""The first answers of a box, which recognition and every learner of heads share: asked once and handed on."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .._oracles import Oracle
from .laws import law_token


@dataclass(frozen=True)
class Opening:
    """What the box answered to the zero token and to one other, `token`.

    `known` is what an earlier attempt had learned before it failed: `bias` and `v`, if that. The generator that drew
    the token is kept as it was `before` and `after`.
    """

    token: np.ndarray
    zero: np.ndarray
    first: np.ndarray
    before: np.random.Generator
    after: np.random.Generator
    known: Mapping[str, Any] = field(default_factory=dict)

    @property
    def outputs(self) -> int:
        """How many numbers an answer holds."""
        return self.zero.size


def read_opening(oracle: Oracle, rng: np.random.Generator) -> Opening:
    """Two queries."""
    before = deepcopy(rng)
    token = law_token(oracle, rng)
    zero, first = (np.asarray(answer) for answer in oracle(np.stack([np.zeros_like(token), token])[:, None]))
    return Opening(token, zero, first, before, deepcopy(rng))
