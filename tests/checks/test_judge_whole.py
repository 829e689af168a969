"""The judge as a whole: which of its rules is asked of what, and what it makes of their answers."""

from dataclasses import replace

import numpy as np
import pytest

import glasshead as gh
from glasshead._checks import judge
from glasshead._errors import ALSO_ELSEWHERE, COPIED_KEY, EVERYWHERE
from glasshead._learned import HeldOut, LearnedFront, LearnedHead
from glasshead._learned.learned import Attending
from tests.meters.promises import Promising

D, U = 3, 2.0**-53
RNG = np.random.default_rng(1)
HEAD = gh.Attention(RNG.standard_normal((D, D)), RNG.standard_normal(D))
OFF = RNG.standard_normal((D, D))
HELD = HeldOut(1e-12, None, "words", compared=16)
BOUNDS = dict.fromkeys(("bound", "bound_v", "bound_key_bias", "bound_bias"), 1e-9)


def network(X):
    return np.tanh(X.mean(axis=1)) @ np.ones(D)


def found(kind="one", bound=1e-9):
    """One head with bounds, one behind a network, or one that nothing bounds."""
    if kind == "one":
        return LearnedHead(model=HEAD, rank=D, confidence=1.0, **BOUNDS | {"bound": bound})
    if kind == "front":
        model = gh.FrontHead(HEAD.W, behind=network)
        known = {"bound_key_bias": 1e-9, "noise": 0.0, "scale": 1.0, "score_error": 1e-9}
        return LearnedFront(model=model, rank=D, bound=bound, confidence=0.99, **known)
    return Attending(model=HEAD, rank=D, bound=None, bound_v=None, confidence=None)


def box(kind="one", off=0.0):
    """What would be found, but for a W that is off."""
    W = HEAD.W + off * OFF
    return gh.FrontHead(W, behind=network) if kind == "front" else gh.Attention(W, HEAD.v)


def judged(learned, f, seed=0, oracle=None, **promise):
    oracle = oracle or Promising(D, f, **{"roundoff": U} | promise)
    return judge.check_everywhere(oracle, learned, HELD, np.random.default_rng(seed))


@pytest.mark.parametrize("kind", ["one", "front", "none"])
def test_what_was_found_is_what_the_box_does(kind):
    learned, check = judged(found(kind), box(kind))
    assert check.evidence is None
    assert check.compared > HELD.compared
    assert check.checked.sequences >= 40
    assert learned.confidence == found(kind).confidence
    assert (learned.bound or 0.0) < 1e-6


@pytest.mark.parametrize(("kind", "queries"), [("one", 46 + 8), ("front", 42), ("none", 46)])
def test_what_the_judge_asks_is_what_it_says(kind, queries):
    """For a head in front of a network this counts what is asked of the box, and not what predictions ask again."""
    oracle = Promising(D, box(kind), roundoff=U)
    judged(found(kind), None, oracle=oracle)
    assert oracle.queries == queries


class Asked(Exception):
    """That a rule was."""


@pytest.mark.parametrize(("rule", "asked"), [
    ("check_law_of_odds", {"one", "promised", "front", "none"}),
    ("check_promise", {"promised"}),
    ("with_true_bounds", {"one"}),
    ("with_bounds_behind", {"front"}),
    ("strayed", {"one", "promised"}),
    ("with_bounds_of_residual", {"front", "none"}),
    *((f"refuse_{rule}", {"one", "promised", "front", "none"}) for rule in ("undecided", "void", "unseen", "far")),
])  # fmt: skip
@pytest.mark.parametrize("kind", ["one", "promised", "front", "none"])
def test_which_rules_are_asked_of_what(monkeypatch, rule, asked, kind):
    def say(*given):
        raise Asked

    monkeypatch.setattr(judge, rule, say)
    name, promise = ("one", {"tolerance": 1e-9}) if kind == "promised" else (kind, {})
    if kind not in asked:
        assert judged(found(name), box(name), **promise)[1].evidence is None
        return
    with pytest.raises(Asked):
        judged(found(name), box(name), **promise)


def test_evidence_of_any_law_is_evidence():
    second = gh.Attention(OFF, 1e-6 * HEAD.v[::-1])
    _, check = judged(found(bound=1e-4), lambda X: HEAD(X) + second(X))
    assert check.evidence.law == COPIED_KEY
    _, check = judged(found(), box(off=1e-4), tolerance=1e-9, max_norm=10.0)
    assert check.evidence is not None
    assert check.checked is None


@pytest.mark.parametrize(("promise", "law"), [
    ({}, ALSO_ELSEWHERE),  # the held-out check had found nothing
    ({"tolerance": 1e-9}, EVERYWHERE),
    ({"roundoff": 2.0**-8}, EVERYWHERE),
    ({"roundoff": 2.0**-8, "tolerance": 1e-9}, EVERYWHERE),
])  # fmt: skip
def test_a_box_that_is_another_one_elsewhere(promise, law):
    learned, check = judged(found("none"), box(off=0.5), **promise)
    assert check.evidence.law == law
    assert check.checked is None
    assert learned.bound is None


def test_bounds_of_one_head_are_as_wide_as_answers_show():
    learned, check = judged(found(), box(off=1e-5))
    assert check.evidence is None
    assert np.linalg.norm(1e-5 * OFF) < learned.bound < 1e-3
    assert learned.confidence < 1


@pytest.mark.parametrize(("bound", "off", "least"), [
    (1e-9, 1e-6, 1e-6),  # what answers show
    (1e-2, 1e-9, 1e-2),  # what was found, where that is more
])  # fmt: skip
def test_bounds_behind_a_network_are_the_widest(bound, off, least):
    learned, check = judged(found("front", bound), box("front", off))
    assert check.evidence is None
    assert least <= learned.bound < 1e-1


@pytest.mark.parametrize(("kind", "rule", "least"), [
    ("one", "with_true_bounds", 1.0),
    ("front", "with_bounds_behind", 0.1),
    ("front", "with_bounds_of_residual", 0.1),
])  # fmt: skip
@pytest.mark.parametrize("ok", [True, False])
def test_a_bound_that_answers_make_as_large_as_W_says_nothing(monkeypatch, kind, rule, least, ok):
    """As a tenth of it, behind a network."""
    learned = found(kind)
    wide = replace(learned, bound=(0.99 if ok else 1.01) * least * HEAD.W_norm)
    monkeypatch.setattr(judge, rule, lambda *given: wide)
    monkeypatch.setattr(judge, "refuse_undecided", lambda *given: None)
    if ok:
        assert judged(learned, box(kind))[0].bound == wide.bound
        return
    with pytest.raises(gh.AccuracyUnreachable, match="which says nothing"):
        judged(learned, box(kind))


@pytest.mark.parametrize(("kind", "share", "ok"), [
    ("one", 0.99, True), ("one", 1.01, False), ("front", 0.099, True), ("front", 0.101, False),
])  # fmt: skip
def test_what_knows_nothing_is_asked_nothing(kind, share, ok):
    oracle = Promising(D, box(kind), roundoff=U)
    learned = found(kind, share * HEAD.W_norm)
    if ok:
        judge.refuse_unbounded(oracle, learned, HELD)
        return
    with pytest.raises(gh.AccuracyUnreachable, match="which says nothing"):
        judged(learned, None, oracle=oracle)
    assert oracle.queries == 0


class Mean(Promising):
    """Averages, and single answers that are off by so much."""

    def __init__(self, off):
        super().__init__(D, HEAD, roundoff=U, tolerance=1e-9)
        self.single = Promising(D, lambda X: HEAD(X) + off, roundoff=U, tolerance=1e-9)

    @property
    def once(self):
        return self.single


def test_users_get_single_answers():
    rest = judged(found("none"), None, oracle=Mean(0.0))[1]
    assert rest.evidence is None
    off = judged(found("none"), None, oracle=Mean(5e-4))[1]
    assert off.evidence is None
    assert off.residual > 1e3 * rest.residual
    assert judged(found("none"), None, oracle=Mean(1.0))[1].evidence is not None


def test_no_rule_overrules_another(monkeypatch):
    """A promise is held against one head alone; what strays is looked for where nothing else was found."""
    monkeypatch.setattr(judge, "check_promise", lambda *given: judged(found("none"), box(off=0.5))[1].evidence)
    assert judged(found("front"), box("front"), tolerance=1e-9, max_norm=10.0)[1].evidence is None
    assert judged(found(), box(), tolerance=1e-9)[1].evidence is not None
    monkeypatch.setattr(judge, "check_law_of_odds", lambda *given: None)
    monkeypatch.setattr(judge, "with_true_bounds", lambda learned, groups: learned)
    monkeypatch.setattr(judge, "strayed", lambda *given: None)
    assert judged(found(), box(off=0.5))[1].evidence.law == ALSO_ELSEWHERE
