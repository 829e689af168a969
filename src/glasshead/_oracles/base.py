"""The black box as a learner sees it: a dimension, a promise, and a way to ask; what a wrapper around one is; and the
first answers, which recognition and every learner of heads share: asked once and handed on."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .._types import Float

REACH = 2.0**40  # the longest token sent to a box that names no max_norm
DOUBLE, SINGLE, HALF = 2.0**-53, 2.0**-24, 2.0**-11  # the unit roundoffs of float64, float32 and float16
ROUNDOFF = {"float64": DOUBLE, "float32": SINGLE, "bfloat16": 2.0**-8, "float16": HALF}
HALF_REACH = 2.0**8  # in float16: tokens whose scores stay far below 65504


class Oracle:
    """All that a learner may see of a box. Subclass it and implement `__call__` to plug in a new kind of box.

    `dim` is the token dimension, `queries` counts every sequence asked. The promise: an answer is within
    `tolerance + rtol * |truth|` of the truth, and tokens longer than `max_norm` are never sent. `answers` is "value",
    or "sign" for a box that says only whether its value is positive; then `__call__` gives bools, each wrong with
    probability `flips` at most, and the tolerances mean nothing.
    """

    dim: int
    queries: int = 0
    answers: str = "value"
    tolerance: float = 0.0
    rtol: float = 0.0
    flips: float = 0.0
    max_norm: float | None = None
    rounded: bool = False  # whether answers are known to be rounded last of all, so that those near 0 lose nothing
    shortest: float = 0.0  # keys at least this long are answered best
    stage: str = ""  # what the learner is doing, for progress bars
    planned: int = 0  # how many queries it will be in all, as far as is known, for the same
    looked: int = 0  # queries of a first look, before any recovery; part of what each one costs
    resent: int = 0  # of the queries, those that were sent again: an endpoint failed, or a run was resumed
    notes: tuple[str, ...] = ()  # what a first look saw, in sentences

    @property
    def sent(self) -> int:
        """Every sequence sent so far, first looks and repetitions included."""
        return self.queries

    @property
    def exact(self) -> bool:
        """Whether answers are promised to be right up to rounding."""
        return self.tolerance == self.rtol == 0

    @property
    def once(self) -> Oracle | None:
        """The box with what a single answer promises, where answers are averages of several."""
        return None

    @property
    def roundoff(self) -> float:
        """The unit roundoff of the box's numbers, 2^-53 for float64."""
        return DOUBLE

    @property
    def format_known(self) -> bool:
        """Whether `roundoff` is settled: answers may show a narrower format than they come in."""
        return True

    @property
    def narrow(self) -> bool:
        """Whether the box's numbers have as few digits as those of float16 or bfloat16."""
        return self.roundoff >= HALF

    @property
    def reach(self) -> float:
        """The longest token to send: what the box allows, and no longer than its numbers bear."""
        reach = HALF_REACH if self.roundoff == HALF else REACH
        return reach if self.max_norm is None else min(reach, self.max_norm * (1 - 2.0**-20))

    def expect(self, more: int) -> None:
        """Say for progress bars that about so many more queries are to come."""
        self.planned = self.queries + more

    def rounds_tokens(self, roundoff: float) -> None:
        """Take note that the box rounds its tokens to that, which its answers need not show."""

    @property
    def box(self) -> Oracle:
        """The oracle that the user knows, without what a recovery has put around it."""
        return self

    def __call__(self, X: Float[np.ndarray, "B N d"]) -> Float[np.ndarray, " B"] | Float[np.ndarray, "B k"]:
        raise NotImplementedError

    def __repr__(self) -> str:
        promise = {name: getattr(self, name) for name in ("tolerance", "rtol", "flips", "max_norm")}
        said = "".join(f", {name}={value:g}" for name, value in promise.items() if value)
        return f"{type(self).__name__}(dim={self.dim}, answers={self.answers!r}{said}, queries={self.queries})"


class Wrapper(Oracle):
    """An oracle around another one, with its dimension, its promise and its count.

    A subclass overrides `__call__`, and sets in `__init__` what it promises otherwise.
    """

    def __init__(self, inner: Oracle):
        self.inner = inner

    def __call__(self, X: np.ndarray) -> np.ndarray:
        return self.inner(X)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.inner!r})"


class Forwarded:
    """An attribute of a wrapper that is the inner oracle's, unless the wrapper has set one of its own."""

    def __init__(self, name: str):
        self.name = name

    def __get__(self, wrapper: Wrapper | None, owner: type) -> Any:
        return self if wrapper is None else getattr(wrapper.inner, self.name)


class Shared(Forwarded):
    """A forwarded attribute that is set on the inner oracle as well."""

    def __set__(self, wrapper: Wrapper, value: Any) -> None:
        setattr(wrapper.inner, self.name, value)


# To a type checker a wrapper has the attributes that `Oracle` declares, and so it has.
for _name in (
    "dim",
    "queries",
    "answers",
    "tolerance",
    "rtol",
    "flips",
    "max_norm",
    "rounded",
    "shortest",
    "looked",
    "resent",
    "notes",
    "sent",
    "roundoff",
    "format_known",
    "box",
):
    setattr(Wrapper, _name, Forwarded(_name))
for _name in ("stage", "planned"):
    setattr(Wrapper, _name, Shared(_name))


ROUNDED_SUMS = 2.0**10  # roundoffs between batches of different sizes: a deep model takes its sums in another order
MOST_ROUNDED = 2.0**-5  # of an answer: a larger difference is none of rounding, however narrow the format


def batch_rounding(oracle: Oracle, size: float) -> float:
    """How far an answer of that size may depend on the rest of its batch through rounding and what is promised.

    The roundoff is that of float32 at least: what computes in it may answer in float64.
    """
    rounding = min(ROUNDED_SUMS * max(oracle.roundoff, SINGLE), MOST_ROUNDED)
    return rounding * size + 2 * (oracle.tolerance + oracle.rtol * size)


def law_token(oracle: Oracle, rng: np.random.Generator) -> np.ndarray:
    """A random token of length 1, or of the longest the box allows."""
    token = rng.standard_normal(oracle.dim)
    return token * min(1.0, oracle.reach) / np.linalg.norm(token)


def near_token(oracle: Oracle, token: np.ndarray, other: np.ndarray) -> np.ndarray:
    """The token and a little of another: to the side that is not longer, where the box takes no longer one."""
    step = np.sqrt(oracle.roundoff) * other
    side = 1.0 if np.linalg.norm(token + step) <= oracle.reach else -np.copysign(1.0, token @ other)
    near = token + side * step
    return near * min(1.0, oracle.reach / float(np.linalg.norm(near)))


@dataclass(frozen=True)
class Opening:
    """What the box answered to the zero token and to one other, `token`.

    `known` is what an earlier attempt had learned before it failed: `known["bias"]` and `known["v"]`, if that. The
    generator that drew the token is kept as it was `before` and `after`.
    """

    token: np.ndarray
    zero: np.ndarray
    first: np.ndarray
    before: np.random.Generator
    after: np.random.Generator
    known: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def outputs(self) -> int:
        """How many numbers an answer holds."""
        return self.zero.size


def read_first_answers(oracle: Oracle, rng: np.random.Generator) -> Opening:
    """The two queries alone, for who does not know yet whether the format matters."""
    before = deepcopy(rng)
    token = law_token(oracle, rng)
    zero, first = (np.asarray(answer) for answer in oracle(np.stack([np.zeros_like(token), token])[:, None]))
    return Opening(token, zero, first, before, after=deepcopy(rng))


HEADROOM = 2.0**8  # how far a signal should stand above the bias it is read against


def read_rows(oracle: Oracle, opening: Opening) -> tuple[np.ndarray, float]:
    """v, of all outputs, from d queries, one long token per coordinate, and how long these were.

    They are so long that neither the bias nor a tolerance hides v; a power of two, so that dividing by it rounds
    nothing.
    """
    zero = opening.zero
    bias, slope = float(np.abs(zero).max()), float(np.abs(opening.first - zero).max())
    wanted = 1.0 if bias == 0 else HEADROOM * max(1.0, bias / slope if slope > 0 else np.inf)
    step = oracle.reach if oracle.tolerance > 0 else float(2.0 ** np.floor(np.log2(min(wanted, oracle.reach))))
    return (oracle((step * np.eye(oracle.dim))[:, None]) - zero) / step, step
