"""What `gh.recover_network` hands back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._limits import confidence_of
from .._models import TwoLayer
from .._recovery import UNNOTICED, Checked
from .._types import ArrayLike, Float


class CheckedInputs(Checked):
    """How sure it is that a box is the network that was found, from fresh inputs."""

    @property
    def confidence(self) -> float:
        """How likely they were to show a model that is wrong on one of four."""
        return confidence_of(self.sequences)

    def __str__(self) -> str:
        return (
            f"{self.sequences} fresh inputs are answered as predicted, within {self.within:.2g} of the largest answers;"
            f" a box further off on {self.unseen:.1%} of such would have been noticed with a confidence of "
            f"{1 - UNNOTICED:.0%}"
        )


@dataclass(frozen=True, eq=False)
class RecoveredNetwork:
    """The result of `gh.recover_network`: callable on inputs (d,) or (B, d), and answers as the box does.

    `model` is a `gh.TwoLayer`, and its weights are fields here too. `queries` counts every input asked. `residual` is
    the largest error on fresh inputs over the largest answer among those of their length. No number of answers proves
    that a network has no further neuron, so `bound` is None; `confidence` is how likely the fresh inputs were to show a
    model that is wrong on one of four, `checked` says what else could still pass, `noise` is the measured error of one
    answer, and `reason` says how the neurons were counted and recognised, and where the confidence comes from. As
    `error.best` it is what fresh inputs refused: `checked` is None, and `confidence` 0.
    """

    model: TwoLayer
    queries: int
    residual: float
    noise: float
    checked: CheckedInputs | None
    reason: str
    single: bool = False  # whether the box answers one number without a row of its own
    bound: None = None

    @property
    def confidence(self) -> float:
        return 0.0 if self.checked is None else self.checked.confidence

    @property
    def W1(self) -> Float[np.ndarray, "m d"]:
        return self.model.W1

    @property
    def b1(self) -> Float[np.ndarray, " m"]:
        return self.model.b1

    @property
    def W2(self) -> Float[np.ndarray, "k m"]:
        return self.model.W2

    @property
    def b2(self) -> Float[np.ndarray, " k"]:
        return self.model.b2

    @property
    def gate(self) -> Float[np.ndarray, "m d"] | None:
        return self.model.gate

    @property
    def gate_bias(self) -> Float[np.ndarray, " m"] | None:
        return self.model.gate_bias

    @property
    def activation(self) -> str:
        return self.model.activation

    @property
    def dim(self) -> int:
        return self.model.dim

    @property
    def width(self) -> int:
        return self.model.width

    def __call__(self, x: ArrayLike) -> np.ndarray:
        answers = self.model(x)
        return answers[..., 0] if self.single else answers

    def __str__(self) -> str:
        said = [f"{self.model!r}, {self.queries:,} queries, held out {self.residual:.1e}", self.reason]
        return "\n  ".join(said if self.checked is None else [*said, str(self.checked)])
