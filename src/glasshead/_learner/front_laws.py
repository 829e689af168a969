"""What every head obeys whatever lies behind it, checked with a handful of queries before the expensive ones."""

from __future__ import annotations

import numpy as np

from .._errors import Evidence, TargetMismatch
from .._meter.lever import longest
from .._meter.matching import OneRow
from .._meter.matching.place import Place
from .._meter.matching.retry import Ruler
from .._meter.matching.words import NOT_THIS, OR_NOISY
from .._oracle import Oracle

LOOSE = 1e-8  # of the answers' size, or of a score of one: these laws are about what the box is
LOOKS = 3
CLEAR = 2  # of them are enough


def check_front_laws(oracle: Oracle, rng: np.random.Generator) -> float:
    """The same query, and the same tokens in another order before the same last one, get the same answer.

    Returns the size of answers."""
    x = rng.standard_normal((4, oracle.dim))
    x *= min(1.0, longest(oracle)) / np.linalg.norm(x, axis=1, keepdims=True)
    swapped, doubled = x[[1, 2, 0, 3]], x[[0, 0, 1, 1, 2, 2, 3, 3]]
    first, again, order = (np.asarray(y) for y in oracle(np.stack([x, x, swapped])))
    twice = np.asarray(oracle(doubled[None])[0])
    size = float(np.abs([first, again, order]).max())
    allowed = 4 * (oracle.tolerance + oracle.rtol * size) + (LOOSE + 64 * oracle.roundoff) * size
    laws = [
        ("the same query gets the same answer", x, again),
        ("the order of the other tokens does not matter", swapped, order),
        ("every token twice is answered like every token once", doubled, twice),
    ]
    for law, query, got in laws:
        if float(np.abs(got - first).max()) > allowed:
            evidence = Evidence(law, query, f"expected {first} within {allowed:.2g}", f"{got}")
            raise TargetMismatch(NOT_THIS, evidence)
    return size


def sees_last_token(ruler: Ruler, place: Place) -> bool:
    """Whether the answer depends on more than the attention output, or `TargetMismatch` where scores make no sense.

    Scores found with the last token fixed are right in any case. If one-row matching finds the same ones, the last
    token does not matter; if not, they must at least be linear in the probe.
    """
    q, u = place.probes(LOOKS, ruler.rng)
    copies = ruler.match(q, u)
    alone = ruler.along(OneRow()).match(q, u)
    agree = np.abs(copies.s - alone.s) <= LOOSE + 8 * (copies.error + alone.error)
    clear = copies.good & alone.good
    if (clear & agree).sum() >= CLEAR:  # by chance not even one would
        return False
    half = ruler.match(q, u / 2)
    clear = copies.good & half.good
    off = np.abs(copies.s - 2 * half.s) - 8 * (copies.error + 2 * half.error) - LOOSE
    off[~clear] = -np.inf
    worst = int(np.argmax(off))
    if off[worst] > 0:
        evidence = Evidence(
            "half a probe has half the score",
            ruler.curve.reference(q, u, np.ones(LOOKS))[worst],
            f"expected {copies.s[worst] / 2:.6g}",
            f"{half.s[worst]:.6g}",
        )
        raise TargetMismatch(f"{NOT_THIS}, {OR_NOISY}", evidence)
    return True
