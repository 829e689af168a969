"""Is it the box: what the network that was found says about fresh inputs, and what the box answers.

Inputs where neurons bend, inputs of the size that users send, and, where any may be sent, far shorter and far longer
ones, along which a network of another kind goes elsewhere. What was asked first of all is asked again last.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._errors import ASKED_AGAIN, FRESH_NETWORK, Evidence, TargetMismatch
from .._limits import would_pass
from .._linalg import unit
from .._models import TwoLayer
from .._types import Float
from .domain import Domain, SphereDomain
from .result import CheckedInputs, RecoveredNetwork

NOISES = 30.0  # times the noise: beyond `domain.accepted` an answer may be as far off
NOISIEST = 3e-6  # of a typical answer: noise beyond that hides too much
FRESH_INPUTS, USER_INPUTS, OTHER_INPUTS = 32, 16, 6
INPUT_LENGTHS = 0.01, 0.1, 10.0, 100.0  # times that at which neurons bend
AGAIN = 8


@dataclass(frozen=True)
class Agreement:
    """The largest error over the largest answer to inputs of that length, how many inputs, and how much was allowed."""

    residual: float
    checked: CheckedInputs

    @property
    def words(self) -> str:
        agree = f"{self.checked.sequences} fresh inputs agree to {self.residual:.1e}"
        return f"{agree}; {would_pass(self.checked.confidence)}"


def fresh_inputs(domain: Domain, rng: np.random.Generator) -> list[Float[np.ndarray, "n d"]]:
    groups = [domain.inputs(FRESH_INPUTS, rng)]
    if not isinstance(domain, SphereDomain):
        groups.append(rng.standard_normal((USER_INPUTS, domain.dim)))
        groups += [
            length * domain.radius * unit(rng.standard_normal((OTHER_INPUTS, domain.dim))) for length in INPUT_LENGTHS
        ]
    return groups


def check_asked_again(domain: Domain, X: np.ndarray, Y: np.ndarray, noise: float) -> None:
    """Refuse a box that answers the same inputs otherwise now, beyond its noise."""
    again = domain.ask(X)
    off = np.abs(again - Y).max(axis=1)
    worst = int(off.argmax())
    if off[worst] > domain.accepted * np.abs(Y).max() + NOISES * noise:
        seen = Evidence(ASKED_AGAIN, X[worst : worst + 1], f"expected {Y[worst, 0]:.12g}", f"{again[worst, 0]:.12g}")
        raise TargetMismatch("the box answers the same input in two ways", seen)


def check_network(domain: Domain, model: TwoLayer, noise: float, typical: float, rng: np.random.Generator) -> Agreement:
    """How well fresh answers are predicted; a box that is not the network is refused with the answer that shows it."""
    residual, asked = 0.0, 0
    allowed = domain.accepted + NOISES * noise / typical
    for X in fresh_inputs(domain, rng):
        got, want = domain.ask(X), model(X)
        largest = float(np.abs(got).max(initial=0.0)) or 1.0
        off = np.abs(got - want).max(axis=1) / largest
        worst = int(off.argmax())
        residual, asked = max(residual, float(off[worst])), asked + len(X)
        if not off[worst] <= allowed:
            output = int(np.abs(got - want)[worst].argmax())
            expected, answered = want[worst, output], got[worst, output]
            seen = Evidence(FRESH_NETWORK, X[worst : worst + 1], f"expected {expected:.12g}", f"{answered:.12g}")
            refused = f"refused: a fresh input is answered off by {off[worst]:.1e} of the largest answer"
            best = RecoveredNetwork(model, domain.oracle.sent, residual, noise, None, refused)
            raise TargetMismatch(f"the box is not the {model!r} that its second derivatives suggest", seen, best)
    return Agreement(residual, CheckedInputs(asked, allowed))
