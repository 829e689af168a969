"""The heads of a block at one token, from the first answers to value maps and keys that are as exact as answers are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from ..._errors import NotConverged
from ..._linalg import LEAST_DIVISOR, norms, rms, svd
from ..._oracles import Oracle
from .blind import SecondReference
from .columns import each_time, read_keys
from .geometry import (
    Reference,
    Rows,
    Total,
    View,
    copies_of,
    few_digits,
    find_moves,
    read_reference,
    read_total,
    with_copies,
)
from .spaces import Bunches, bunches, read_pencil
from .values import Heads, find_heads, read_key_rows, rows_needed

REFERENCES = 2
# Lengths of keys in second differences, times the fourth root of a rounding; the latter where answers have few digits.
CURVED, FEW_CURVED = (2.0, 0.5, 8.0), (8.0, 4.0, 16.0)
MOST_WAYS = 4  # to see heads, tried on the same rows
SCORES = 1.0  # typical, of keys in rows
LONGEST_KEYS = 2.0  # times ordinary tokens
REFERENCE_OF_REACH = 0.4  # what a reference may take of it: keys beside it have the rest
MOST_MOVED = 0.03  # of an answer, by a key in a row; less where directions are seen so many times worse than others:
KEY_CONDITION = 3e4
SHORTER_KEYS, KEY_SHORTENINGS = 0.25, 3  # rows in which no heads are found are asked with shorter keys
# How exactly tokens are found at first, of an answer, and then, in roundings.
FIRST_ACCURACY, NEXT_ROUNDINGS, LAST_ROUNDINGS = 1e-9, 3e3, 6.0
ENOUGH = 1e3  # roundings, in the direction that is seen worst: a misfit that is hardly more
DROPPED = 1e-6, 3e4  # a rank drop worse than this, and than so many roundings, is none
SEARCH_ROUNDS = 16
BETTER = 3.0  # another round goes on where the last one made things so many times better
FEW_MOVED = 1e-2, 0.05, 0.1  # of an answer, by pairs, where answers have few digits
MOVED = 3e-3, 1e-2, 1e-2  # and where they have many: more as the heads get better, and less where directions are seen
# The same before heads are known, where kinks make differences too rough for B; and by how much that may change then.
KINKED_MOVED, KINKED_CHANGE = 0.02, 1e-2
ILL_PAIRED = 1e4  # times worse than others
LONGEST_KEY, LONGEST_OF_MOVED = 0.3, 100.0  # keys of pairs, of the last token, and of the share that they move

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
    tokens /= np.maximum(1.0, norms(tokens)[:, None] / (REFERENCE_OF_REACH * oracle.reach))
    references = [read_reference(oracle, token, size) for token in tokens]
    if not all(np.any(at.jacobian) for at in references):
        raise NotConverged("answers to single tokens do not change with the token, so they say nothing about sequences")
    total = read_total(oracle, references, size)
    if few_digits(oracle) and any(at.kinked for at in references):
        for at in references:
            sharper = read_pairs(oracle, at, None, total, KINKED_MOVED, LAST_ROUNDINGS * oracle.roundoff)
            if np.linalg.norm(sharper.B - total.B) <= KINKED_CHANGE * np.linalg.norm(total.B):
                total = sharper
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
    for shorter in range(KEY_SHORTENINGS):
        rows = None
        for way, guesses in ways:
            if rows is None:
                typical = rms(np.array(way.values))
                z = rng.standard_normal((rows_needed(oracle.dim, len(view.gains), way), oracle.dim))
                moved = float(np.median(norms(view.seen(z @ total.B)))) / (copies_of(oracle) + 1)
                most = MOST_MOVED / (1 + condition(view) / KEY_CONDITION) * float(np.linalg.norm(at.answer))
                rest = (1 - REFERENCE_OF_REACH) * oracle.reach, float(norms(z).max())
                limits = (SCORES, typical), (LONGEST_KEYS * size, 1.0), (most, moved), rest
                z *= min(most / seen for most, seen in limits if seen > 0) * SHORTER_KEYS**shorter
                rows = read_key_rows(oracle, at, total, z)
            rows, heads = find_heads(
                oracle, at, view, total, rows, way, guesses, max(FIRST_ACCURACY, LAST_ROUNDINGS * oracle.roundoff)
            )
            if heads is not None:
                return way, rows, heads
    raise NotConverged(NO_WEIGHTS)


def find_exact(
    oracle: Oracle, references: list[Reference], total: Total, way: Bunches, rows: Rows, heads: Heads, rng
) -> Found:
    """The heads at one token as exact as answers are: what is not seen at one token from the other, the rows again, and
    pairs for the sum of all maps, as long as it gets better."""
    at, wanted = references[0], LAST_ROUNDINGS * oracle.roundoff
    nearly = max(wanted, min(NEXT_ROUNDINGS * oracle.roundoff, FIRST_ACCURACY))
    dropped = max(DROPPED[0], DROPPED[1] * oracle.roundoff)
    view = at.within(total.outputs)
    second = None
    for _ in range(SEARCH_ROUNDS):
        second = second or read_second_reference(
            oracle, references, total, heads, each_time(view, heads, way.lost), rng
        )
        rows, better = find_heads(oracle, at, view, total, rows, way, heads.spaces, nearly, second)
        if better is None:
            raise NotConverged(NO_WEIGHTS)
        before, heads = heads, better
        settled = heads.ratio > before.ratio / BETTER and heads.misfit > before.misfit / BETTER
        if settled or (second is not None and heads.ratio <= dropped):
            break
    few = few_digits(oracle)
    if not (few and at.kinked):
        refuse_full_rank(heads, dropped)
    for moved in FEW_MOVED if few else MOVED:
        moved /= 1 + condition(view) / ILL_PAIRED
        sharper = read_pairs(oracle, at, heads, total, moved, wanted)
        seen = at.within(sharper.outputs)
        spaces = [seen.carried(space, view) for space in heads.spaces]
        again, better = find_heads(oracle, at, seen, sharper, rows, way, spaces, wanted, second)
        if better is None or not better.misfit < heads.misfit:
            if few:  # rounding decides which pairs are better: longer ones may be
                continue
            break
        rows, heads, total, view = again, better, sharper, seen
        if not few and heads.misfit <= ENOUGH * condition(view) * oracle.roundoff:
            break
    refuse_full_rank(heads, dropped)
    return Found(references, total, way, heads, view)


def refuse_full_rank(heads: Heads, dropped: float) -> None:
    """Refuses heads of whose rows the ranks do not drop."""
    if not heads.ratio <= dropped:
        raise NotConverged(f"value maps of {len(heads.V)} heads fit what single keys move only to {heads.ratio:.0e}")


def read_second_reference(
    oracle: Oracle, references: list[Reference], total: Total, heads: Heads, each: int, rng: np.random.Generator
) -> SecondReference | None:
    """The other token, if there is something that the first does not see, and heads show there. One head alone is the
    sum, which needs no other."""
    at, other = references
    if len(at.within(total.visible).blind) == 0 or len(heads.V) == 1:
        return None
    keys = read_keys(oracle, other, heads, each, rng)
    return None if keys is None else SecondReference(other, keys)


def read_pairs(oracle: Oracle, at: Reference, heads: Heads | None, total: Total, moved: float, wanted: float) -> Total:
    """The sum B of all heads' maps to rounding, but for what is not seen at this reference, from pairs `[q + z ; q]`
    and `[q - z ; q]`.

    The two weights of every head add up to one, so the two are answered like tokens that differ by exactly `z B`. Where
    the heads are known both tokens can be predicted, and found from there. Pairs move answers by a share `moved`: the
    more, the less rounding matters, and the more errors of the heads do.
    """
    d, view = oracle.dim, at.within(total.visible)
    left, s, _ = svd(view.seen(total.B), full=True)
    gains = np.concatenate([s, np.zeros(d - len(s))])
    longest = min(LONGEST_KEY, LONGEST_OF_MOVED * moved) * np.linalg.norm(at.token)
    length = np.minimum(2 * moved * np.linalg.norm(at.answer) / np.maximum(gains, LEAST_DIVISOR), longest)
    if not np.all(length > 0):
        raise NotConverged("the token around which a block is read is answered with 0, which says nothing of its heads")
    z = left.T * length[:, None]
    both = np.concatenate([z, -z])
    answers = np.asarray(oracle(with_copies(at.token, both[:, None], 1)))
    expected = both @ total.B / 2
    if heads is not None:
        expected += np.einsum("bh,bd,hde->be", expit(both @ heads.k.T) - 0.5, both, heads.B, optimize=True)
    found = find_moves(oracle, at, view, Rows(both, answers, expected, copies=1), wanted)
    seen = view.seen(found.moves)
    B = view.moves(np.linalg.solve(z, seen[:d] - seen[d:])) + total.B @ view.blind.T @ view.blind
    return Total(B, total.unseen)
