"""The network of a block and the journal of a run: what was begun without it goes on with it, and the other way."""

from __future__ import annotations

import numpy as np

import glasshead as gh

from .boxes import Decoder


class Asked:
    """How many sequences a block was asked."""

    def __init__(self):
        self.block, self.sequences = Decoder(16, 2, seed=1, network="relu"), 0

    def __call__(self, X):
        self.sequences += len(X)
        return self.block(X)


def test_heads_first_then_the_network(tmp_path):
    box, settings = Asked(), {"family": "block", "journal": tmp_path / "run.sqlite"}
    heads = gh.recover(gh.ValueOracle(box, 16), **settings)
    assert heads.model.network is None
    assert box.sequences == heads.queries
    whole = gh.recover(gh.ValueOracle(box, 16), network=True, **settings)
    assert box.sequences == whole.queries  # no answer was asked for twice
    X = np.random.default_rng(0).standard_normal((4, 9, 16))
    assert np.abs(whole.model(X) - box.block(X)).max() < 1e-8
    asked = box.sequences
    again = gh.recover(gh.ValueOracle(box, 16), network=True, **settings)
    assert np.array_equal(again.model.network.W1, whole.model.network.W1)
    alone = gh.recover(gh.ValueOracle(box, 16), **settings)
    assert alone.model.network is None
    assert np.array_equal(alone.model.heads[0].W, heads.model.heads[0].W)
    assert box.sequences == asked + 2  # each time one, to see whether it is the same box
