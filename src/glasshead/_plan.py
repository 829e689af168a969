"""How many queries a recovery asks at most, known beforehand: one function per family, named in `_families`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from ._families import ANSWERS, FAMILIES, SINGLE_HEAD, Family, named, resolve
from ._limits import BITS, OVERHEAD, bits_for, information_limit
from ._validate import positive, require_rank, whole

DISCOVERY = 32  # the last test for a new column and the looks outside the span, where W is of low rank
TELLING = 96  # for each head, beside 2.5 for each dimension: finding and isolating it
NETWORK_OVERHEAD = 192  # what a small network takes beyond its parameters: looking for biases, noise, checks
EACH = {"value": 10, "sign": 160}  # queries for a score that is read through an unknown network
REFUSED = 1.2  # times the plan of the dearest family: what all attempts together may cost where none succeeds
SOLVED_AT_ONCE = 1800  # in any dimension: heads that nothing isolates, or scores behind a box that is hardly a head
PLANNED_DTYPES = "float64", "float32"
PLACE_QUERIES = 400  # looking for tokens where that network shows the scores, for a normalisation, and the check


def plan(
    dim: int,
    *,
    family: str = "attention",
    rank: int | None = None,
    heads: int = 1,
    answers: str = "value",
    accuracy: float | None = None,
    biases: bool = False,
    width: int | None = None,
    outputs: int = 1,
    dtype: str = "float64",
) -> int:
    """The number of queries that `gh.recover` asks at most, for a box that gives one number, or one sign, per answer.

    >>> gh.plan(64), gh.plan(64, rank=4), gh.plan(64, answers="sign")
    (4264, 696, 172384)

    That is one per free parameter, `dim**2 + dim` or `2*rank*dim - rank**2 + dim`, and 104 more (136 where the rank is
    small and has to be discovered); `biases=True` adds `dim + 1`. Beyond that only scores that turn out saturated are
    asked again, which happens to a few of them unless W is very lopsided. Signs take as many queries for each parameter
    as it is to have bits, and some more: 40, or what `accuracy` asks for if W has the norm `sqrt(dim)`; if up to 10% of
    them are wrong, 13 times as many.

    A "transformer" takes 1.6 queries for each parameter of its network, which has `width` neurons, and one for each
    score of W; behind "any-network" a score takes ten. For "multi-head" each of the `heads` takes what one does, key
    bias included, and about a hundred more and `2.5 dim` to tell it. Where answers hold as many numbers as a token,
    `outputs=dim`, it may be a "block". With `dtype="float32"`, for boxes that answer in it, a block takes three times
    as many and a "transformer" twelve times.

    For "auto" it is the most that is asked before a box of none of these families is refused, unless what is behind it
    looks like ReLU: then add a "transformer"; one that is of some family takes what that does, 3% and 32 queries more
    at most.
    """
    return planned(Sizes(dim, rank, heads, width, answers, accuracy, biases, outputs, dtype), family).queries


@dataclass(frozen=True)
class Sizes:
    """What is known of a box, and asked of it, before the first query."""

    dim: int
    rank: int | None = None
    heads: int = 1
    width: int | None = None
    answers: str = "value"
    accuracy: float | None = None
    biases: bool = False
    outputs: int = 1
    dtype: str = "float64"

    @property
    def score_bits(self) -> int:
        """Bits of every score read from signs, if W has the norm `sqrt(dim)`: scores of unit vectors are then about
        `1 / sqrt(dim)`."""
        return bits_for(self.accuracy, self.dim, self.rank, 3 / math.sqrt(self.dim))


class Planned(NamedTuple):
    """The most queries, and the free parameters of such a model (of W and the key bias, if the rest stays a box)."""

    queries: int
    parameters: int


def planned(box: Sizes, family: str) -> Planned:
    """The plan for a box of that family, its arguments checked."""
    dim = whole(box.dim, "dim", least=1)
    declared = named(family)
    if whole(box.heads, "heads", least=1) != 1 and declared is not None and "heads" not in declared.sizes:
        raise ValueError(f"expected heads=1 for family {family!r}, got {box.heads}")
    if box.answers not in ANSWERS:
        raise ValueError(f"expected answers to be one of {ANSWERS}, got {box.answers!r}")
    if box.accuracy is not None:
        positive(box.accuracy, "accuracy")
    require_rank(box.rank, dim)
    whole(box.outputs, "outputs", least=1)
    if box.dtype not in PLANNED_DTYPES:
        got = f"got {box.dtype!r}; plans of 16 bits are not known"
        raise ValueError(f"expected dtype to be one of {PLANNED_DTYPES}, {got}")
    if declared is None:
        return plan_auto(box)
    if (refusal := declared.refusal(box.answers)) is not None:
        raise ValueError(refusal)
    return planned_as(declared, box)


def planned_as(declared: Family, box: Sizes) -> Planned:
    """The plan of that family, for answers of so many digits."""
    found: Planned = resolve(declared.plan)(box)
    return found if box.dtype == "float64" else found._replace(queries=declared.few_digits * found.queries)


def plan_auto(box: Sizes) -> Planned:
    """What "auto" asks at most before it refuses: a fifth more than the dearest family that it may try, which takes
    `SOLVED_AT_ONCE` at least. From yes and no it tries one head only."""
    least = planned_as(SINGLE_HEAD, box)
    if box.answers == "sign":
        return least
    kinds = {"value"} if box.outputs == 1 else {"value", "vector"}
    dearest = max(planned_as(declared, box).queries for declared in FAMILIES.values() if may_be(declared, kinds, box))
    return Planned(math.ceil(REFUSED * max(SOLVED_AT_ONCE, dearest)), least.parameters)


def may_be(declared: Family, kinds: set[str], box: Sizes) -> bool:
    """Whether "auto" may come to that family from such kinds of answers, and its sizes are told."""
    told = all(getattr(box, size) is not None for size in declared.sizes)
    return told and not kinds.isdisjoint(declared.recognised)


def plan_attention(box: Sizes) -> Planned:
    """One query per free parameter and a few more; from signs, one for each bit of each parameter."""
    parameters = information_limit(box.dim, box.rank, key_bias=box.biases, bias=box.biases)
    if box.answers == "sign":
        return Planned(sign_queries(box), parameters)
    discovery = 0 if box.rank is None or box.rank == box.dim else DISCOVERY
    return Planned(parameters + OVERHEAD + discovery, parameters)


def sign_queries(box: Sizes) -> int:
    """One query more than its bits for every score, and finer ones for v and for the looks outside a span."""
    dim, rank, bits = box.dim, box.rank, box.score_bits
    queries = (information_limit(dim, rank) - dim) * (bits + 1) + dim * (bits + 24) + 352
    if rank is not None and rank < dim:
        queries += 16 * (bits + 4) + (dim + 1) * bits  # the looks, and a column more where the first nearly depend
    return queries + box.biases * (2 * dim * (BITS + 8) + 160)


def plan_heads(box: Sizes) -> Planned:
    """What one head takes for each of them, key bias included, and what it takes to tell it from the others."""
    each = information_limit(box.dim, box.rank, key_bias=True) + TELLING + math.ceil(2.5 * box.dim)
    parameters = box.heads * information_limit(box.dim, box.rank, key_bias=box.biases) + box.biases
    return Planned(box.heads * each + OVERHEAD, parameters)


def plan_transformer(box: Sizes) -> Planned:
    """1.6 queries for each parameter of the network, one for each of the head."""
    if box.width is None:
        raise ValueError("expected width=, the number of neurons of the network behind the head")
    network = (whole(box.width, "width", least=1) + 1) * (box.dim + box.biases)
    head = information_limit(box.dim, box.rank, key_bias=box.biases)
    queries = math.ceil(1.6 * network) + head + NETWORK_OVERHEAD + OVERHEAD + DISCOVERY
    return Planned(queries, head - box.dim + network)


# Queries of a block, at most: for each dimension of differences, row, sequence of scores, and dimension of pairs.
JACOBIANS, ROW, SCORED, PAIRED = 40, 60, 18, 24
READ_LENGTHS, TOLD = 4, 90  # of last tokens behind a norm, and sequences for each dimension that tell heads apart


def plan_block(box: Sizes) -> Planned:
    """Differences for each dimension, and some twenty answers for each sequence of which many scores are read. Behind a
    norm it is another way, with an answer for each length of the last token; what a box is, is not known before."""
    d, H = box.dim, box.heads
    r = max(1, d // H)
    each = max(1, (r - 2) // 2)
    rows = ROW * 2 * d
    columns = SCORED * ((r + 4) * -(-d // each) + d * -(-3 * (r + 1) // (2 * each)))
    parameters = H * (2 * (2 * r * d - r * r) + (d if box.biases else 0))
    encoder = JACOBIANS * d + PAIRED * d + rows + columns
    decoder = READ_LENGTHS * (TOLD * d + math.ceil(1.4 * (d + 1) * (r + 6)) + d * (r + 4))
    return Planned(max(encoder, decoder) + OVERHEAD + 64, parameters)


def plan_any_network(box: Sizes) -> Planned:
    """So many queries for each score of W that is read through the network."""
    scores = information_limit(box.dim, box.rank, key_bias=box.biases) - box.dim
    return Planned(EACH[box.answers] * (scores + 2 * box.dim) + PLACE_QUERIES, scores)
