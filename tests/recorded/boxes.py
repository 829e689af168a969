"""A few hundred boxes over all families, by name: what is asked, and of which truth."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import glasshead as gh
from tests import helpers
from tests.any_network.blocks import Block, RandomBlock
from tests.helpers import IMPOSTORS, Impostors, low_rank, spectrum
from tests.joint.layers import HIDDEN, hidden, only_where_unsaturated
from tests.multi.layers import changed
from tests.multi.layers import layer as scalar_layer
from tests.relu.relu_cases import degenerate, gaussian
from tests.vector import boxes as vector


@dataclass
class Case:
    """`ask(box)` is one run on the box `answer`, whose parameters are `truth` where they are known."""

    name: str
    answer: Callable
    dim: int
    truth: Any = None
    promise: dict = field(default_factory=dict)
    arguments: dict = field(default_factory=dict)
    kind: str = "value"


def plain() -> Iterator[Case]:
    for dim in (1, 2, 3, 4, 5, 8, 12, 16, 17, 24, 32, 64):
        for W, v, bias in ((1.0, 1.0, 0.0), (1e-6, 1e6, 0.0), (30.0, 1.0, 1.0), (1e3, 1e-6, 10.0)):
            target = helpers.head(dim, W=W, v=v, key_bias=bias or None, bias=bias, sparse=bool(bias), seed=dim)
            yield Case(f"plain d={dim} W={W:g} v={v:g} bias={bias:g}", target, dim, target)
        narrow = helpers.head(dim, dtype=np.float32, seed=dim + 1)
        yield Case(f"plain d={dim} float32", narrow, dim, narrow)
    for dim in (4, 16):
        zero = gh.Attention(np.zeros((dim, dim)), np.arange(1.0, dim + 1))
        yield Case(f"mean d={dim}", zero, dim, zero)
        yield Case(f"silent d={dim}", gh.Attention(np.eye(dim), np.zeros(dim)), dim)
        row = helpers.head(dim, seed=3)
        yield Case(f"column answers d={dim}", lambda X, row=row: row(X)[:, None], dim, row)
        yield Case(f"budget d={dim}", row, dim, row, arguments={"budget": dim * dim + dim + 20})


def ranks() -> Iterator[Case]:
    for dim, rank in ((16, 1), (16, 3), (32, 2), (48, 6), (64, 4)):
        for kind in ("random", "along v", "across v", "sparse v", "ill-conditioned"):
            target = low_rank(dim, rank, kind=kind, seed=rank)
            told = {"rank": rank} if kind in ("random", "across v") else {}
            yield Case(f"rank {rank} d={dim} {kind}", target, dim, target, arguments=told)
    for last in (1e-3, 1e-8):
        target = spectrum(24, last)
        yield Case(f"spectrum {last:g}", target, 24, target)
        yield Case(f"spectrum {last:g} accuracy", target, 24, target, arguments={"accuracy": 1e-2})


def noise() -> Iterator[Case]:
    for dim in (3, 8, 16):
        target = helpers.head(dim, key_bias=0.5, bias=0.5, seed=dim)
        for decimals in (2, 6):
            promise = {"tolerance": 0.5 * 10.0**-decimals, "max_norm": 1e3}
            yield Case(f"rounded {decimals} d={dim}", gh.defences.rounded(target, decimals), dim, target, promise)
        yield Case(f"noisy d={dim}", gh.defences.noisy(target, 1e-6), dim, target, {"tolerance": 1e-6})
        yield Case(f"rtol d={dim}", lambda X, t=target: t(X) * (1 + 1e-8 * np.sin(X.sum((1, 2)))), dim, target,
                   {"rtol": 1e-8})  # fmt: skip
        yield Case(f"unpromised d={dim}", gh.defences.noisy(target, 1e-5), dim, target)
        yield Case(f"gaussian d={dim}", gh.defences.gaussian(target, 1e-4), dim, target)
        yield Case(f"half d={dim}", gh.defences.half(target), dim, target)
        yield Case(f"bfloat16 d={dim}", gh.defences.bfloat16(target), dim, target)
        yield Case(f"clipped d={dim}", gh.defences.clipped(target, 50.0), dim, target, {"max_norm": 50.0})
    low = low_rank(24, 2, seed=5)
    yield Case("rounded low rank", gh.defences.rounded(low, 6), 24, low, {"tolerance": 5e-7})
    yield Case("accuracy of noise", gh.defences.noisy(low, 1e-4), 24, low, {"tolerance": 1e-4}, {"accuracy": 1e-3})


def signs() -> Iterator[Case]:
    for dim in (1, 2, 4, 8):
        target = helpers.head(dim, seed=dim)
        yield Case(f"signs d={dim}", target, dim, target, kind="sign")
        biased = helpers.head(dim, key_bias=0.3, bias=0.2, seed=dim)
        yield Case(f"signs biased d={dim}", biased, dim, biased, kind="sign", arguments={"accuracy": 1e-3})
    low = low_rank(12, 2, seed=1)
    yield Case("signs rank told", low, 12, low, arguments={"rank": 2, "accuracy": 1e-4}, kind="sign")
    yield Case("signs rank found", low, 12, low, arguments={"accuracy": 1e-4}, kind="sign")
    four = helpers.head(4, seed=9)
    yield Case("signs flipped", gh.defences.flipped(lambda X: four(X) > 0, 0.05), 4, four, kind="sign",
               arguments={"accuracy": 1e-2})  # fmt: skip
    block = Block(4, seed=2)
    yield Case("signs behind a network", block, 4, block, kind="sign",
               arguments={"family": "any-network", "accuracy": 1e-2})  # fmt: skip


def networks() -> Iterator[Case]:
    for dim, width, rank in ((4, 4, None), (8, 8, 3), (16, 16, None), (12, 20, 4)):
        target = gh.Transformer.random(dim, width, rank=rank, seed=dim)
        yield Case(f"transformer {dim},{width},{rank}", target, dim, target)
    for dim, width in ((6, 10), (10, 8)):
        rng = np.random.default_rng(dim)
        parts = {"b": rng.standard_normal(width), "c": 0.4, "key_bias": 0.3 * rng.standard_normal(dim)}
        old = gh.Transformer.random(dim, width, seed=3)
        biased = gh.Transformer(old.W, old.A, old.w, **parts)
        yield Case(f"transformer biased {dim},{width}", biased, dim, biased, arguments={"family": "transformer"})
    for seed in range(10):
        box = RandomBlock(seed)
        yield Case(f"random block {seed}", box, box.dim, box)
    for dim in (4, 8, 16):
        for residual in (True, False):
            box = Block(dim, residual=residual, seed=dim)
            yield Case(f"block d={dim} residual={residual}", box, dim, box)
        eight = Block(dim, outputs=8, seed=dim)
        yield Case(f"block d={dim} 8 outputs", eight, dim, eight)
        yield Case(f"block low rank d={dim}", Block(dim, rank=2, seed=1), dim, arguments={"rank": 2})
    for norm in ("layer", "rms"):
        box = Block(6, norm=norm, seed=4)
        yield Case(f"normalised {norm}", box, 6)
        yield Case(f"normalised {norm}, told", box, 6, arguments={"norm": gh.Norm(norm, 1e-5)})
    cut = Block(5, seed=6)
    yield Case("block rounded", gh.defences.rounded(cut, 9), 5, cut, {"tolerance": 5e-10})


def relu() -> Iterator[Case]:
    for d, m in ((4, 4), (8, 16), (16, 8), (12, 40)):
        for biases in (0.0, 1.0):
            yield Case(f"relu {d},{m} biases={biases:g}", gaussian(d, m, biases=biases), d, kind="relu")
    yield Case("relu float32", gaussian(6, 10, dtype=np.float32), 6, kind="relu")
    for name in ("parallel", "opposite", "cancelling", "all dead", "rank 2", "tiny 1e-10"):
        yield Case(f"relu {name}", degenerate(name, 0.0)[0], 8, kind="relu")
        yield Case(f"relu {name}, biases", degenerate(name, 1.0)[0], 8, kind="relu")


def several() -> Iterator[Case]:
    for dim, heads, rank in ((6, 2, 3), (8, 3, 2), (12, 2, 12), (16, 4, 4), (24, 3, 8), (32, 4, 8)):
        target = scalar_layer(dim, heads, rank, seed=heads)
        yield Case(f"heads {dim},{heads},{rank}", target, dim, target)
        named = {"family": "multi-head", "rank": rank}
        yield Case(f"heads {dim},{heads},{rank} named", target, dim, target, arguments=named)
        bare = scalar_layer(dim, heads, rank, seed=heads, biases=False)
        yield Case(f"heads {dim},{heads},{rank} bare", bare, dim, bare, arguments={"family": "multi-head"})
    for kind in HIDDEN:
        for size in ((8, 3, 2), (6, 4, 6)):
            target = hidden(kind, size, seed=1)
            yield Case(f"hidden {kind} {size}", target, size[0], target)
    target = only_where_unsaturated(5)
    yield Case("unsaturated only", target, 5, target)
    many = scalar_layer(4, 8, 4)
    yield Case("more heads than dimensions", many, 4, many, arguments={"family": "multi-head"})
    narrow = scalar_layer(16, 3, 4, dtype="float32")
    yield Case("heads float32", narrow, 16, narrow)
    target = scalar_layer(16, 3, 4, seed=2)
    yield Case("heads rounded", gh.defences.rounded(target, 9), 16, target, {"tolerance": 5e-10})
    yield Case("heads, short tokens", target, 16, target, {"max_norm": 300.0})
    mean = changed(target, 1, W=np.zeros((16, 16)), key_bias=np.zeros(16))
    yield Case("heads beside a mean", mean, 16, mean)
    yield Case("heads over budget", target, 16, target, arguments={"budget": 700})


def vectors() -> Iterator[Case]:
    for dim, outputs in ((4, 4), (8, 8), (16, 16), (32, 32), (16, 5), (6, 2), (8, 20)):
        target = vector.head(dim, outputs, key_bias=0.5, bias=0.5)
        yield Case(f"vector head {dim},{outputs}", target, dim, target)
        low = vector.head(dim, outputs, rank=2)
        yield Case(f"vector head {dim},{outputs} low rank", low, dim, low, arguments={"family": "attention"})
    for dim, heads in ((8, 2), (12, 3), (16, 4), (32, 4), (48, 6)):
        target = vector.layer(dim, heads)
        yield Case(f"layer {dim},{heads}", target, dim, target)
        yield Case(f"layer {dim},{heads} named", target, dim, target, arguments={"family": "multi-head"})
    unlike = (16, 4, {"width": 12}), (16, 2, {"outputs": 10}), (12, 6, {}), (16, 4, {"dtype": np.float32})
    for dim, heads, more in unlike:
        target = vector.layer(dim, heads, **more)
        yield Case(f"layer {dim},{heads} {sorted(more)}", target, dim, target)
    target = vector.layer(12, 3, seed=3)
    yield Case("layer rounded", gh.defences.rounded(target, 8), 12, target, {"tolerance": 5e-9})
    yield Case("layer told rank", target, 12, target, arguments={"rank": 4, "family": "multi-head"})
    rng = np.random.default_rng(5)
    pair = gh.MultiHead([gh.Attention(rng.standard_normal((6, 6)), rng.standard_normal((6, 2))) for _ in range(3)])
    yield Case("three heads, two outputs", pair, 6, pair)


def foreign() -> Iterator[Case]:
    for dim in (3, 8):
        for name in IMPOSTORS:
            yield Case(f"{name} d={dim}", getattr(Impostors(dim), name), dim)
        for name in ("mean_pooled_mlp", "two_heads", "positional_encoding"):
            box = getattr(Impostors(dim), name)
            yield Case(f"{name} d={dim}, attention", box, dim, arguments={"family": "attention"})
            yield Case(f"{name} d={dim}, multi-head", box, dim, arguments={"family": "multi-head"})
            yield Case(f"{name} d={dim}, any-network", box, dim, arguments={"family": "any-network"})
    pair = vector.layer(8, 2)
    yield Case("layer as one head", pair, 8, arguments={"family": "attention"})
    yield Case("vector tanh", lambda X: np.tanh(pair(X)), 8)
    yield Case("vector positions", lambda X: pair(X + np.arange(X.shape[1])[:, None]), 8)


def paper() -> Iterator[Case]:
    for dim in (4, 12):
        target = helpers.head(dim, W=0.3, seed=dim)
        yield Case(f"theorem 4.1 d={dim}", target, dim, target, kind="theorem_4_1")
        yield Case(f"theorem 4.1 gaussian d={dim}", target, dim, target, kind="theorem_4_1",
                   arguments={"probes": "gaussian"})  # fmt: skip
        yield Case(f"theorem 6.1 d={dim}", target, dim, target, kind="theorem_6_1",
                   arguments={"W_bound": 10.0, "margin": 1e-3})  # fmt: skip
    low = low_rank(12, 1, seed=2)
    yield Case("theorem 5.1", low, 12, low, kind="theorem_5_1", arguments={"rank": 1})
    bare = gh.Transformer.random(6, 6, seed=1)
    yield Case("section 4.1", bare, 6, bare, kind="section_4_1")
    two = scalar_layer(5, 2, 5, seed=1)
    yield Case("interpolation", two, 5, two, kind="rational_interpolation", arguments={"heads": 2})


GROUPS = (plain, ranks, noise, signs, networks, relu, several, vectors, foreign, paper)


def cases() -> Iterator[tuple[str, Case]]:
    for group in GROUPS:
        for case in group():
            yield group.__name__, case
