"""v from signs: on which side of the plane `x.v + bias = 0` tokens lie, and the plane itself by bisection.

`f([x])` has the sign of `x.v + bias`, so one-row queries show that plane and nothing else: v and the bias up to one
positive factor. A plane that no token reaches shows nothing at all, and then longer sequences do not either: their
values are averages of values on one side.
"""

from __future__ import annotations

import numpy as np

from ..._errors import ONE_TOKEN_SIDE, Evidence, NotIdentifiable, TargetMismatch
from ..._linalg import random_rotation
from ..._meters import Halfspace, Unbounded, find_exponents, find_intervals, value_rounding
from ..._oracles import HALF, Oracle, Translated

NEAREST_PLANE = -140  # exponent of the shortest token compared with the longest, where the plane is looked for
OUTREACH = 2.0**10  # how much longer than its distance from zero the tokens are that show the plane
LEFT_BEYOND = 2.0**-8  # of the longest token: what must be left of it beyond the plane
FRAMES = 8  # tried in turn for a direction in which a token reaches the plane
ROUGH_BITS = 16  # bits of v before anything else is known
COORDINATES = 2.5  # times 1/sqrt(d): where the coordinates of v lie, compared with that along the mean axis


def find_halfspace(oracle: Oracle, rng: np.random.Generator) -> Halfspace:
    """The plane to `ROUGH_BITS` bits, and an origin on it to the last."""
    d, reach = oracle.dim, oracle.reach
    frame = random_rotation(d, rng)
    # Tokens so short that any bias which could matter outweighs them; float16 has no room for much smaller numbers.
    short = min(1.0, reach) * (oracle.roundoff if oracle.roundoff >= HALF else oracle.roundoff**2)
    axis = find_mean_axis(oracle, frame, short)
    there, back = read_sides(oracle, short * np.stack([axis, -axis]))
    if there and not back:
        return read_roughly(oracle, axis, min(1.0, reach), np.zeros(d), short, rng)
    if there != back:
        raise not_a_plane(short * axis, "yes", "no")
    out = find_crossing_direction(oracle, frame, bool(back), rng)
    origin, offset = find_crossing(oracle, out, bool(back))
    near = Translated(oracle, origin)
    distance = float(np.linalg.norm(origin))
    length = min(near.reach, OUTREACH * distance)
    axis = find_mean_axis(near, frame, length)
    there, back_again = read_sides(near, length * np.stack([axis, -axis]))
    if not there or back_again:
        raise not_a_plane(origin + length * axis, "yes", "no")
    first = read_roughly(near, axis, length, origin, offset, rng)
    origin, offset = find_crossing(oracle, first.v if not back else -first.v, bool(back))
    return Halfspace(first.v, first.error, origin, offset)


def read_sides(oracle: Oracle, tokens: np.ndarray) -> np.ndarray:
    return np.asarray(oracle(tokens[:, None]))


def find_mean_axis(oracle: Oracle, frame: np.ndarray, length: float) -> np.ndarray:
    """A unit vector on the yes side: the mean of all axes, each turned to it. Its dot product with v is near 0.8."""
    yes = read_sides(oracle, length * frame)
    return np.where(yes, 1.0, -1.0) @ frame / np.sqrt(len(frame))


def find_crossing_direction(oracle: Oracle, frame: np.ndarray, at_zero: bool, rng: np.random.Generator) -> np.ndarray:
    """Where a box with a bias changes its mind: the mean of all directions in which it does.

    One axis of any frame has a dot product of `1/sqrt(d)` or more with v, some axis of many frames a larger one. There
    is no better way to find a far plane: the answers on this side of it are all the same.
    """
    start = oracle.queries
    for _ in range(FRAMES if oracle.max_norm is not None else 1):
        directions = np.concatenate([frame, -frame])
        across = directions[read_sides(oracle, (1 - LEFT_BEYOND) * oracle.reach * directions) != at_zero]
        if len(across):
            mean, yes, no = across.sum(axis=0), *(("yes", "no") if at_zero else ("no", "yes"))
            if np.linalg.norm(mean) < 0.5:  # of orthonormal directions, so that each has its opposite among them
                raise not_a_plane((1 - LEFT_BEYOND) * oracle.reach * across[0], yes, no)
            return mean / np.linalg.norm(mean)
        frame = random_rotation(oracle.dim, rng)
    raise NotIdentifiable(silent(oracle, oracle.queries - start, at_zero))


def find_crossing(oracle: Oracle, direction: np.ndarray, at_zero: bool) -> tuple[np.ndarray, float]:
    """The point in that direction where the answer changes, to the last digit, and how large the value there may be."""
    reach = oracle.reach

    def read_farther(which: np.ndarray, x: np.ndarray) -> np.ndarray:
        if np.abs(x).max() > 1:
            raise not_a_plane(reach * direction, "yes" if at_zero else "no", "no" if at_zero else "yes")
        return read_sides(oracle, (reach * x)[:, None] * direction) == at_zero

    exponent = find_exponents(read_farther, 1, NEAREST_PLANE, 0)
    scale = 2.0**exponent

    def sequence(_, x: np.ndarray) -> np.ndarray:
        return (reach * x)[:, None, None] * direction

    lo, hi = find_intervals(read_farther, scale, scale * 4 * oracle.roundoff, sequence)
    distance = reach * float(lo[0] + hi[0]) / 2
    offset = reach * float(hi[0] - lo[0]) / 2 + 2 * float(value_rounding(oracle, distance))
    return distance * direction, offset


def read_roughly(
    oracle: Oracle, axis: np.ndarray, length: float, origin: np.ndarray, offset: float, rng: np.random.Generator
) -> Halfspace:
    """`oracle` is seen from `origin`."""
    reach = COORDINATES / np.sqrt(len(axis))
    unknown = Halfspace(axis, 1.0, origin, offset)
    return find_direction(oracle, unknown, length, reach, reach * 2.0 ** (1 - ROUGH_BITS), rng)


def read_direction_finer(oracle: Oracle, space: Halfspace, width: float, rng: np.random.Generator) -> Halfspace:
    """v with every coordinate within an interval of that width, or as narrow as the rounding of the box allows."""
    length = min(oracle.reach, OUTREACH * space.shift if space.shift > 0 else 1.0)
    blur = float(space.value_error(oracle, length)) / length
    width = max(width, blur)
    if 2 * np.sqrt(oracle.dim) * (width / 2 + blur) > space.error:
        return space  # it would not be half of what it is
    reach = 2 * space.error / np.sqrt(oracle.dim)
    return find_direction(oracle, space, length, reach, width, rng)


def find_direction(
    oracle: Oracle, space: Halfspace, length: float, reach: float, width: float, rng: np.random.Generator
) -> Halfspace:
    """v by its coordinates across `space.v`, compared with that along it: `w.v / u.v > c` is asked by `w - c u`."""
    frame = random_rotation(oracle.dim, rng, space.v)
    axis, others = frame[0], frame[1:]

    def sequence(which: np.ndarray, c: np.ndarray) -> np.ndarray:
        return (length / np.sqrt(1 + c**2)[:, None] * (others[which] - c[:, None] * axis))[:, None]

    def read_above(which: np.ndarray, c: np.ndarray) -> np.ndarray:
        return np.asarray(oracle(sequence(which, c)))

    n = len(others)
    try:
        lo, hi = find_intervals(read_above, np.full(n, reach), np.full(n, width), sequence)
    except Unbounded as error:
        raise not_a_plane(space.origin - length * axis, "no", "yes") from error
    along = 1 / np.sqrt(1 + np.sum(np.maximum(np.abs(lo), np.abs(hi)) ** 2))  # at least: u.v
    blur = space.value_error(oracle, length) / (length * along)
    lo, hi = lo - blur * np.sqrt(1 + lo**2), hi + blur * np.sqrt(1 + hi**2)
    v = axis + (lo + hi) / 2 @ others
    # Vectors no shorter than 1 do not move apart when they are scaled to length 1.
    error = float(np.linalg.norm(hi - lo) / 2 + 4 * oracle.dim * 2.0**-53)
    return Halfspace(v / np.linalg.norm(v), error, space.origin, space.offset)


def silent(oracle: Oracle, queries: int, answer: bool) -> str:
    within = "at any length" if oracle.max_norm is None else f"up to max_norm = {oracle.max_norm:g}"
    least = (1 - LEFT_BEYOND) * oracle.reach / np.sqrt(oracle.dim)
    return (
        f"the box says {'yes' if answer else 'no'} to every token, in {queries} directions and {within}: v = 0, so "
        f"that nothing depends on W, or |bias| >= {least:.3g} |v|, so that hardly any token reaches the plane where "
        "answers change; if the box answers probabilities, wrap it as gh.SignOracle(lambda X: p(X) - 0.5, dim=...)"
    )


def not_a_plane(token: np.ndarray, expected: str, got: str) -> TargetMismatch:
    evidence = Evidence(ONE_TOKEN_SIDE, token[None], f"expected {expected}", got)
    return TargetMismatch("the box is not a single attention head", evidence)
