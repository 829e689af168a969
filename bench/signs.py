"""Yes/no answers: queries per parameter and per bit, rounds, errors, and answers that are wrong at random."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import product
from statistics import median
from typing import Any

import numpy as np
from tests.helpers import head, low_rank

import glasshead as gh
from glasshead._checks.signs import check_held_out_signs
from glasshead._learned import LearnedFromSigns
from glasshead._learners.signs.learn import learn_sign_attention

from .fresh import measured

Progress = Callable[[int, int, str], None]
Row = dict[str, Any]

LIMITS = {
    "per_parameter": 6,  # more than bits
    "error, d = 32, 40 bits": 1e-9,
    "low rank": 1.1,
    "queries per parameter, low rank": 36,
    "rounds per bit, rank told": 10,  # in any of the dimensions: asked for is a number that does not grow with d^2
    "rounds per bit, rank not told": 20,
}
DIMS, BITS, SEEDS = (8, 32, 64), (20, 40), 5
LOW_RANK = (128, 4, 30)  # d, rank, bits
KINDS = ("random", "along v", "across v", "sparse v")  # how the columns of W lie to v
FLIPS = (0.0, 0.01, 0.05, 0.1)


class Rounds(gh.SignOracle):
    """Counts requests as well as queries: everything in one request is asked side by side."""

    rounds = 0

    def __call__(self, X):
        self.rounds += 1
        return super().__call__(X)


def learn(oracle: gh.SignOracle, bits: int, rank: int | None, seed: int) -> LearnedFromSigns:
    """To so many bits, and checked on fresh queries as `gh.recover` does, all of which count."""
    rng = np.random.default_rng(seed)
    learned = learn_sign_attention(oracle, rng, rank, bits=bits)
    check = check_held_out_signs(oracle, learned, rng)
    if check.evidence is not None:
        raise AssertionError(f"seed {seed}: {check.evidence}")
    return learned


def off(found, target: gh.Attention) -> float:
    return float(np.linalg.norm(found.model.W - target.W))


def bounded(found, target: gh.Attention) -> bool:
    v = target.v / np.linalg.norm(target.v)
    return bool(off(found, target) <= found.bound and np.linalg.norm(found.model.v - v) <= found.bound_v)


def full(d: int, bits: int, known: bool) -> Row:
    """Rank d, told or found out; scores of about one."""
    errors, queries, rounds, held = [], [], [], True
    for seed in range(SEEDS):
        target = head(d, W=1 / np.sqrt(d), seed=seed)
        oracle = Rounds(target)
        learned = learn(oracle, bits, d if known else None, seed)
        errors.append(off(learned, target))
        queries.append(oracle.queries)
        rounds.append(oracle.rounds)
        held = held and learned.rank == d and bounded(learned, target)
    row = {"d": d, "bits": bits, "rank_known": known, "boxes": SEEDS, "error": max(errors), "queries": max(queries)}
    row |= {"per_parameter": max(queries) / (d * d + d), "rounds": max(rounds)}
    return row | {"bound_and_rank_right": held}


def forty_bits() -> Row:
    """`gh.recover` as it is called by default, d = 32."""
    found = [(gh.Attention.random(32, seed=s), s) for s in range(SEEDS)]
    runs = [(gh.recover(gh.SignOracle(target), family="attention", seed=seed), target) for target, seed in found]
    errors = [off(one, target) for one, target in runs]
    row = {"d": 32, "bits": 40, "boxes": SEEDS, "error": max(errors), "bound": max(one.bound for one, _ in runs)}
    row |= {"bound_over_error": median(one.bound / off(one, target) for one, target in runs)}
    return row | {"queries": max(one.queries for one, _ in runs), "bounded": all(bounded(*run) for run in runs)}


def low(kind: str) -> Row:
    d, rank, bits = LOW_RANK
    parameters = 2 * rank * d - rank**2 + d
    errors, queries, rounds, held = [], [], [], True
    for seed in range(SEEDS):
        target = low_rank(d, rank, kind=kind, seed=seed)
        oracle = Rounds(target)
        learned = learn(oracle, bits, None, seed)
        errors.append(off(learned, target) / float(np.linalg.norm(target.W)))
        queries.append(oracle.queries)
        rounds.append(oracle.rounds)
        held = held and learned.rank == rank and bounded(learned, target)
    row = {"kind": kind, "d": d, "rank": rank, "bits": bits, "boxes": SEEDS, "parameters": parameters}
    row |= {"error": max(errors), "queries": max(queries), "per_parameter": max(queries) / parameters}
    row |= {"limit": LIMITS["low rank"] * parameters * LIMITS["queries per parameter, low rank"]}
    return row | {"rounds": max(rounds), "bound_and_rank_right": held}


def flipped(probability: float) -> Row:
    """Each answer wrong with that probability, afresh: asked again until yes or no is far enough ahead."""
    errors, queries, confidence, held = [], [], [], True
    for seed in range(SEEDS):
        target = head(8, seed=seed)
        box = gh.defences.flipped(target, probability, seed) if probability else target
        found = gh.recover(gh.SignOracle(box, flips=probability), family="attention", seed=seed)
        errors.append(off(found, target) / float(np.linalg.norm(target.W)))
        queries.append(found.queries)
        confidence.append(found.confidence)
        held = held and bounded(found, target)
    row = {"flips": probability, "d": 8, "boxes": SEEDS, "error": max(errors), "queries": max(queries)}
    return row | {"confidence": min(confidence), "bounded": held}


def run(progress: Progress) -> dict[str, Any]:
    """Each row in a process of its own, with one thread."""
    calls = {
        "full": [f"full({d}, {bits}, {known})" for d, bits, known in product(DIMS, BITS, (True, False))],
        "forty_bits": ["forty_bits()"],
        "low_rank": [f"low({kind!r})" for kind in KINDS],
        "flipped": [f"flipped({probability})" for probability in FLIPS],
    }
    done, total, result = 0, sum(map(len, calls.values())), {"limits": LIMITS}
    for name, some in calls.items():
        result[name] = []
        for call in some:
            progress(done, total, f"signs: {call}")
            result[name].append(measured(f"bench.signs.{call}", threads=1))
            done += 1
    return result


def broken(result: dict[str, Any]) -> Iterable[str]:
    """A sentence for every number that misses its limit."""
    for row in result["full"]:
        told = "told" if row["rank_known"] else "not told"
        where = f"signs, d = {row['d']}, {row['bits']} bits, rank {told}"
        most = row["bits"] + LIMITS["per_parameter"]
        if not row["per_parameter"] <= most:
            yield f"{where}: {row['per_parameter']:.2f} queries per parameter > {most}"
        if row["rounds"] > (most := LIMITS[f"rounds per bit, rank {told}"] * row["bits"]):
            yield f"{where}: {row['rounds']} rounds > {most}"
        if not row["bound_and_rank_right"]:
            yield f"{where}: a bound or a rank is wrong"
    for row in result["forty_bits"]:
        if not (row["error"] <= LIMITS["error, d = 32, 40 bits"] and row["bounded"]):
            yield f"signs, d = 32, 40 bits: error {row['error']:.2g}"
    for row in result["low_rank"]:
        where = f"signs, d = {row['d']}, rank {row['rank']}, {row['kind']}"
        if not row["queries"] <= row["limit"]:
            yield f"{where}: {row['queries']} queries > {row['limit']:.0f}"
        if not row["bound_and_rank_right"]:
            yield f"{where}: a bound or a rank is wrong"
    for row in result["flipped"]:
        if not row["bounded"]:
            yield f"signs, flips {row['flips']}: a bound is below the error"
