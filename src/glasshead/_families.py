"""What a box may be: one declaration per family, read by `gh.recover`, `gh.plan`, the files and the command line.

A family is added by a folder that learns it and one entry in `FAMILIES`. What an entry names, as `module:name` in this
package, is imported when it is first used: so this module lies below everything it speaks of, and `glasshead --help`
waits for none of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

KINDS = ("value", "vector", "sign")  # of answers: one number, several numbers, a yes or no
ANSWERS = ("value", "sign")  # what an oracle is said to answer; how many numbers a value has shows in the first one
PROMISES = {"value": "tolerance= or rtol=", "sign": "dtype= or flips="}  # what may excuse answers that do not fit
NEEDED = {"value": "a smaller tolerance or a larger max_norm", "sign": "a larger max_norm"}  # for more accuracy


@dataclass(frozen=True)
class Method:
    """How a family is learned from one kind of answers, as names to `resolve`.

    `learn(oracle, rng, rank, accuracy, **options)` hands back a `Learned`. `check(oracle, learned, rng)` tests it on
    fresh queries, and hands back a `HeldOut`; where none is named, `learned.checked_by` says which it is, unless the
    learner has checked already, which `learned.check` then says. `explain(oracle, mismatch, rng)` may find a better
    reason for a mismatch, and `estimate(dim, rank, known, answers, accuracy)` says how many queries it takes in all,
    given what is known.
    """

    learn: str
    check: str | None = None
    explain: str | None = None
    estimate: str | None = None


@dataclass(frozen=True)
class Family:
    """One kind of box.

    `model` is the class of `gh` that such a box is recovered as, whose `model.family` is this `name`; `plan` says what
    it takes to recover one of given `Sizes`; `what` is what the box would have to be, in words. `methods` has an entry
    for each of `KINDS`, the kinds of answers, that it can be learned from; where signs are none of them, `otherwise`
    says what to do instead. `options` are arguments of `gh.recover` that this family has to itself. `sizes` are what
    such a box has beside its dimension and rank, by these names known to `gh.plan`, `glasshead new` and `model.random`;
    `made` says whether there is `model.random`, `opens` whether its learners go on from the answers that recognition
    asked for, an `Opening`.
    """

    name: str
    model: str
    plan: str
    what: str
    methods: Mapping[str, Method]
    otherwise: str = ""
    options: tuple[str, ...] = ()
    sizes: tuple[str, ...] = ()
    made: bool = True
    opens: bool = False

    def kind(self, answers: str, outputs: int | None) -> str:
        """Which of `KINDS` an oracle with such `answers` has, if one is known to hold so many numbers."""
        return "vector" if answers == "value" and (outputs or 1) > 1 else answers

    def refusal(self, answers: str) -> str | None:
        """Why it cannot be learned from an oracle with such `answers`, if it cannot."""
        if answers in self.methods:
            return None
        return f"expected value answers for family {self.name!r}: yes and no say too little; {self.otherwise}"


HEAD = Method("_learners:learn_attention", explain="_checks:find_promise", estimate="_limits:estimate")
VECTOR_HEAD = Method("_learners:learn_one_vector", explain="_checks:find_promise", estimate="_limits:estimate")
HEADS = Method("_learners:learn_several")
LAYER = Method("_learners:learn_several_vector")
SIGNS = Method("_learners:learn_sign_attention", "_checks:check_held_out_signs", estimate="_limits:estimate")
BLOCK = Method("_learners:learn_block")
FRONT = Method("_learners:learn_any_network")

FAMILIES = {
    family.name: family
    for family in (
        Family(
            name="attention",
            model="Attention",
            plan="_plan:plan_attention",
            what="a single attention head",
            methods={"value": HEAD, "vector": VECTOR_HEAD, "sign": SIGNS},
            opens=True,
        ),
        Family(
            name="multi-head",
            model="MultiHead",
            plan="_plan:plan_heads",
            what="a sum of attention heads",
            methods={"value": HEADS, "vector": LAYER},
            opens=True,
            otherwise="from them one head can be recovered, family='attention'",
            sizes=("heads",),
        ),
        Family(
            name="transformer",
            model="Transformer",
            plan="_plan:plan_transformer",
            what="a one-layer Transformer with one head",
            methods={"value": Method("_learners:learn_transformer", "_checks:check_held_out")},
            otherwise="family='any-network' reads W through the network",
            sizes=("width",),
        ),
        Family(
            name="any-network",
            model="FrontHead",
            plan="_plan:plan_any_network",
            what="a single attention head with a network behind it",
            methods={"value": FRONT, "vector": FRONT, "sign": FRONT},
            options=("norm",),
            made=False,
        ),
        Family(
            name="block",
            model="Block",
            plan="_plan:plan_block",
            what="several heads in front of something that sees nothing but their sum and the last token",
            methods={"vector": BLOCK, "value": BLOCK},
            options=("residual_map",),
            otherwise="a block is read from all its outputs",
            sizes=("heads",),
        ),
    )
}
FAMILY_NAMES = ("auto", *FAMILIES)  # what a user may ask for


def resolve(name: str) -> Any:
    """What `module:name` names in this package."""
    module, _, attribute = name.partition(":")
    return getattr(import_module(f".{module}", __package__), attribute)


def named(name: str) -> Family | None:
    """The family of that name, None for "auto"."""
    if name not in FAMILY_NAMES:
        raise ValueError(f"expected family to be one of {FAMILY_NAMES}, got {name!r}")
    return FAMILIES.get(name)


def with_option(option: str) -> tuple[str, ...]:
    """The families that have an argument of `gh.recover` to themselves."""
    return tuple(family.name for family in FAMILIES.values() if option in family.options)
