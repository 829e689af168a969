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
    where there is no `model.random`, `made_as` is the family whose models are boxes of this one. `opens` says whether
    its learners go on from the answers that recognition asked for, an `Opening`.

    What lies `behind` the heads stays unknown, if anything does: the model asks the box for it, and all heads are read
    together. `inside` names what reads that after the heads, for `network=True`. In a box with `places` the order of
    tokens may matter. Where nothing bounds W although it is known, `unbounded` says when that is. Answers in float32
    take `few_digits` times as many queries.

    `recognised` are the kinds of answers from which "auto" may come to this family. One that is `final` ends the search
    where its parameters do not show: those of any other family would not, either. A box that is no such single head may
    be one of the family `several`, with more heads. `sized` is what such a box is called once its sizes are told,
    `enough` the same for a budget that its plan says is enough; empty where the plan takes what nobody knows.
    """

    name: str
    model: str
    plan: str
    what: str
    methods: Mapping[str, Method]
    otherwise: str = ""
    options: tuple[str, ...] = ()
    sizes: tuple[str, ...] = ()
    made_as: str = ""
    opens: bool = False
    behind: bool = False
    inside: str | None = None
    places: bool = False
    unbounded: str = ""
    few_digits: int = 1
    recognised: tuple[str, ...] = ()
    final: bool = True
    several: str = ""
    sized: str = ""
    enough: str = ""

    @property
    def made(self) -> bool:
        """Whether its model has a `random`."""
        return not self.made_as

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
            recognised=KINDS,
            several="multi-head",
            sized="one head",
            enough="one head",
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
            recognised=("value", "vector"),
            sized="{heads} heads of rank {rank}",
            enough="{heads} heads",
        ),
        Family(
            name="transformer",
            model="Transformer",
            plan="_plan:plan_transformer",
            what="a one-layer Transformer with one head",
            methods={"value": Method("_learners:learn_transformer", "_checks:check_held_out")},
            otherwise="family='any-network' reads W through the network",
            sizes=("width",),
            few_digits=12,
            recognised=("value",),
            sized="one head with a ReLU network of {width} neurons",
        ),
        Family(
            name="any-network",
            model="FrontHead",
            plan="_plan:plan_any_network",
            what="a single attention head with a network behind it",
            methods={"value": FRONT, "vector": FRONT, "sign": FRONT},
            options=("norm",),
            made_as="transformer",
            behind=True,
            recognised=("value", "vector"),
            several="block",
            sized="one head with any network behind it",
            enough="one head with a network behind it",
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
            behind=True,
            inside="_learners.block:read_whole_block",
            places=True,
            unbounded="where positions matter, or where promises leave W open",
            few_digits=3,
            recognised=("vector",),
            final=False,
            sized="{heads} heads in a block, {dim} numbers per answer",
        ),
    )
}
SINGLE_HEAD = FAMILIES["attention"]  # what a box is taken for where nothing else is known of it
AUTO = "auto"  # no family: that a look at the box is to say which
FAMILY_NAMES = (AUTO, *FAMILIES)  # what a user may ask for


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
