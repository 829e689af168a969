"""Where one head can be seen alone: keys orthogonal to the values of all others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from .._errors import NotConverged
from .._types import Float
from .values import Values

PARALLEL = 1e7  # the condition of the values beyond which one head is another's shadow


@dataclass(frozen=True)
class Room:
    """The space that values leave.

    `unseen`, orthonormal, is orthogonal to every v: such keys change no value and can be used to steer. `lights[h]` is
    the unit vector in the span of all v that head h alone answers to, with `reach[h] = lights[h] . v_h`.
    """

    values: Values
    unseen: Float[np.ndarray, "d n"]
    lights: Float[np.ndarray, "H d"]
    reach: Float[np.ndarray, " H"]

    @property
    def leak(self) -> float:
        """What a unit key meant for one head may show of the others, since their v are not quite known."""
        heads, d = self.values.v.shape
        return float(3 * np.linalg.norm(self.values.error) / np.sqrt(d)) if heads > 1 else 0.0

    def alone(self, h: int) -> Float[np.ndarray, "d m"]:
        """An orthonormal basis of the keys that only head h answers to; the first one lights it, the others steer."""
        return np.c_[self.lights[h], self.unseen]

    def others(self, h: int) -> Float[np.ndarray, "d m"]:
        """An orthonormal basis of all that is left: the span of the other heads' values."""
        rest = np.delete(self.values.v, h, axis=0)
        return np.linalg.qr((rest / np.linalg.norm(rest, axis=1, keepdims=True)).T)[0]


def make_room(values: Values) -> Room:
    v = values.v
    heads, d = v.shape
    if heads > max(1, d - 2):
        refuse_crowd(values, d)
    size = np.linalg.norm(v, axis=1)
    left, s, basis = np.linalg.svd(v / size[:, None])
    if s[0] > PARALLEL * s[heads - 1]:
        refuse_parallel(s[0] / s[heads - 1])
    dual = (basis[:heads].T / s) @ left.T
    length = np.linalg.norm(dual, axis=0)
    return Room(values, basis[heads:].T, (dual / length).T, size / length)


def refuse_crowd(values: Values, dim: int) -> NoReturn:
    raise NotConverged(
        f"{len(values)} heads in dimension {dim}: one head is seen alone by keys orthogonal to the values of the "
        f"others, and steering needs two more directions, so {dim - 2} heads can be taken apart at most; how many "
        "there are and their values are known, their W is not",
        best={"v": values.v},
    )


def refuse_parallel(condition: float) -> NoReturn:
    raise NotConverged(
        f"the values of some heads are parallel up to {1 / condition:.0e}: no key shows one of these heads alone"
    )
