"""What one-row queries say: `f([x]) = x . v + bias`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._oracles import Oracle


@dataclass(frozen=True)
class Values:
    """`v` and `bias` as read with tokens of length `step`; `readout` turns k outputs into the one that is measured."""

    v: np.ndarray
    bias: float
    step: float
    readout: np.ndarray | None = None
    ground: float = 0.0  # the largest term that cancels inside the box, where that is more than the bias,
    unsure: float = 0.0  # and by how much the bias may be off for being one at another origin
    along: bool = False  # whether v was read once more along its own direction

    @property
    def backdrop(self) -> float:
        return max(abs(self.bias), self.ground)

    def of(self, answers: np.ndarray) -> np.ndarray:
        return answers if self.readout is None else answers @ self.readout

    def size(self, answers: np.ndarray) -> np.ndarray:
        return np.abs(answers) if self.readout is None else np.abs(answers) @ np.abs(self.readout)

    def promise(self, oracle: Oracle, size: float | np.ndarray) -> float | np.ndarray:
        """How far a read-out answer of magnitude `size` may lie from the truth, rounding left aside."""
        spread = 1.0 if self.readout is None else float(np.abs(self.readout).sum())
        # The promise is relative to the truth, which may be larger than the answer.
        return (spread * oracle.tolerance + oracle.rtol * size) / (1 - oracle.rtol)

    def bias_error(self, oracle: Oracle) -> float:
        return float(self.promise(oracle, self.backdrop) + 2 * oracle.roundoff * self.backdrop) + self.unsure

    def entry_error(self, oracle: Oracle) -> float:
        """The largest error of an entry of v; that of all of v is at most `sqrt(d)` times as large."""
        largest, d = float(np.abs(self.v).max()), len(self.v)
        each = float(self.promise(oracle, largest * self.step + self.backdrop))
        entry = (each + self.bias_error(oracle) + rounding(oracle, largest, self.backdrop, self.step)) / self.step
        if not self.along:
            return entry
        length = (self.along_error(oracle) + self.bias_error(oracle)) / self.step + self.rounding(oracle)
        return float(np.hypot(entry, length / np.sqrt(d)))

    # The same in its parts, for a v that was read once more along itself.

    def along_error(self, oracle: Oracle) -> float:
        """`step` times the error of v along itself, that of the bias and rounding left aside,"""
        return float(self.promise(oracle, float(np.linalg.norm(self.v)) * self.step + self.backdrop))

    def across_error(self, oracle: Oracle) -> float:
        """and of all of it across."""
        return float(np.linalg.norm(self.promise(oracle, np.abs(self.v) * self.step + self.backdrop)))

    @property
    def per_bias(self) -> np.ndarray:
        """How v moves with the bias it is read against."""
        u = self.v / np.linalg.norm(self.v)
        return -(1 - u.sum() * u + u) / self.step

    def rounding(self, oracle: Oracle) -> float:
        """A bound on what rounding does to v."""
        v_norm = float(np.linalg.norm(self.v))
        return float(np.sqrt(len(self.v) + 1) * rounding(oracle, v_norm, self.backdrop, self.step) / self.step)


def rounding(oracle: Oracle, largest: float, backdrop: float, step: float) -> float:
    """A dot product of length d errs by at most about d ulp of its terms."""
    return oracle.roundoff * ((oracle.dim + 8) * largest * step + 2 * backdrop)


def outputs_error(oracle: Oracle, v: np.ndarray, bias: np.ndarray, step: float) -> tuple[float, float]:
    """Bounds on `||v_hat - v||` and on the largest error of the bias, over all outputs."""
    largest, backdrop = float(np.abs(v).max()), float(np.abs(bias).max())
    whole = Values(np.full(1, largest), backdrop, step)
    return float(np.sqrt(v.size) * whole.entry_error(oracle)), whole.bias_error(oracle)


RATIO = 2.0**12  # rho / kappa where nothing asks for more: kappa b.v is then no rounding problem
HEADROOM = 2.0**8  # how far the signal should stand above the bias it is read against


def split(product: float, oracle: Oracle, values: Values) -> tuple[float, float]:
    """`rho, kappa` with the given product, `rho + kappa` within reach, `rho` as long as bias and tolerance ask for."""
    v_norm = float(np.linalg.norm(values.v))
    wanted = HEADROOM * abs(values.bias) / v_norm
    if values.promise(oracle, 0.0) > 0:
        wanted = np.inf
    rho = max(np.sqrt(product * RATIO), wanted, oracle.shortest)
    return fit(rho, product / rho if np.isfinite(rho) else 0.0, product, oracle.reach)


def fit(rho: float, kappa: float, product: float, reach: float) -> tuple[float, float]:
    if rho + kappa <= reach:
        return rho, kappa
    if 4 * product >= reach**2:
        return reach / 2, reach / 2
    rho = (reach + np.sqrt(reach**2 - 4 * product)) / 2
    return rho, product / rho


def largest_product(oracle: Oracle) -> float:
    return oracle.reach**2 / 4
