"""The heads of a block at one token, from the first answers to value maps and keys that are as exact as answers are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..._errors import NotConverged
from ..._linalg import norms
from ..._oracles import Oracle
from .blind import Beside
from .columns import each_time, read_keys
from .geometry import Reference, Total, View, copies_of, few_digits, read_reference, read_total
from .pairs import read_pairs
from .spaces import Bunches, bunches, read_pencil
from .values import Heads, Rows, find_heads, read_key_rows, rows_needed

REFERENCES = 2
CURVED, FEW_CURVED = (
    (2.0, 0.5, 8.0),
    (8.0, 4.0, 16.0),
)  # lengths of keys in second differences, times the fourth root of
# a rounding; the latter where answers have few digits
MOST_WAYS = 4  # to see heads, tried on the same rows
SCORES = 1.0  # typical, of keys in rows
LONGEST_KEYS = 2.0  # times ordinary tokens
MOST_MOVED = 0.03  # of an answer, by a key in a row; less where directions are seen so many times worse than others:
ILL_SEEN = 3e4
SHORTER_KEYS, SHORTENINGS = 0.25, 3  # rows in which no heads are found are asked with shorter keys
FIRST, NEARLY, EXACT = 1e-9, 3e3, 6.0  # how exactly tokens are found at first, of an answer, and then, in roundings
ENOUGH = 1e3  # roundings, in the direction that is seen worst: a misfit that is hardly more
DROPPED = 1e-6, 3e4  # a rank drop worse than this, and than so many roundings, is none
ROUNDS = 16
BETTER = 3.0  # another round goes on where the last one made things so many times better
FEW_MOVED = 1e-2, 0.05, 0.1  # of an answer, by pairs, where answers have few digits
MOVED = 3e-3, 1e-2, 1e-2  # and where they have many: more as the heads get better, and less where directions are seen
ILL_PAIRED = 1e4  # times worse than others

Way = tuple[Bunches, list[np.ndarray]]
NO_WEIGHTS = "no attention weights between 0 and 1 explain what single keys move, for any number of heads"


@dataclass(frozen=True)
class Found:
    """What is known of a block at its references; heads are read at the first."""

    references: list[Reference]
    total: Total
    way: Bunches
    heads: Heads
    view: View


def find_block(oracle: Oracle, rng: np.random.Generator, size: float) -> Found:
    oracle.stage = "reading single tokens"
    tokens = size * rng.standard_normal((REFERENCES, oracle.dim))
    references = [read_reference(oracle, token, size) for token in tokens]
    if not all(np.any(at.jacobian) for at in references):
        raise NotConverged("answers to single tokens do not change with the token, so they say nothing about sequences")
    total = read_total(oracle, references, size)
    references.sort(key=lambda at: condition(at.within(total.outputs)))
    at, view, ways = find_bunches(oracle, references, total, size, rng)
    references = [at, *(other for other in references if other is not at)]
    oracle.stage = "telling heads apart"
    first = find_first_heads(oracle, at, view, total, ways, size, rng)
    return find_exact(oracle, references, total, *first, rng)


def find_bunches(
    oracle: Oracle, references: list[Reference], total: Total, size: float, rng: np.random.Generator
) -> tuple[Reference, View, list[Way]]:
    """The reference at which heads show apart, and ways to see them, with directions that are each head's own."""
    oracle.stage = "counting heads"
    seen = []
    for curved in FEW_CURVED if few_digits(oracle) else CURVED:
        for at in references:
            view = at.within(total.outputs)
            seen.append(len(view.gains))
            pencil = read_pencil(oracle, at, view, total, curved * size, rng)
            least = total.outputs.shape[1] - len(view.gains)
            ways = bunches(np.linalg.eigvals(pencil.matrix), least, least + total.unseen.shape[1])
            if ways:
                return at, view, [(way, [*map(pencil.space, way.values, way.sizes)]) for way in ways[:MOST_WAYS]]
    raise NotConverged(no_bunches(oracle.dim, min(seen), total))


def condition(view: View) -> float:
    return float(view.gains[0] / view.gains[-1])


def no_bunches(dim: int, seen: int, total: Total) -> str:
    blind = total.outputs.shape[1] - seen + total.unseen.shape[1]
    return (
        f"of {dim} directions the {seen} that answers see do not split into heads: value maps have to be of rank "
        f"{3 + blind} at least, with ranks that add up, behind anything that is one-to-one but for a few directions"
    )


def find_first_heads(
    oracle: Oracle, at: Reference, view: View, total: Total, ways: list[Way], size: float, rng: np.random.Generator
) -> tuple[Bunches, Rows, Heads]:
    """Rows, and the first way to see heads that is true of them, with keys as long as they can be."""
    for shorter in range(SHORTENINGS):
        rows = None
        for way, guesses in ways:
            if rows is None:
                typical = float(np.sqrt(np.mean(np.square(way.values))))
                z = rng.standard_normal((rows_needed(oracle.dim, len(view.gains), way), oracle.dim))
                moved = float(np.median(norms(view.seen(z @ total.B)))) / (copies_of(oracle) + 1)
                most = MOST_MOVED / (1 + condition(view) / ILL_SEEN) * float(np.linalg.norm(at.answer))
                limits = (SCORES, typical), (LONGEST_KEYS * size, 1.0), (most, moved)
                z *= min(most / seen for most, seen in limits if seen > 0) * SHORTER_KEYS**shorter
                rows = read_key_rows(oracle, at, total, z)
            rows, heads = find_heads(oracle, at, view, total, rows, way, guesses, max(FIRST, EXACT * oracle.roundoff))
            if heads is not None:
                return way, rows, heads
    raise NotConverged(NO_WEIGHTS)


def find_exact(
    oracle: Oracle, references: list[Reference], total: Total, way: Bunches, rows: Rows, heads: Heads, rng
) -> Found:
    """The same to rounding: what is not seen at one token from the other, the rows again, and pairs for the sum of all
    maps, as long as it gets better."""
    at, wanted = references[0], EXACT * oracle.roundoff
    nearly, dropped = max(wanted, min(NEARLY * oracle.roundoff, FIRST)), max(DROPPED[0], DROPPED[1] * oracle.roundoff)
    view = at.within(total.outputs)
    beside = None
    for _ in range(ROUNDS):
        beside = beside or read_beside(oracle, references, total, heads, each_time(view, heads, way.lost), rng)
        rows, better = find_heads(oracle, at, view, total, rows, way, heads.spaces, nearly, beside)
        if better is None:
            raise NotConverged(NO_WEIGHTS)
        before, heads = heads, better
        settled = heads.ratio > before.ratio / BETTER and heads.misfit > before.misfit / BETTER
        if settled or (beside is not None and heads.ratio <= dropped):
            break
    if not heads.ratio <= dropped:
        raise NotConverged(f"value maps of {len(way.sizes)} heads fit what single keys move only to {heads.ratio:.0e}")
    few = few_digits(oracle)
    for moved in FEW_MOVED if few else MOVED:
        moved /= 1 + condition(view) / ILL_PAIRED
        sharper = read_pairs(oracle, at, heads, total, moved, wanted)
        seen = at.within(sharper.outputs)
        spaces = [seen.carried(space, view) for space in heads.spaces]
        again, better = find_heads(oracle, at, seen, sharper, rows, way, spaces, wanted, beside)
        if better is None or not better.misfit < heads.misfit:
            if few:  # rounding decides which pairs are better: longer ones may be
                continue
            break
        rows, heads, total, view = again, better, sharper, seen
        if not few and heads.misfit <= ENOUGH * condition(view) * oracle.roundoff:
            break
    return Found(references, total, way, heads, view)


def read_beside(
    oracle: Oracle, references: list[Reference], total: Total, heads: Heads, each: int, rng: np.random.Generator
) -> Beside | None:
    """The other token, if there is something that the first does not see, and heads show there. One head alone is the
    sum, which needs no other."""
    at, other = references
    if len(at.within(total.visible).blind) == 0 or len(heads.V) == 1:
        return None
    keys = read_keys(oracle, other, heads, each, rng)
    return None if keys is None else Beside(other, keys)
