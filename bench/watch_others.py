"""Watching what its thresholds were not chosen on: recoveries of other boxes, sizes and seeds, methods of the paper,
and clients that ask honestly and send no sentences."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from tests.decoder.boxes import Decoder, llama_frequencies
from tests.serve.others import KINDS, asked

import glasshead as gh
from glasshead._serve import Watch

from .float32 import torch_layer
from .vector import layer

Progress = Callable[[int, int, str], None]

SEEDS = 11, 12, 13  # the others begin at 0
CLIENTS, SEQUENCES = 250, 300  # of each kind, and how many each
DIMS = 5, 12, 48, 96, 384
MOST_QUERIES, MOST_SHARE = 50, 0.01  # until a recovery is to be noticed, whichever is more
FORMATS = {"float64": 2.0**-53, "float32": 2.0**-24}


def biased(seed: int) -> gh.Attention:
    rng = np.random.default_rng([96, seed])
    W, v, key_bias = rng.standard_normal((96, 96)) / 10, *rng.standard_normal((2, 96))
    return gh.Attention(W, v, key_bias=key_bias, bias=0.3)


def in_a_sigmoid(seed: int) -> Callable[[np.ndarray], np.ndarray]:
    model = gh.Transformer.random(48, 96, seed=seed)
    return lambda X: 1 / (1 + np.exp(-model(X)))


def values(f: Callable[..., Any], dim: int, **promise: Any) -> gh.Oracle:
    return gh.ValueOracle(f, dim, **promise)


# Name, the box of a seed, its dimension, and what is done to it.
ATTACKS: tuple[tuple[str, Callable[[int], Any], int, Callable[[Any, int], Any]], ...] = (
    ("one head with biases", biased, 96, lambda f, d: gh.recover(values(f, d))),
    (
        "one head, tokens of length 1 at most",
        lambda seed: gh.Attention.random(80, seed=seed),
        80,
        lambda f, d: gh.recover(values(f, d, max_norm=1.0)),
    ),
    (
        "one head behind noise",
        lambda seed: gh.defences.noisy(gh.Attention.random(70, seed=seed), 1e-4),
        70,
        lambda f, d: gh.recover(values(f, d, tolerance=1e-4)),
    ),
    (
        "one head, from signs",
        lambda seed: gh.Attention.random(24, seed=seed),
        24,
        lambda f, d: gh.recover(gh.SignOracle(f, d), accuracy=1e-4),
    ),
    ("4 heads", lambda seed: gh.MultiHead.random(48, 4, seed=seed), 48, lambda f, d: gh.recover(values(f, d))),
    (
        "8 heads in float32",
        lambda seed: torch_layer(64, 8, seed, "float32", scalar=True)[0],
        64,
        lambda f, d: gh.recover(values(f, d, dtype="float32")),
    ),
    ("a layer of 12 heads", lambda seed: layer(96, 12, 1.0, seed), 96, lambda f, d: gh.recover(values(f, d))),
    ("a Transformer", lambda seed: gh.Transformer.random(48, 96, seed=seed), 48, lambda f, d: gh.recover(values(f, d))),
    (
        "a head in front of any network",
        in_a_sigmoid,
        48,
        lambda f, d: gh.recover(values(f, d), family="any-network"),
    ),
    (
        "a block",
        lambda seed: gh.Block.random(96, 6, seed=seed),
        96,
        lambda f, d: gh.recover(values(f, d), family="block"),
    ),
    (
        "a decoder, GPT-2 type",
        lambda seed: Decoder(64, 4, seed=seed, norm="layer", network="gelu", eps=1e-5),
        64,
        lambda f, d: gh.recover(values(f, d)),
    ),
    (
        "a decoder, LLaMA type",
        lambda seed: Decoder(64, 4, seed=seed, theta=llama_frequencies(8)),
        64,
        lambda f, d: gh.recover(values(f, d)),
    ),
    (
        "one head, by Theorem 4.1",
        lambda seed: gh.Attention.random(72, seed=seed),
        72,
        lambda f, d: gh.paper.theorem_4_1(values(f, d), probes="gaussian"),
    ),
    (
        "subspaces of 4 heads",
        lambda seed: gh.MultiHead.random(24, 4, rank=4, seed=seed),
        24,
        lambda f, d: gh.paper.hessian_subspaces(values(f, d)),
    ),
)


def one_attack(name: str, make: Callable[[int], Any], dim: int, attack: Callable[[Any, int], Any]) -> dict[str, Any]:
    """Of the seeds: the fewest queries, and the most until one was noticed; all of them where it never was."""
    runs = [watched(make(seed), dim, attack) for seed in SEEDS]
    return {"attack": name, "dim": dim, "queries": min(run[0] for run in runs), "noticed": max(run[1] for run in runs)}


def watched(box: Any, dim: int, attack: Callable[[Any, int], Any]) -> tuple[int, int]:
    watch, sent, at = Watch(), 0, 0

    def kept(X: np.ndarray) -> Any:
        nonlocal sent, at
        for x in X:
            sent += 1
            if not watch.noticed and watch.see(np.array(x, dtype=float)[None], FORMATS[str(X.dtype)]):
                at = sent
        return box(X)

    attack(kept, dim)
    return sent, at or sent


def honest(kind: str) -> dict[str, Any]:
    """Clients of one kind: how many were noticed, and the highest score among the others."""
    flagged, highest = 0, 0.0
    for client in range(CLIENTS):
        rng, watch = np.random.default_rng([7, client]), Watch()
        for X, roundoff in asked(kind, int(rng.choice(DIMS)), SEQUENCES, rng):
            watch.see(X, roundoff)
        flagged, highest = flagged + watch.noticed, max(highest, watch.score)
    return {"kind": kind, "clients": CLIENTS, "noticed": flagged, "highest": highest}


def run(progress: Progress) -> dict[str, Any]:
    total, rows, clients = len(ATTACKS) + len(KINDS), [], []
    for done, attack in enumerate(ATTACKS):
        progress(done, total, attack[0])
        rows.append(one_attack(*attack))
    for done, kind in enumerate(KINDS, len(ATTACKS)):
        progress(done, total, kind)
        clients.append(honest(kind))
    return {"seeds": SEEDS, "rows": rows, "honest": clients}


def broken(result: dict[str, Any]) -> Iterable[str]:
    for row in result["rows"]:
        most = max(MOST_QUERIES, MOST_SHARE * row["queries"])
        if row["noticed"] > most:
            yield f"{row['attack']}: noticed after {row['noticed']} of {row['queries']} queries, more than {most:.0f}"
    for kind in result["honest"]:
        if kind["noticed"]:
            yield f"{kind['noticed']} of {kind['clients']} clients that send {kind['kind']} were noticed"
