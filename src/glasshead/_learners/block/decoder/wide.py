"""Heads that are wider than the model together, where positions tell them apart: no output is one head's alone.

With all tokens equal to the last one q, the slope along the token t places before it is `sum_h a_ht P_h`, without any
stray part. Slopes at many places span the value maps, so their number counts heads, and value maps are the matrices of
low rank in that span. A second last token shows the part along q, and the law of odds the scale of weights and
mixtures of heads that share their values. Then one answer is a linear system for the weights of all heads together.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...._errors import NotConverged
from ...._linalg import svd
from ...._oracles import LongToken
from .heads import ODDS_SAMPLES, Readings, law_of_odds, unmixed
from .spaces import differences_of, read_arc_slope

PLACES_TRIED = 8, 16  # before the last token: more than there are heads
SPANNED = 1e-7  # of the largest singular value of slopes: what is smaller is none
TRIES, MORE_TRIES, ITERATIONS = 6, 40, 40  # of starts for each rank, once one of them came out, and Newton's steps
LOW, STILL_FULL = 1e-6, 1e-3  # of the largest singular value: beyond the rank, and within it
OWN_COMBINATION = 1e-5  # of combinations of value maps, which leave the rank as it is
SAME = 1e-4  # between directions of combinations
WIDE_ANGLE = 0.5  # between keys and last tokens, where odds are asked for
SPARE_DIRECTIONS = 4  # at a second last token, at least


@dataclass(frozen=True)
class Together(Readings):
    """Value maps `(h, p, s)` whose outputs overlap; N and C are bases of what they reach and read."""

    maps: np.ndarray

    @classmethod
    def of(cls, maps: np.ndarray, rank: int) -> Together:
        each = [svd(P) for P in maps]
        return cls([Vt[:rank].T for _, _, Vt in each], [U[:, :rank] for U, _, _ in each], maps)

    @property
    def capacity(self) -> int:
        return self.maps.shape[2] // len(self.maps)

    def value_maps(self) -> np.ndarray:
        return self.maps

    def weights_in(
        self, view: LongToken, y: np.ndarray, keys: np.ndarray, last: np.ndarray
    ) -> tuple[np.ndarray, list[np.ndarray]]:
        (count, n, _), heads = keys.shape, len(self.maps)
        moved = np.einsum("bnp,hps->bhns", keys - last[:, None], self.maps).reshape(count, heads * n, -1)
        if not np.isfinite(moved).all():
            raise NotConverged("what heads read of tokens does not come out as numbers")
        inverse = np.linalg.pinv(moved).reshape(count, -1, heads, n)
        return np.einsum("bs,bshn->bhn", y, inverse), list(np.moveaxis(inverse, 2, 0))


def read_wide_heads(view: LongToken, rng: np.random.Generator) -> Together:
    """All heads, from slopes at several places."""
    q, other = view.sphere.random((2,), rng)
    tangents = view.sphere.tangents(q)
    for places in PLACES_TRIED:
        slopes = read_slopes_at_places(view, q, tangents, places)
        _, s, span = svd(slopes.reshape(places, -1))
        count = int(np.sum(s > SPANNED * s[0]))
        if count + 1 < places:
            break
    else:
        raise NotConverged(f"slopes at {PLACES_TRIED[-1]} places show no end of heads")
    rank, members = low_rank_members(span[:count].reshape(count, *slopes.shape[1:]), rng)
    flat = np.concatenate(members) @ span[:count]
    weights = np.linalg.lstsq(flat.T, slopes.reshape(places, -1).T, rcond=None)[0]
    flat = flat * np.abs(weights).max(axis=1)[:, None]
    maps = read_along(view, q, other, tangents, flat.reshape(count, *slopes.shape[1:]), places)
    ends = np.cumsum([len(member) for member in members])
    groups = [list(range(end - len(member), end)) for end, member in zip(ends, members, strict=True)]
    return read_wide_odds(view, Together.of(maps, rank), groups, rank, rng)


def read_slopes_at_places(view: LongToken, q: np.ndarray, directions: np.ndarray, places: int) -> np.ndarray:
    """`(t, directions, s)`: along the token t + 1 places before the last, in a sequence of copies of q."""
    by = differences_of(view, fine=True)

    def read_at(place: int) -> np.ndarray:
        def ask(x: np.ndarray) -> np.ndarray:
            keys = np.tile(q, (len(x), places, 1))
            keys[:, -place] = x
            return view(keys, q)

        return read_arc_slope(by, ask, q, directions)

    return np.stack([read_at(place) for place in range(1, places + 1)])


def low_rank_members(S: np.ndarray, rng: np.random.Generator) -> tuple[int, list[np.ndarray]]:
    """Combinations `(g, h)` of the slices `S (h, m, s)` with a lower rank than all others; those of heads that share
    what they read come as a space of g dimensions, since every mixture of them has that rank."""
    count, m, s = S.shape
    for rank in range(max(1, s // count), min(m, s) - 1):
        found: list[np.ndarray] = []
        for start in range(MORE_TRIES):
            if start >= TRIES and not found:
                break
            own = low_rank_near(S, rng.standard_normal(count), rank)
            if own is not None and all(np.linalg.norm(own @ one.T, 2) < 1 - SAME for one in found):
                found.append(own)
            if sum(map(len, found)) == count:
                return rank, found
    raise NotConverged("no heads show apart")


def low_rank_near(S: np.ndarray, x: np.ndarray, rank: int) -> np.ndarray | None:
    """From a combination x on: the next one makes the part of S vanish that the null spaces of this one see."""
    low, own = False, np.zeros((0, len(S)))
    for _ in range(ITERATIONS):
        U, sizes, Vt = svd(np.tensordot(x / np.linalg.norm(x), S, 1), full=True)
        seen = np.stack([(U[:, rank:].T @ slice @ Vt[rank:].T).ravel() for slice in S], axis=1)
        _, small, right = svd(seen)
        low = bool(sizes[rank] < LOW * sizes[0] and sizes[rank - 1] > STILL_FULL * sizes[0])
        own = right[small < OWN_COMBINATION]
        if sizes[rank] <= LOW * LOW * sizes[0]:
            break
        x = right[-1]
    return own if low and len(own) else None


def read_along(
    view: LongToken, q: np.ndarray, other: np.ndarray, tangents: np.ndarray, maps: np.ndarray, places: int
) -> np.ndarray:
    """Value maps `(h, p, s)` from what they are along the sphere at q, with their part along q from slopes at another
    last token: directions that both see say how its heads weigh tokens, and one more shows what is missing."""
    count, along = len(maps), q / np.linalg.norm(q)
    common = svd(np.stack([q, other]), full=True)[2][2:][: max(SPARE_DIRECTIONS, 2 * count)]
    new = along - other * (along @ other) / (other @ other)
    new = new / np.linalg.norm(new)
    slopes = read_slopes_at_places(view, other, np.concatenate([common, new[None]]), places)
    known = np.einsum("cp,tp,hts->hcs", common, tangents, maps)
    weights = np.linalg.lstsq(known.reshape(count, -1).T, slopes[:, :-1].reshape(places, -1).T, rcond=None)[0]
    rows = np.linalg.lstsq(weights.T, slopes[:, -1], rcond=None)[0]
    whole = np.einsum("tp,hts->hps", tangents, maps)
    missing = (rows - np.einsum("p,hps->hs", new, whole)) / (new @ along)
    return whole + np.einsum("p,hs->hps", along, missing)


def read_wide_odds(
    view: LongToken, mixed: Together, groups: list[list[int]], rank: int, rng: np.random.Generator
) -> Together:
    """Weights that are weights: the odds of a token against the last do not change with one more in front."""
    q = view.sphere.random((), rng)
    samples = ODDS_SAMPLES * len(mixed.maps)
    keys = view.sphere.around(q, 2 * samples, WIDE_ANGLE, rng).reshape(samples, 2, -1)
    less, more = (mixed.read_weights(view, x, q)[0] for x in (keys[:, 1:], keys))
    maps = mixed.maps.copy()
    for group in groups:
        try:
            start = lifted(*law_of_odds(less[:, group], more[:, group], 1), rng)
            fewer, longer = (np.einsum("gh,jht->jgt", start, x[:, group]) for x in (less, more))
            back = np.linalg.inv(np.stack(unmixed(fewer, longer, 1)) @ start)
        except np.linalg.LinAlgError as error:
            raise NotConverged("no weights obey the law of odds") from error
        maps[group] = np.einsum("jh,jps->hps", back, mixed.maps[group])
    return Together.of(maps, rank)


def lifted(F: np.ndarray, linear: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Combinations rho, as rows and up to a factor, that nearly obey `linear rho = rho F rho`: it is linear in
    `(rho rho^T, rho)`, so all of them span a null space, and a pencil of two symmetric members takes them apart."""
    g = linear.shape[1]
    if g == 1:
        return np.ones((1, 1))
    above = np.triu_indices(g)
    both = (F + F.swapaxes(1, 2)) / np.where(np.eye(g) > 0, 2.0, 1.0)
    rows = np.hstack([-both[:, above[0], above[1]], linear])
    sizes = np.linalg.norm(rows, axis=0)
    null = svd(rows / sizes, full=True)[2][-g:] / sizes
    members = np.zeros((g, g, g))
    members[:, above[0], above[1]] = members[:, above[1], above[0]] = null[:, : len(above[0])]
    one, other = np.tensordot(rng.standard_normal((2, g)), members, 1)
    return np.linalg.inv(np.real(np.linalg.eig(np.linalg.solve(other, one))[1]))
