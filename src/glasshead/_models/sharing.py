"""Heads on shared keys and values, as in grouped-query attention: found in their projections.

Two heads can stand on one key-value head if the keys of one are a linear map of the other's, one that commutes with
rotary positions (a complex factor for each plane, any map of what does not turn), and so are its values. The map then
moves into the queries and the outputs of the head.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

import numpy as np

from .._types import Float
from .fused import Projections


@dataclass(frozen=True)
class Grouped:
    """As many query heads in a row stand on each of `key_value_heads`; rows are ordered by head."""

    Q: Float[np.ndarray, "rows d"]
    K: Float[np.ndarray, "kv_rows d"]
    V: Float[np.ndarray, "kv_rows d"]
    O: Float[np.ndarray, "k rows"]  # noqa: E741 (its name everywhere)
    q_bias: Float[np.ndarray, " rows"]
    k_bias: Float[np.ndarray, " kv_rows"]
    key_value_heads: int


def grouped(found: Projections, allowed: float) -> Grouped:
    """A layer that computes what this one does, with as few key-value heads as there can be: groups must be equally
    large there, so that heads of larger groups repeat theirs."""
    frequencies = np.zeros(found.width // 2) if found.frequencies is None else found.frequencies
    K, Q = (found.by_head(np.c_[x, b]) for x, b in ((found.K, found.k_bias), (found.Q, found.q_bias)))
    V, O = found.by_head(found.V), found.by_head(found.O.T)  # noqa: E741
    own_Q, own_O, groups = Q.copy(), O.copy(), []
    for h in range(found.heads):
        for group in groups:
            query = moved_query(K[group[0]], K[h], Q[h], frequencies, allowed)
            values = linear_map(V[group[0]], V[h], allowed * float(np.linalg.norm(V[h])))
            if query is not None and values is not None:
                own_Q[h], own_O[h] = query, values.T @ O[h]
                group.append(h)
                break
        else:
            groups.append([h])
    repeats = gcd(*map(len, groups))
    if repeats == 1:
        own_Q, own_O, groups = Q, O, [[h] for h in range(found.heads)]
    order = [h for group in groups for h in group]
    leaders = [group[0] for group in groups for _ in range(len(group) // repeats)]
    keys, queries = (x.reshape(-1, x.shape[-1]) for x in (K[leaders], own_Q[order]))
    values, outputs = (x.reshape(-1, x.shape[-1]) for x in (V[leaders], own_O[order]))
    return Grouped(queries[:, :-1], keys[:, :-1], values, outputs.T, queries[:, -1], keys[:, -1], len(leaders))


def linear_map(one: np.ndarray, other: np.ndarray, off: float) -> np.ndarray | None:
    """M with `other = M one`, if there is one that is no farther off."""
    M = np.linalg.lstsq(one.T, other.T, rcond=None)[0].T
    return M if np.linalg.norm(M @ one - other) <= off else None


def moved_query(
    one: np.ndarray, other: np.ndarray, query: np.ndarray, frequencies: np.ndarray, allowed: float
) -> np.ndarray | None:
    """Rows of the queries which make of the keys `one` the scores that `query` makes of `other`, if there are such."""
    half, found, off = len(frequencies), np.zeros_like(query), allowed * float(np.linalg.norm(other))
    for frequency in np.unique(frequencies):
        at = np.flatnonzero(frequencies == frequency)
        both = np.append(at, half + at)
        if frequency == 0:
            M = linear_map(one[both], other[both], off)
            if M is None:
                return None
            found[both] = M.T @ query[both]
            continue
        M = linear_map(one[at] + 1j * one[half + at], other[at] + 1j * other[half + at], off)
        if M is None:
            return None
        turned = M.conj().T @ (query[at] + 1j * query[half + at])
        found[at], found[half + at] = turned.real, turned.imag
    return found
