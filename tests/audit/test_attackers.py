"""The two attackers: who fits gets through where reading refuses, and both leave the box's promise and budget alone."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import glasshead as gh
from glasshead._audit.fit import learn_by_fit
from glasshead._audit.honest import Honest, read_answers, usual_sequences

HEAD = gh.Attention.random(6, rank=3, seed=5)


def honest() -> Honest:
    X = usual_sequences(HEAD.dim, np.inf, seed=0)
    return Honest(X, read_answers(HEAD, X))


@pytest.mark.parametrize("coarse", [gh.defences.bfloat16, gh.defences.half, lambda f: gh.defences.rounded(f, 1)])
def test_a_fit_copies_a_head_behind_coarse_answers(coarse):
    users = honest()
    box = coarse(gh.defences.clipped(HEAD, users.longest))
    (*fits,) = learn_by_fit(gh.ValueOracle(box), users.longest, 20_000, seed=0)
    assert [fit.queries for fit in fits] == [294, 1176, 4704, 18_816, 20_000]
    assert users.misfit(read_answers(fits[-1].model, users.X)) < 0.01


def test_a_fit_copies_a_head_from_signs_that_are_sometimes_wrong():
    users = honest()
    box = gh.SignOracle(gh.defences.flipped(gh.defences.clipped(HEAD, users.longest), 0.05), HEAD.dim)
    (*_, last) = learn_by_fit(box, users.longest, 20_000, seed=0)
    assert users.misfit(read_answers(last.model, users.X), up_to_factor=True) < 0.1


def test_a_fit_asks_no_more_than_the_budget_and_no_longer_tokens():
    longest = []

    def box(X: np.ndarray) -> np.ndarray:
        longest.append(float(np.linalg.norm(X, axis=-1).max()))
        return HEAD(X)

    oracle = gh.ValueOracle(box, HEAD.dim)
    (*fits,) = learn_by_fit(oracle, 2.5, 300, seed=0)
    assert oracle.queries == fits[-1].queries == 300
    assert max(longest) <= 2.5 * (1 + 1e-12)
    assert not list(learn_by_fit(gh.ValueOracle(HEAD), 2.5, 60, seed=0))


def test_without_the_fit_the_audit_would_recommend_a_defence_that_does_not_hold():
    users = honest()
    box = gh.defences.rounded(gh.defences.clipped(HEAD, users.longest), 1)
    promised = gh.ValueOracle(box, tolerance=box.tolerance, rtol=box.rtol, max_norm=box.max_norm)
    with pytest.raises(gh.AccuracyUnreachable):
        gh.recover(promised)

    own = {"coarse": lambda f: gh.defences.rounded(gh.defences.clipped(f, users.longest), 1)}
    found = gh.audit(HEAD, defences=own, threshold=0.005, budget=30_000).findings[1]
    assert found.attack == "fitting"
    assert not found.returned
    assert found.function_error < 0.005


def test_what_was_promised_of_an_oracle_is_kept():
    seen = []

    def box(X: np.ndarray) -> np.ndarray:
        seen.append(float(np.linalg.norm(X, axis=-1).max()))
        return HEAD(X)

    oracle = gh.ValueOracle(box, HEAD.dim, max_norm=4.0, tolerance=1e-12)
    found = gh.audit(oracle, defences={"two decimals": lambda f: gh.defences.rounded(f, 2)}, budget=3000)
    assert max(seen) <= 4.0
    assert found.findings[0].returned
    assert found.findings[0].error_W is None
    assert found.findings[0].function_error < 1e-6
    assert found.queries == oracle.queries
    assert found.verdict("as it is").startswith("recovered to ")


def test_queries_of_a_defence_that_changes_tokens_count():
    oracle = gh.ValueOracle(HEAD)
    found = gh.audit(oracle, defences={"short": lambda f: gh.defences.clipped(f, 1.0)}, budget=3000)
    assert found.queries == oracle.queries


def test_a_box_of_signs():
    found = gh.audit(gh.SignOracle(gh.Attention.random(3, seed=2)), budget=30_000)
    by_name = {finding.name: found.row(finding) for finding in found.findings}
    assert by_name["as it is"]["outcome"] == "direction"
    assert not any("decimal" in name for name in by_name)
    assert len(by_name) == 8


def test_a_box_that_fails_says_so():
    def box(X: np.ndarray) -> np.ndarray:
        raise RuntimeError("out of order")

    with pytest.raises(gh.OracleError, match="out of order"):
        gh.audit(gh.ValueOracle(box, 4))


def test_a_box_that_fails_on_the_way_is_not_taken_for_a_defence_that_holds(tmp_path):
    answered = 0

    def box(X: np.ndarray) -> np.ndarray:
        nonlocal answered
        answered += len(X)
        if answered > 130:
            raise ConnectionError("gone away")
        return HEAD(X)

    own = {"three decimals": lambda f: gh.defences.rounded(f, 3)}
    with pytest.raises(gh.OracleError, match="gone away"):
        gh.audit(gh.ValueOracle(box, HEAD.dim), defences=own, budget=2000, folder=tmp_path)
    assert not list((tmp_path / "settings").glob("*.json"))
    answered = -(10**9)
    found = gh.audit(gh.ValueOracle(box, HEAD.dim), defences=own, budget=2000, folder=tmp_path)
    assert [finding.returned for finding in found.findings] == [True, True]


@pytest.mark.parametrize("dim", [1, 2])
def test_small_dimensions(dim):
    found = gh.audit(gh.Attention.random(dim, seed=4), budget=1000)
    assert found.row(found.findings[0])["outcome"] == "recovered"
    assert len({finding.name for finding in found.findings}) == len(found.findings)


def test_a_box_that_always_answers_the_same_is_copied_by_anybody():
    found = gh.audit(gh.Attention(np.ones((3, 3)), np.zeros(3)), budget=500).findings[0]
    assert not found.returned
    assert found.attack == "fitting"
    assert found.function_error == 0


def test_a_box_of_another_kind_is_not_called_copied():
    def box(X: np.ndarray) -> np.ndarray:
        return np.sin(3 * X[:, -1, 0]) * np.abs(X).max(axis=(1, 2))

    found = gh.audit(gh.ValueOracle(box, 4), defences={}, budget=4000)
    assert found.row(found.findings[0])["outcome"] in ("refused", "budget")
    assert "As it is, the box was not copied" in found.recommendation


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        ({"threshold": 0}, ValueError, "threshold"),
        ({"budget": 0}, ValueError, "budget"),
        ({"honest": np.zeros((3, 2, 5))}, ValueError, "honest"),
        ({"honest": [np.ones((2, 6))]}, ValueError, "two sequences"),
    ],
)
def test_bad_arguments(arguments, error, match):
    with pytest.raises(error, match=match):
        gh.audit(HEAD, **arguments)


def test_sequences_of_the_owner_decide_what_is_honest():
    rng = np.random.default_rng(0)
    own = [0.1 * rng.standard_normal((n, HEAD.dim)) for n in (2, 5, 2, 9)]
    found = gh.audit(HEAD, defences={}, honest=own, budget=2000)
    assert found.queries == 4 + found.findings[0].asked


def test_a_fit_knows_key_biases():
    rng = np.random.default_rng(3)
    head = gh.Attention(rng.standard_normal((5, 5)), rng.standard_normal(5), key_bias=rng.standard_normal(5), bias=0.3)
    own = {"coarse": lambda f: gh.defences.bfloat16(gh.defences.clipped(f, 4.0))}
    found = gh.audit(head, defences=own, threshold=0.02, budget=20_000)
    assert not found.row(found.findings[1])["kept"]


def test_labels_of_a_defence_of_ones_own_are_attacked_as_signs():
    own = {
        "labels": lambda f: lambda X: (f(X) > 0).astype(float),
        "never wrong": partial(gh.defences.flipped, probability=0.0),
    }
    found = gh.audit(gh.Attention.random(3, seed=1), defences=own, budget=20_000)
    assert [found.row(finding)["outcome"] for finding in found.findings] == ["recovered", "direction", "direction"]


def test_of_a_box_of_signs_the_share_that_agrees_is_said():
    found = gh.audit(gh.SignOracle(gh.Attention.random(3, seed=2)), defences={}, budget=30_000)
    assert found.verdict("as it is").endswith("100.0% of honest signs agree")


def test_where_a_fit_does_not_suit_the_box_no_defence_of_answers_is_recommended():
    found = gh.audit(gh.MultiHead.random(4, heads=2, rank=1, seed=1), budget=1500)
    assert found.row(found.findings[0])["outcome"] == "recovered"
    assert not any(finding.answers == "sign" for finding in found.findings)
    assert all(finding.limit is not None for finding in found.ranking)
    assert "is not one head" in found.recommendation
    kept = [found.verdict(finding.name) for finding in found.findings if found.row(finding)["kept"]]
    assert any("fitting was not tried" in words for words in kept)


def test_limits_on_queries_are_ranked_the_largest_first_and_only_below_what_all_parameters_take():
    found = gh.audit(HEAD, budget=300)
    limits = [finding.limit for finding in found.ranking if finding.limit is not None]
    assert limits == sorted(limits, reverse=True)
    assert limits
    assert max(limits) < found.parameters
    assert all(finding.limit is None or finding.limit <= 300 for finding in found.findings)


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        ({"defences": [gh.defences.half]}, TypeError, "defences="),
        ({"defences": {"a": 3}}, TypeError, "defences="),
        ({"defences": {"as it is": gh.defences.half}}, ValueError, "as it is"),
        ({"price_per_query": -1.0}, ValueError, "price_per_query"),
        ({"seed": -1}, ValueError, "seed"),
        ({"honest": np.array("text")}, ValueError, "honest="),
        ({"honest": np.full((3, 2, 6), np.nan)}, ValueError, "NaN"),
        ({"honest": np.ones((3, 2, 6), complex)}, ValueError, "complex"),
    ],
)
def test_bad_arguments_of_other_kinds(arguments, error, match):
    with pytest.raises(error, match=match):
        gh.audit(HEAD, **arguments)
