"""Laws that every attention head obeys, checked with a handful of queries before the expensive ones."""

from __future__ import annotations

import numpy as np

from .._errors import COPIES, MIXED, NOT_HEADS, ONE_TOKEN, ORDER, SAME, Evidence, TargetMismatch
from .._meters import Interval, ValueMeter, Values
from .._oracles import Oracle, is_narrow
from .._types import Float
from .noise import Unpromised, find_unpromised

LOOSE = 1e-6  # of the values' size: these laws are about what the box is, not about its last digits


def law_token(oracle: Oracle, rng: np.random.Generator) -> np.ndarray:
    token = rng.standard_normal(oracle.dim)
    return token * min(1.0, oracle.reach) / np.linalg.norm(token)


def check_laws(
    oracle: Oracle, values: Values, token: np.ndarray, first: np.ndarray, rng: np.random.Generator
) -> Unpromised | None:
    """Refuse a box that is no head; return the noise if what shows first is noise that the oracle does not promise.

    `first` is what the box answered to the one-row query `[token]`, before v was read.
    """
    length = float(np.linalg.norm(token))
    size = abs(values.bias) + float(np.linalg.norm(values.v)) * length
    predicted = values.bias_error(oracle) + np.sqrt(oracle.dim) * length * values.entry_error(oracle)
    allowed = 2 * values.promise(oracle, size) + predicted + LOOSE * size
    row = token[None]
    other, another = (law_token(oracle, rng) for _ in range(2))
    one, two, three = row, np.stack([token, token]), np.stack([other, another, token])
    again = float(values.of(oracle(one[None]))[0])
    earlier = float(values.of(first[None])[0])
    if oracle.exact and (earlier != again or is_narrow(oracle)):
        noise = find_unpromised(oracle, values, one, earlier, again, size)
        if noise is not None:
            return noise
    copies = float(values.of(oracle(two[None]))[0])
    order, swapped = (float(y) for y in values.of(oracle(np.stack([three, three[[1, 0, 2]]]))))
    laws = [
        (SAME, one, earlier, again),
        (ONE_TOKEN, one, float(token @ values.v + values.bias), again),
        (COPIES, two, again, copies),
        (ORDER, three, order, swapped),
    ]
    for law, query, expected, got in laws:
        if abs(expected - got) > allowed:
            evidence = Evidence(law, query, f"expected {expected:.9g} within {allowed:.2g}", f"{got:.9g}")
            less = "" if oracle.exact else ", or its answers are less accurate than promised"
            raise TargetMismatch(f"the box is not a single attention head{less}", evidence)
    return None


CLEARLY = 1e-4  # of a logit: several heads are hardly ever that close to one, and noise nobody promised often is
HIDDEN = 1e2  # two random keys both see that much less than usual of a vector once in 15,000
FEWEST = 3  # keys at one query token: two, and their mixture


def mix(keys: Float[np.ndarray, "n d"]) -> float:
    """Makes the third key the sum of the first two times the number returned, so that it is as long as they are."""
    both = keys[0] + keys[1]
    share = float(np.linalg.norm(keys[:2], axis=1).mean() / np.linalg.norm(both))
    keys[2] = share * both
    return share


def check_mixture(meter: ValueMeter, q: np.ndarray, keys: np.ndarray, share: float, logits: Interval) -> None:
    """Refuses a box whose logits for the first three keys, at the token q, no head could have."""
    s, lo, hi = (end.ravel()[:FEWEST] for end in logits)
    least, most = share * (lo[0] + lo[1]), share * (hi[0] + hi[1])
    off = max(lo[2] - most, least - hi[2])
    allowed = (1 + 2 * share) * rounding(meter, q, keys, s) + CLEARLY * max(1.0, float(np.abs(s).max()))
    if off > allowed:
        evidence = Evidence(
            MIXED,
            np.stack([keys[2] + q, q]),
            f"expected a logit of {share * (s[0] + s[1]):.6g}, from {least - allowed:.6g} to {most + allowed:.6g}",
            f"{s[2]:.6g}",
        )
        less = "its answers are less accurate than promised (then say so with tolerance= or rtol=)"
        raise TargetMismatch(f"the box is not a single attention head, or {less}", evidence)


def rounding(meter: ValueMeter, q: np.ndarray, keys: np.ndarray, s: np.ndarray) -> float:
    """How far rounding inside the box may move such a logit: as for a key vector that hides from the first two keys."""
    d, length = meter.oracle.dim, float(np.linalg.norm(keys[:2], axis=1).min())
    size = HIDDEN * np.sqrt(d) * float(np.abs(s[:2]).max()) / length
    size += 0.0 if meter.key_bias is None else float(np.linalg.norm(meter.key_bias))
    return 4 * (d + 4) * meter.oracle.roundoff * (length + float(np.linalg.norm(q))) * size


LOOSE_LAYER = 1e-6  # of the largest answer: these laws are about what the box is, not about its last digits
ROUNDINGS = 64  # of narrower numbers than float64, where LOOSE is out of reach


def check_layer_laws(
    oracle: Oracle, B: np.ndarray, bias: np.ndarray, token: np.ndarray, first: np.ndarray, rng
) -> None:
    """`first` is what the box answered to `[token]` before B was read."""
    other, another = (law_token(oracle, rng) for _ in range(2))
    one, two = token[None], np.stack([token, token])
    order, swapped = np.stack([other, another, token]), np.stack([another, other, token])
    again, copies, ordered, exchanged = (oracle(X[None])[0] for X in (one, two, order, swapped))
    laws = [
        (SAME, one, first, again),
        ("one token alone is answered by x.B + bias", one, token @ B + bias, again),
        (COPIES, two, again, copies),
        (ORDER, order, ordered, exchanged),
    ]
    size = float(np.abs(bias).max() + np.abs(B).sum(axis=0).max() * np.abs(token).max())
    allowed = max(LOOSE_LAYER, ROUNDINGS * oracle.roundoff) * size
    for law, query, expected, got in laws:
        refuse_unless(law, query, expected, got, allowed)
    # No score is steep enough to tell such tokens apart, and any share but a half would be a residual connection's.
    near = np.sqrt(oracle.roundoff) * other
    two_alike = np.stack([token + near, token])
    nearby, share = (two_alike[0] - token) @ B, ROUNDINGS * oracle.roundoff * size
    alike = oracle(two_alike[None])[0] - again
    refuse_unless(
        "two tokens hardly apart count alike", two_alike, nearby / 2, alike, share + float(np.abs(nearby).max()) / 16
    )


def refuse_unless(law: str, query: np.ndarray, expected: np.ndarray, got: np.ndarray, allowed: float) -> None:
    """Unless `expected` and `got` are within `allowed` of each other."""
    if np.abs(expected - got).max() <= allowed:
        return
    worst = int(np.argmax(np.abs(expected - got)))
    wanted = f"expected {expected[worst]:.9g} within {allowed:.2g} as output {worst}"
    raise TargetMismatch(NOT_HEADS, Evidence(law, query, wanted, f"{got[worst]:.9g}"))


LENGTHS = 1.0, 2.0**-10  # of tokens, over the one that laws are tested with
BROKEN = 1e-6  # of the largest answer
ERRORS = 8.0  # times the error of an answer


def could_be_heads(oracle: Oracle, rng: np.random.Generator) -> bool:
    """One token is answered by an affine function, copies of it like one, and the order of others does not matter;
    `[q + z ; q]` less `[q - z ; q]` is z.total."""
    return all(laws_hold(oracle, length, rng) for length in LENGTHS)


def laws_hold(oracle: Oracle, length: float, rng: np.random.Generator) -> bool:
    x, y, z = (length * law_token(oracle, rng) / 2 for _ in range(3))
    zero, ahead, back = ask(oracle, [[0 * x], [x], [-x]])
    copies, one, other = ask(oracle, [[x, x, x], [x, y, z], [y, x, z]])
    plus, minus, end = ask(oracle, [[z + x, z], [z - x, z], [z]])
    broken = ahead + back - 2 * zero, copies - ahead, one - other, plus - minus - (ahead - zero)
    largest = float(np.abs([zero, ahead, back, copies, one, other, plus, minus, end]).max())
    allowed = BROKEN * largest + ERRORS * (oracle.tolerance + (oracle.rtol + oracle.roundoff) * largest)
    return bool(np.abs(broken).max() <= allowed)


def largest_change(oracle: Oracle, rng: np.random.Generator) -> float:
    """By how much the answer to three tokens differs from that to the zero token; 0 where rounding would explain it."""
    X = [[length * law_token(oracle, rng) for _ in range(3)] for length in LENGTHS]
    zero, *answers = ask(oracle, [[0 * X[0][0]], *X])
    change, largest = np.abs(np.subtract(answers, zero)), np.maximum(np.abs(answers), abs(zero))
    allowed = ERRORS * (oracle.tolerance + (oracle.rtol + oracle.roundoff) * largest)
    return float(np.max(change, where=change > allowed, initial=0.0))


def ask(oracle: Oracle, sequences: list[list[np.ndarray]]) -> np.ndarray:
    """The answers to sequences of any lengths."""
    return np.array([float(oracle(np.array(sequence)[None])[0]) for sequence in sequences])
