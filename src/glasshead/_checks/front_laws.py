"""What every head obeys whatever lies behind it, checked with a handful of queries before the expensive ones."""

from __future__ import annotations

import numpy as np

from .._errors import NOT_THIS, OR_NOISY, Evidence, TargetMismatch
from .._meters import Halfspace, OneRow, Place, Ruler
from .._oracles import Oracle

LOOSE = 1e-8  # of the answers' size, or of a score of one: these laws are about what the box is
LOOKS = 3
CLEAR = 2  # of them are enough


def check_front_laws(oracle: Oracle, rng: np.random.Generator) -> float:
    """The same query, and the same tokens in another order before the same last one, get the same answer.

    Returns the size of answers."""
    x = rng.standard_normal((4, oracle.dim))
    x *= min(1.0, oracle.reach) / np.linalg.norm(x, axis=1, keepdims=True)
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
    copies = ruler.read_matches(q, u)
    alone = ruler.along(OneRow()).read_matches(q, u)
    agree = np.abs(copies.s - alone.s) <= LOOSE + 8 * (copies.error + alone.error)
    clear = copies.good & alone.good
    if (clear & agree).sum() >= CLEAR:  # by chance not even one would
        return False
    half = ruler.read_matches(q, u / 2)
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


EACH = 4  # queries for each law: a coin passes one law in 16 times


def check_sign_laws(oracle: Oracle, space: Halfspace, rng: np.random.Generator) -> None:
    """`oracle` is seen from an origin on the plane that `space` describes."""
    size = min(oracle.reach, max(1.0, space.shift)) / (2 * np.sqrt(oracle.dim))
    tokens = rng.standard_normal((EACH, 3, oracle.dim))
    tokens *= size / np.maximum(1.0, np.linalg.norm(tokens, axis=-1, keepdims=True) / (2 * np.sqrt(oracle.dim)))
    one = tokens[:, :1]
    side = one[:, 0] @ space.v
    sure = np.abs(side) > 2 * np.linalg.norm(one[:, 0], axis=1) * space.error + space.value_error(oracle, size)
    first, again = (np.asarray(oracle(one)) for _ in range(2))
    copies = np.asarray(oracle(np.repeat(one, 2, axis=1)))
    order, swapped = (np.asarray(oracle(tokens[:, rows])) for rows in ([0, 1, 2], [1, 0, 2]))
    laws = [
        ("the same query gets the same answer", one, first, again),
        (
            "one token alone is answered by the side of a plane that it is on",
            one,
            np.where(sure, side > 0, first),
            first,
        ),
        ("two copies of a token are answered like one", np.repeat(one, 2, axis=1), first, copies),
        ("the order of the other tokens does not matter", tokens, order, swapped),
    ]
    for law, queries, expected, got in laws:
        if np.any(expected != got):
            i = int(np.argmax(expected != got))
            say = ("no", "yes")
            evidence = Evidence(law, queries[i] + space.origin, f"expected {say[int(expected[i])]}", say[int(got[i])])
            raise TargetMismatch("the box is not a single attention head", evidence)
