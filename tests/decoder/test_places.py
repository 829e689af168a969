"""Position vectors that are added to tokens in front of a block, told nothing but d."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.linalg import norm
from scipy.special import softmax

import glasshead as gh
from glasshead._oracles import Unplaced

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


class LateWindow(Places):
    """Only the last 70 tokens are seen: up to there it is a box of the family."""

    def weighed(self, scores):
        return softmax(np.where(np.arange(scores.shape[1])[::-1] < 70, scores, -np.inf), axis=1)


class ShortTable(Places):
    @property
    def table(self):
        return super().table[:60]


def test_more_places_than_the_judge_asks_about_are_checked_too():
    oracle = gh.ValueOracle(Places(D, heads=2, seed=1), D)
    found = gh.recover(oracle, places=100)
    assert found.queries == oracle.queries  # those that predictions ask count, too
    assert "up to 100 tokens agree" in found.reason
    X = np.random.default_rng(0).standard_normal((2, 100, D))
    assert np.abs(found.model(X) - Places(D, heads=2, seed=1)(X)).max() < 1e-7 * np.abs(X).max()
    with pytest.raises(gh.TargetMismatch, match="beyond 64 tokens") as refused:
        gh.recover(gh.ValueOracle(LateWindow(D, heads=2, seed=1), D), places=100)
    assert len(refused.value.evidence.query) > 70
    assert isinstance(refused.value.best.model, gh.Placed)


def test_a_finished_recovery_takes_no_query_more_and_is_kept_where_a_budget_ends():
    box = Places(D, heads=2, seed=1)
    queries = gh.recover(gh.ValueOracle(box, D)).queries
    assert gh.recover(gh.ValueOracle(box, D), budget=queries).queries == queries
    more = gh.recover(gh.ValueOracle(box, D), places=66).queries
    with pytest.raises(gh.BudgetExceeded) as spent:
        gh.recover(gh.ValueOracle(box, D), places=66, budget=more - 1)
    assert isinstance(spent.value.known["unchecked"].model, gh.Placed)


REASONS = {
    "accuracy": ({}, {"accuracy": 1e-3}, "leave accuracy= out"),
    "tolerance": ({"tolerance": 1e-9}, {}, "without tolerance= and rtol= only"),
    "max_norm": ({"max_norm": 100.0}, {}, "max_norm = 100"),
    "float32": ({"dtype": "float32"}, {}, "answers of 7 digits"),
}


@pytest.mark.parametrize("kind", REASONS)
def test_a_refusal_says_why_no_vectors_were_found(kind):
    promise, wanted, why = REASONS[kind]
    with pytest.raises(gh.TargetMismatch, match=f"positions.*no vectors in front were found: .*{why}"):
        gh.recover(gh.ValueOracle(Places(D, heads=2, seed=1), D, **promise), **wanted)


def test_a_box_with_a_shorter_table_says_so_itself():
    with pytest.raises(gh.OracleError, match="sequences of 61 tokens"):
        gh.recover(gh.ValueOracle(ShortTable(D, heads=2, seed=1), D))


def test_the_longest_token_is_told_from_all_of_a_vector():
    inner, table = gh.ValueOracle(gh.Attention.random(D), D, max_norm=50.0), np.zeros((3, D))
    box = Unplaced(inner, table, 1)
    box.set_positions(table + 1)
    assert box.max_norm == pytest.approx(50 - D**0.5)
    with pytest.raises(gh.NotConverged, match="longer than max_norm"):
        box.set_positions(table + 50)


def test_the_network_behind_them_comes_out_too():
    box = Places(D, heads=2, seed=1, norm="layer", network="gelu", eps=1e-5)
    found = gh.recover(gh.ValueOracle(box, D), network=True)
    X = np.random.default_rng(0).standard_normal((3, 9, D))
    np.testing.assert_allclose(found.model(X), box(X), atol=1e-6)
    with pytest.raises(ValueError, match="answers by itself"):
        found.model.ask(box)
