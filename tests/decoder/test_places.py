"""Position vectors that are added to tokens in front of a block, told nothing but d."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.linalg import norm

import glasshead as gh

from .boxes import Places, llama_frequencies
from .test_decoder import matched, relative

D = 12
KINDS = {
    "LLaMA without rotary": {},
    "GPT-2": {"norm": "layer", "network": "gelu", "eps": 1e-5},
    "logits": {"final": 30},
    "shared": {"sharing": 2},
    "rotary positions beside them": {"theta": llama_frequencies(2)},
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_vector_and_every_head_comes_out(kind, tmp_path):
    box = Places(D, **{"heads": 2, "seed": 1} | KINDS[kind])
    found = gh.recover(gh.ValueOracle(box, D))
    assert (found.family, found.heads) == ("block", 2)
    model, table = found.model.model, box.table[:64]
    assert isinstance(found.model, gh.Placed)
    apart, first = found.model.positions - found.model.positions[0], found.model.positions[0]
    assert np.abs(apart - (table - table[0])).max() < 1e-9
    assert np.abs(first - (table[0] - table[0].mean() * (box.norm == "layer"))).max() < 1e-9
    pairs, off = matched(model, box)
    assert off < 1e-7
    if not model.rotary:
        assert all(relative(model.heads[mine].W, box.W(true)) < 1e-7 for mine, true in pairs)
        assert all(norm(model.heads[mine].W - box.W(true)) <= found.bound for mine, true in pairs)
    X = np.random.default_rng(0).standard_normal((2, 64, D))
    for n in (1, 2, 9, 64):
        assert np.abs(found.model(X[:, :n]) - box(X[:, :n])).max() < 1e-7 * np.abs(box(X)).max()
    found.save(tmp_path)
    again = gh.load_recovery(tmp_path).model
    with pytest.raises(ValueError, match=r"placed.ask\(f\)"):
        again(X)
    again.behind = box
    assert again.behind is box
    np.testing.assert_allclose(again(X), found.model(X), rtol=1e-9)
    with pytest.raises(ValueError, match="at most 64 tokens"):
        again(np.zeros((65, D)))
