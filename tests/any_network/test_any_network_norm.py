"""LayerNorm or RMSNorm before the head, eps given or found."""

import numpy as np
import pytest

import glasshead as gh
from glasshead._learners.any_network.normalisation import find_eps, find_norm_kind

from .blocks import Block, RandomBlock, identifiable, learn


@pytest.mark.parametrize(
    ("eps", "given", "accuracy"), [(3.7e-6, True, 1e-9), (3.7e-6, False, 1e-8), (1e-3, False, 1e-8)]
)
@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("kind", ["layer", "rms"])
def test_the_identifiable_part_of_W(kind, residual, eps, given, accuracy):
    block = Block(16, norm=kind, residual=residual, eps=eps)
    found = learn(block, 16, norm=gh.Norm(kind, eps) if given else "auto")
    W, key_bias = identifiable(block)
    assert found.error(W) <= accuracy
    assert found.key_bias_error(key_bias) <= accuracy
    assert found.bounded(W)
    assert found.learned.model.norm.kind == kind
    assert found.learned.model.norm.eps == pytest.approx(eps, rel=1e-9)
    assert f"eps = {eps:g}" in found.learned.words


def test_low_rank_behind_a_norm():
    block = Block(24, norm="layer", rank=3, outputs=4)
    found = learn(block, 24)
    assert found.learned.rank == 3
    assert found.error(identifiable(block)[0]) <= 1e-9


@pytest.mark.parametrize("eps", [1e-12, 1e-6, 2.5e-4])
@pytest.mark.parametrize("kind", ["layer", "rms"])
def test_eps_is_found_to_many_digits(kind, eps):
    oracle, rng = gh.ValueOracle(Block(12, norm=kind, eps=eps), dim=12), np.random.default_rng(1)
    assert find_norm_kind(oracle, rng) == kind
    found, error = find_eps(oracle, kind, rng)
    assert found == pytest.approx(eps, rel=max(error, 1e-15))
    assert error <= 1e-9
    assert oracle.queries <= 500


def test_few_boxes_are_taken_for_normalising_and_none_for_long():
    boxes = [RandomBlock(seed) for seed in range(60)]
    kinds = [find_norm_kind(gh.ValueOracle(box, dim=box.dim), np.random.default_rng(1)) for box in boxes]
    assert sum(kind is not None for kind in kinds) <= 2


def test_W_says_nothing_about_means():
    found = learn(Block(8, norm="layer"), 8).learned.model
    assert np.abs(found.W @ np.ones(8)).max() <= 1e-12
    assert np.abs(np.ones(8) @ found.W).max() <= 1e-12


@pytest.mark.parametrize("kind", ["layer", "rms"])
def test_a_norm_and_the_way_back(kind):
    norm, rng = gh.Norm(kind, 1e-5), np.random.default_rng(0)
    Z = norm.centred(0.5 * rng.standard_normal((20, 7)))
    assert np.allclose(norm(norm.token(Z)), Z, rtol=0, atol=1e-14)


def test_norms_are_checked():
    with pytest.raises(ValueError, match="expected a kind from"):
        gh.Norm("batch", 1e-5)
    with pytest.raises(ValueError, match="eps > 0"):
        gh.Norm("layer", 0.0)


@pytest.mark.parametrize("kind", ["layer", "rms"])
@pytest.mark.parametrize("family", ["auto", "any-network"])
def test_through_the_one_entry(kind, family):
    """eps found, and given."""
    box = Block(8, norm=kind, seed=1)
    W, _ = identifiable(box)
    for norm in ("auto", gh.Norm(kind, box.eps)):
        found = gh.recover(gh.ValueOracle(box, dim=8), family=family, norm=norm)
        assert found.model.norm.kind == kind
        assert found.model.norm.eps == pytest.approx(box.eps, rel=1e-6)
        assert np.linalg.norm(found.model.W - W) <= 1e-8 * np.linalg.norm(W)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"norm": "layer"}, TypeError, r"expected norm to be 'auto', None or a gh.Norm, got 'layer'"),
        ({"norm": None, "family": "attention"}, ValueError, "expected norm only with family 'any-network'"),
    ],
)
def test_a_norm_that_makes_no_sense(options, error, message):
    with pytest.raises(error, match=message):
        gh.recover(gh.ValueOracle(Block(4), dim=4), **options)
