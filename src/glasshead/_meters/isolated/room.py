"""Every v_h from the jumps of one circle, with its sign."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from ..._errors import NotConverged
from ..._linalg import random_rotation
from ..._types import Float
from ..frame import Frame, cone


@dataclass(frozen=True)
class HeadValues:
    """The heads' values and how far each may be off."""

    v: Float[np.ndarray, "H d"]
    error: Float[np.ndarray, " H"]

    def __len__(self) -> int:
        return len(self.v)


PARALLEL = 1e7  # the condition of the values beyond which one head is another's shadow


@dataclass(frozen=True)
class Room:
    """The space that values leave.

    `unseen`, orthonormal, is orthogonal to every v: such keys change no value and can be used to steer. `lights[h]` is
    the unit vector in the span of all v that head h alone answers to, with `reach[h] = lights[h] . v_h`.
    """

    values: HeadValues
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


def make_room(values: HeadValues) -> Room:
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


def refuse_crowd(values: HeadValues, dim: int) -> NoReturn:
    raise NotConverged(
        f"{len(values)} heads in dimension {dim}: one head is seen alone by keys orthogonal to the values of the "
        f"others, and steering needs two more directions, so {dim - 2} heads can be taken apart at most; how many "
        "there are and their values are known, their W is not",
        known={"v": values.v},
    )


def refuse_parallel(condition: float) -> NoReturn:
    raise NotConverged(
        f"the values of some heads are parallel up to {1 / condition:.0e}: no key shows one of these heads alone"
    )


@dataclass(frozen=True)
class Queries:
    """Directions of queries: `lift` takes the m coordinates that a square scheme works with to d + 1, `rest` are the
    others. All vectors of `frame` have the same beta, `1/sqrt(m)`."""

    lift: Float[np.ndarray, "e m"]
    rest: Float[np.ndarray, "n e"]
    frame: Frame


def make_queries(dim: int, m: int, rng: np.random.Generator) -> Queries:
    """As many directions as there are keys, `m <= dim`, and the `dim + 1 - m` others."""
    tokens, bias = np.c_[random_rotation(dim, rng), np.zeros(dim)], np.eye(dim + 1)[dim]
    axis = np.eye(m)[0]
    beta = 1 / np.sqrt(m)
    rest = (tokens[m - 1 :] + beta * bias) / np.sqrt(1 + beta**2)
    return Queries(np.vstack([bias, tokens[: m - 1]]).T, rest, cone(axis, rng, lean=float(beta)))


def tokens(x: Float[np.ndarray, "n e"], kappa: float) -> tuple[Float[np.ndarray, "n d"], Float[np.ndarray, " n"]]:
    """The tokens of queries, and their beta."""
    beta = x[:, -1]
    return kappa * x[:, :-1] / beta[:, None], beta
