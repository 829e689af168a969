"""What `gh.plan` says beforehand is enough, for the families that are not a plain head."""

import numpy as np
import pytest

import glasshead as gh

from .any_network.blocks import Block
from .test_transformer import transformer


@pytest.mark.parametrize(("dim", "width", "rank"), [(2, 3, None), (6, 10, None), (12, 30, 2), (24, 8, 3)])
@pytest.mark.parametrize("biases", [False, True])
def test_of_a_transformer(dim, width, rank, biases):
    plan = gh.plan(dim, family="transformer", rank=rank, width=width, biases=biases)
    for seed in range(3):
        target = transformer(dim, width, rank, biases=biases, key_bias=biases, seed=seed)
        assert gh.recover(gh.ValueOracle(target), family="transformer", seed=seed).queries <= plan


@pytest.mark.parametrize(("dim", "rank"), [(4, None), (12, None), (16, 3)])
def test_of_any_network(dim, rank):
    plan = gh.plan(dim, family="any-network", rank=rank, biases=True)
    for seed in range(3):
        box = Block(dim, rank=rank, seed=seed)
        assert gh.recover(gh.ValueOracle(box, dim=dim), family="any-network", seed=seed).queries <= plan


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"family": "lstm"}, "expected family to be one of"),
        ({"family": "multi-head", "answers": "sign"}, "yes and no say too little"),
        ({"family": "any-network", "heads": 2}, "expected heads=1 for family 'any-network', got 2"),
        ({"family": "transformer"}, "expected width="),
        ({"family": "transformer", "width": 0}, "expected width to be an integer >= 1"),
        ({"family": "transformer", "width": 3, "answers": "sign"}, "family='any-network' reads W through the network"),
    ],
)
def test_refuses(arguments, message):
    with pytest.raises(ValueError, match=message):
        gh.plan(4, **arguments)


@pytest.mark.parametrize(("dim", "heads", "rank"), [(4, 2, 2), (8, 2, None), (12, 3, 3), (24, 8, 2)])
def test_of_several_heads(dim, heads, rank):
    plan = gh.plan(dim, family="multi-head", heads=heads, rank=rank)
    for seed in range(2):
        target = gh.MultiHead.random(dim, heads, rank=rank, seed=seed)
        assert gh.recover(target, family="multi-head", seed=seed).queries <= plan


def test_of_signs_through_a_network():
    assert gh.plan(8, family="any-network", answers="sign") > gh.plan(8, family="any-network")
    assert np.isfinite(gh.plan(8, family="any-network", answers="sign", biases=True))


def test_few_digits_make_networks_and_blocks_dearer():
    for family, times in (("attention", 1), ("block", 3), ("transformer", 12)):
        sizes = {"family": family, "width": 8 if family == "transformer" else None}
        assert gh.plan(8, dtype="float32", **sizes) == times * gh.plan(8, **sizes)
    assert gh.plan(8, family="auto", outputs=8, dtype="float32") > gh.plan(8, family="auto", outputs=8)
    with pytest.raises(ValueError, match=r"expected dtype to be one of .*got 'float16'"):
        gh.plan(8, dtype="float16")
