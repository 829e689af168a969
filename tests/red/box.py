"""A box, the kinds of boxes there are, and what is promised about their answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

import glasshead as gh

from .formats import FORMATS, Format

Expect = Literal["recover", "either", "refuse"]


@dataclass(frozen=True)
class Scores:
    """The truth about a head in front of a network: how it scores tokens, which `norm` ("layer", "rms") makes first."""

    W: np.ndarray
    key_bias: np.ndarray
    norm: str | None = None


@dataclass(frozen=True)
class Box:
    """What is asked, and what is known about it: `truth` a gh model or `Scores`, `heads` how many it has, if any.

    `inside` says whether a family of the library holds it ("family"), perhaps or in part ("either"), or not
    ("outside"); `needs` the level of `formats` that shows it; `signs` the family that reads it from yes and no, if one
    does. `size` is the length of an ordinary token's entries. `clock` is what changes with every question, for a box
    that drifts: it is judged as it stood after the last one, since nobody can know what it will be. `unit` is the
    relative error of one rounding in its arithmetic.
    """

    answer: Callable[[np.ndarray], Any]
    dim: int
    truth: Any = None
    heads: int | None = None
    inside: Literal["family", "either", "outside"] = "outside"
    needs: int = 2
    signs: str | None = None
    size: float = 1.0
    family: str = "auto"
    yes_no: bool = False
    promise: dict = field(default_factory=dict)
    arguments: dict = field(default_factory=dict)
    expect: Expect = "refuse"
    clock: list | None = None
    unit: float = 2.0**-53


@dataclass
class Draw:
    """What a kind draws from: a generator, the arithmetic, and whether one number per answer is wanted."""

    rng: np.random.Generator
    form: Format
    scalar: bool = False

    def dim(self, low: int = 2, high: int = 8, large: tuple[int, ...] = ()) -> int:
        """Mostly small; one in twenty of the large ones."""
        if large and self.rng.random() < 0.05:
            return int(self.rng.choice(large))
        return int(self.rng.integers(low, high + 1))

    def pick(self, *options):
        return options[int(self.rng.integers(len(options)))]

    def outputs(self, dim: int) -> int | None:
        return None if self.scalar else self.pick(None, None, 2, dim)

    def chance(self, probability: float = 0.5) -> bool:
        return bool(self.rng.random() < probability)

    def normal(self, *shape: int) -> np.ndarray:
        return self.rng.standard_normal(shape)

    def log_uniform(self, low: float, high: float) -> float:
        return float(10 ** self.rng.uniform(np.log10(low), np.log10(high)))

    def family(self, *named: str) -> str:
        """Mostly "auto", else one of those."""
        return self.pick(*named) if named and self.chance(0.25) else "auto"


Maker = Callable[[Draw], Box]
MISLEADING = ("attention", "any-network", "multi-head")


@dataclass(frozen=True)
class Base:
    """A family of boxes of one sort; `variants` are the (format, promise) pairs that make sense for it."""

    name: str
    group: str
    make: Maker
    variants: tuple[str, ...]


@dataclass(frozen=True)
class Promise:
    """`wrap(draw, box)` changes the answers within what is then promised about them; `level` is a ceiling, see
    `Format`."""

    name: str
    wrap: Callable[[Draw, Box], tuple[Box, int]]


def scattered(X: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Numbers in [-1, 1] that look random and are the same for the same sequence."""
    phase = np.einsum("bnd,nd->b", X, np.sin(1.7 + np.arange(X.shape[1] * X.shape[2])).reshape(X.shape[1:]))
    angles = 1e4 * phase.reshape(-1, *[1] * (len(shape) - 1)) + np.arange(shape[-1] if len(shape) > 1 else 1)
    return np.sin(angles).reshape(shape)


def level_of(tolerance: float) -> int:
    return 2 if tolerance <= 1e-8 else 1 if tolerance <= 1e-4 else 0


def nothing(draw: Draw, box: Box):
    return box, 3


def rounded(draw: Draw, box: Box):
    decimals = int(draw.rng.integers(2, 11))
    tolerance = 0.5 * 10.0**-decimals
    made = replace(box, answer=lambda X: np.round(box.answer(X), decimals), promise={"tolerance": tolerance * 1.0001})
    return made, level_of(tolerance)


def rounded_within(draw: Draw, box: Box):
    made, level = rounded(draw, box)
    longest = draw.pick(10.0, 30.0, 100.0, 1000.0)
    made.promise["max_norm"] = longest
    return made, level if longest >= 100 else 0


def noisy(draw: Draw, box: Box):
    tolerance = draw.log_uniform(1e-11, 1e-2)
    fresh = np.random.default_rng(draw.rng.integers(2**31)) if draw.chance() else None

    def answer(X):
        y = np.asarray(box.answer(X), np.float64)
        return y + tolerance * (scattered(X, y.shape) if fresh is None else fresh.uniform(-1, 1, y.shape))

    return replace(box, answer=answer, promise={"tolerance": tolerance * 1.0001}), level_of(tolerance)


def relative(draw: Draw, box: Box):
    rtol = draw.form.rtol or draw.log_uniform(1e-11, 1e-2)
    if draw.form.rtol:
        return replace(box, promise={"rtol": rtol}), draw.form.promised

    def answer(X):
        y = np.asarray(box.answer(X), np.float64)
        return y * (1 + rtol * scattered(X, y.shape))

    return replace(box, answer=answer, promise={"rtol": rtol * 1.0001}), level_of(rtol)


def within(draw: Draw, box: Box):
    longest = draw.pick(3.0, 10.0, 30.0, 100.0, 1000.0)
    return replace(box, promise={"max_norm": longest}), 3 if longest >= 30 else 0


def loose(draw: Draw, box: Box):
    """Answers that are far better than their promise."""
    tolerance = draw.log_uniform(1e-12, 1e-3)
    return replace(box, promise={"tolerance": tolerance}), level_of(tolerance)


def loosely_relative(draw: Draw, box: Box):
    rtol = draw.log_uniform(1e-12, 1e-3)
    return replace(box, promise={"rtol": rtol}), level_of(rtol)


def yes_no(draw: Draw, box: Box):
    promise = {"max_norm": draw.pick(30.0, 1000.0)} if draw.chance(0.3) else {}

    def answer(X):
        y = np.asarray(box.answer(X))
        return (y if y.ndim == 1 else y.reshape(len(y), -1)[:, 0]) > 0

    family = "any-network" if box.signs == "any-network" else draw.family("attention", "any-network")
    inside = box.inside if box.signs else "outside"
    made = replace(box, answer=answer, yes_no=True, promise=promise, family=family, inside=inside)
    made.arguments["accuracy"] = 1e-3
    return made, 2 if not promise or promise["max_norm"] >= 1000 else 0


PROMISES = {
    promise.name: promise
    for promise in (
        Promise("none", nothing),
        Promise("rounded", rounded),
        Promise("rounded-norm", rounded_within),
        Promise("noisy", noisy),
        Promise("rtol", relative),
        Promise("norm", within),
        Promise("loose", loose),
        Promise("loose-rtol", loosely_relative),
        Promise("signs", yes_no),
    )
}

EXACT = tuple(f"float64/{name}" for name in PROMISES)
VALUES = tuple(name for name in EXACT if name != "float64/signs")
LAST_STEP = tuple(f"{name}/{p}" for name, form in FORMATS.items() if form.rtol for p in ("none", "rtol"))
NARROW = ("float16/none", "bfloat16/none")
MIXED = tuple(f"{name}/none" for name, form in FORMATS.items() if form.dtype is np.float32 and "-" in name)
PLAIN = ("float64/none", "float32/none")
EVERY = (*EXACT, "float32/none", "float32/norm", *LAST_STEP, *NARROW, *MIXED)
NO_SIGNS = tuple(name for name in EVERY if name != "float64/signs")

BASES: dict[str, Base] = {}


def kind(group: str, variants: tuple[str, ...] = EVERY, name: str | None = None) -> Callable[[Maker], Maker]:
    """Registers a maker of boxes under its name. What a kind draws must not change afterwards: cases name its seeds."""

    def register(make: Maker) -> Maker:
        called = name or make.__name__.replace("_", "-")
        assert called not in BASES, called
        BASES[called] = Base(called, group, make, variants)
        return make

    return register


def kinds() -> Iterator[str]:
    for base in BASES.values():
        for variant in base.variants:
            yield f"{base.name}@{variant}"


def group_of(name: str) -> str:
    return BASES[name.split("@")[0]].group


def matching(words: str | None) -> dict[str, list[str]]:
    """Kinds by class: the class of that name, or what has the words in its name or in that of its class."""
    chosen: dict[str, list[str]] = {}
    exact = any(base.group == words for base in BASES.values())
    for each in kinds():
        if not words or words == group_of(each) or (not exact and (words in each or words in group_of(each))):
            chosen.setdefault(group_of(each), []).append(each)
    return chosen


def boxes(count: int, seed: int, words: str | None) -> Iterator[tuple[str, int]]:
    """Class after class, so that each has its share; within it any kind, with any seed."""
    chosen = matching(words)
    for i in range(count):
        rng = np.random.default_rng([seed, i])
        names = chosen[list(chosen)[i % len(chosen)]]
        bases = sorted({name.split("@")[0] for name in names})
        base = bases[int(rng.integers(len(bases)))]
        variants = [name for name in names if name.startswith(base + "@")]
        yield variants[int(rng.integers(len(variants)))], int(rng.integers(2**31))


def build(name: str, seed: int) -> Box:
    """The box of that kind and seed, `window@bfloat16/none` say; always the same one."""
    base, variant = name.split("@")
    form, promise = variant.split("/")
    draw = Draw(np.random.default_rng([seed, 20]), FORMATS[form], scalar=promise == "signs")
    box, ceiling = PROMISES[promise].wrap(draw, BASES[base].make(draw))
    level = ceiling if promise == "rtol" and draw.form.rtol else min(ceiling, draw.form.level)
    expect: Expect = "refuse" if box.inside == "outside" else "either"
    if box.inside == "family" and level >= box.needs:
        expect = "recover"
    arguments = {"family": box.family, "seed": seed % 1000, **box.arguments}
    return replace(box, answer=quietly(box.answer), arguments=arguments, expect=expect, unit=draw.form.unit)


def quietly(answer: Callable) -> Callable:
    """A box's own overflows are its own affair."""

    def asked(X):
        with np.errstate(all="ignore"):
            return answer(X)

    return asked


def oracle(box: Box) -> gh.Oracle:
    return (gh.SignOracle if box.yes_no else gh.ValueOracle)(box.answer, dim=box.dim, **box.promise)
