"""What an owner may do about it: the grid of settings that an audit tries, each with the mitigation it stands for.

Names of mitigations are those of MITRE ATLAS, where all of this is technique AML.T0024.002, extracting a model through
its inference API.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

from .. import defences
from .honest import Honest

NONE, ROUNDED_ANSWERS, NARROW_FORMAT, SAME_NOISE, FRESH_NOISE, ONLY_SIGNS, CLIPPED_NORMS, BUDGET, COMBINED, OWN = (
    "as it is",
    "rounding",
    "format",
    "noise",
    "fresh noise",
    "signs",
    "norms",
    "budget",
    "combined",
    "yours",
)
OBFUSCATED, LIMITED, RESTORED = "AML.M0002", "AML.M0004", "AML.M0010"
MITIGATIONS = {
    OBFUSCATED: "passive output obfuscation: answers say less",
    LIMITED: "restrict the number of queries",
    RESTORED: "input restoration: tokens no honest user sends are scaled back",
    "AML.M0019": "control access: a token and a quota for each client, as glasshead serve has them",
    "AML.M0024": "telemetry: glasshead serve --watch names the clients whose questions look like a recovery",
}

DECIMALS = range(8, 0, -1)
NOISE_LEVELS = 1e-4, 1e-2, 1e-1  # over the spread of honest answers
RADII = 10.0, 3.0, 1.0  # over the longest honest token
BUDGET_SHARES = 2.0, 0.5, 0.1  # queries over free parameters: below 1 nobody can know them all
WRONG_SIGNS = 0.05  # of the signs


@dataclass(frozen=True)
class Setting:
    """One way to answer: the box behind these defences, by numbers or signs, to so many queries."""

    name: str
    group: str
    wraps: tuple[Callable[[Any], Any], ...] = ()
    answers: str = "value"
    flips: float = 0.0
    budget: int | None = None

    def around(self, box: Any) -> Any:
        return reduce(lambda inner, wrap: wrap(inner), self.wraps, box)

    @property
    def mitigations(self) -> tuple[str, ...]:
        """What ATLAS calls it; nothing where a defence is not one of `gh.defences`."""
        names = [name for name, _ in self.calls if hasattr(defences, name)]
        ours = [RESTORED if name == "clipped" else OBFUSCATED for name in names]
        ours += [OBFUSCATED] * (self.answers == "sign" and self.group in (ONLY_SIGNS, COMBINED))
        return tuple(dict.fromkeys([*ours, *[LIMITED] * (self.budget is not None)]))

    @property
    def defence(self) -> str:
        """The calls that make it, from the inside out."""
        parts = [
            f"{name}({', '.join(f'{key}={value:g}' for key, value in given.items())})" for name, given in self.calls
        ]
        parts += ["signs of answers"] * (self.answers == "sign" and not self.flips)
        parts += [] if self.budget is None else [f"at most {self.budget} queries"]
        return ", then ".join(parts) or "none"

    @property
    def calls(self) -> list[tuple[str, dict[str, float]]]:
        return [call_of(wrap) for wrap in self.wraps]


def call_of(wrap: Callable[[Any], Any]) -> tuple[str, dict[str, float]]:
    """The name of a defence, and its numbers where they can be seen."""
    if not isinstance(wrap, partial):
        return getattr(wrap, "__name__", type(wrap).__name__), {}
    numbers = {key: float(value) for key, value in wrap.keywords.items() if isinstance(value, int | float)}
    return getattr(wrap.func, "__name__", "defence"), numbers


def clip(radius: float) -> Callable[[Any], Any]:
    return partial(defences.clipped, max_norm=radius)


def grid(honest: Honest, answers: str, fewest: int, budget: int, signs: bool) -> list[Setting]:
    """The settings for a box with such answers. Long tokens undo rounding and noise, so both are tried alone and, where
    a name ends in `+ clipped`, with tokens scaled back to the longest honest one. Noise is over the spread of honest
    answers. `fewest` are the queries without which not all parameters can be known; limits beyond the `budget` would
    not be tried, and `signs` says whether a family can be learned from them at all."""
    wraps = [Setting("as it is", NONE, answers=answers)]
    radii = {f"tokens clipped at {times:g} x honest": clip(times * honest.longest) for times in RADII}
    wraps += [Setting(name, CLIPPED_NORMS, (wrap,), answers=answers) for name, wrap in radii.items()]
    if answers == "value":
        wraps += [Setting(name, group, (wrap,)) for group, name, wrap in of_values(honest)]
        short = clip(honest.longest)
        wraps += [Setting(f"{name} + clipped", COMBINED, (short, wrap)) for _, name, wrap in of_values(honest, True)]
    if signs and honest.outputs == 1:
        flip = partial(defences.flipped, probability=WRONG_SIGNS)
        if answers == "value":
            wraps.append(Setting("signs only", ONLY_SIGNS, answers="sign"))
            wraps.append(Setting("signs only + clipped", COMBINED, (clip(honest.longest),), "sign"))
        wraps.append(Setting(f"signs, {WRONG_SIGNS:.0%} of them wrong", ONLY_SIGNS, (flip,), "sign", WRONG_SIGNS))
    limits = dict.fromkeys(max(1, round(share * fewest)) for share in BUDGET_SHARES)
    for most in (limit for limit in limits if limit <= budget):
        name = f"at most {most:,} quer{'y' if most == 1 else 'ies'}"
        wraps.append(Setting(name, BUDGET, answers=answers, budget=most))
    return wraps


def of_values(honest: Honest, few: bool = False) -> list[tuple[str, str, Callable[[Any], Any]]]:
    """What may be done to numbers: group, name, defence; `few` leaves out what changes hardly anything."""
    some: list[tuple[str, str, Callable[[Any], Any]]] = [
        (
            ROUNDED_ANSWERS,
            f"rounded to {decimals} decimal{'s' * (decimals > 1)}",
            partial(defences.rounded, decimals=decimals),
        )
        for decimals in (DECIMALS[-3:] if few else DECIMALS)
    ]
    some += [
        (NARROW_FORMAT, "float16", partial(defences.half)),
        (NARROW_FORMAT, "bfloat16", partial(defences.bfloat16)),
    ]
    for times in NOISE_LEVELS[1:] if few else NOISE_LEVELS:
        size = times * honest.spread
        some.append((SAME_NOISE, f"noise {times:.2g}", partial(defences.noisy, tolerance=size)))
        some.append((FRESH_NOISE, f"fresh noise {times:.2g}", partial(defences.gaussian, sigma=size)))
    return some


def settings_of(own: Mapping[str, Callable[[Any], Any]], answers: str) -> list[Setting]:
    """The defences that a user has named, and none for comparison."""
    return [Setting("as it is", NONE, answers=answers)] + [
        Setting(name, OWN, (wrap,), answers) for name, wrap in own.items()
    ]
