"""The held-out checks of several heads, of outputs and of yes and no: what each allows, and where it looks."""

from dataclasses import replace

import numpy as np
import pytest

import glasshead as gh
from glasshead._checks import heads as several
from glasshead._checks import signs
from glasshead._checks.held_out import Fresh
from glasshead._learned import LearnedFromSigns, head_length
from glasshead._learned.kinds import LearnedCombined, LearnedMultiHead, Promise
from tests.meters.promises import Promising

D = 4


def layer(scales=(1.0, 1.0), bias=0.0, key_bias=0.0, seed=0, outputs=()):
    rng = np.random.default_rng(seed)
    return gh.MultiHead(
        [
            gh.Attention(
                scale * rng.standard_normal((D, D)), rng.standard_normal((D, *outputs)), key_bias=np.full(D, key_bias)
            )
            for scale in scales
        ],
        bias=bias,
    )


def learned(model=None, **given):
    model = model or layer()
    return LearnedMultiHead(model=model, rank=(D,) * len(model.heads), found="heads", **given)


# How far off.


def test_what_heads_without_preference_would_answer():
    model = layer(bias=2.0)
    X = np.random.default_rng(0).standard_normal((5, 3, D))
    flat = gh.MultiHead([gh.Attention(np.zeros((D, D)), head.v) for head in model.heads], bias=2.0)
    np.testing.assert_allclose(several.mean_answers(learned(model), X), flat(X))
    for head in model.heads:
        np.testing.assert_allclose(several.preferred(head, X), head(X) - X.mean(axis=1) @ head.v)


def test_rounding_and_promise_of_answers():
    oracle = Promising(D, tolerance=0.1, rtol=0.01, roundoff=1e-6)
    found = several.answer_errors(oracle, learned(layer(bias=-3.0)), np.array([2.0]))
    assert found[0] == pytest.approx(100 * 1e-6 * 5.0 + 400 * (0.1 + 0.01 * 2.0))


def test_the_largest_answer_of_each_turn():
    np.testing.assert_allclose(several.largest_in_turn(np.array([1.0, -9, 3, 4, -5]), 2), [5, 9, 5, 9, 5])


def test_what_share_is_refused():
    exact, single = Promising(D, roundoff=2.0**-53), Promising(D, roundoff=2.0**-24)
    assert several.refused(exact, learned()) == 1e-6
    assert several.refused(single, learned()) == pytest.approx(1700 * 2.0**-24)
    W = np.median([head.W_norm for head in layer().heads])
    assert several.refused(exact, learned(accuracy=0.5)) == pytest.approx(4 * 0.5 / W)
    assert several.refused(exact, learned(layer((0.0, 0.0)), accuracy=0.5)) == 1e-6


@pytest.mark.parametrize(
    ("residual", "roundoff", "unusual", "warned"),
    [
        (1e-11, 2.0**-53, False, False),
        (2e-10, 2.0**-53, True, False),
        (4e-9, 2.0**-53, True, True),
        (2e-5, 2.0**-24, False, False),
        (4e-5, 2.0**-24, True, True),
    ],
)
def test_when_heads_agree_less_than_usual(residual, roundoff, unusual, warned):
    oracle = Promising(D, roundoff=roundoff)
    assert bool(several.less_than_usual(residual, oracle)) == unusual
    assert bool(several.warning(residual, oracle)) == warned
    assert not several.warning(1.0, Promising(D, tolerance=1e-9))


def fresh_of(model, off=0.0, at=3):
    rng = np.random.default_rng(0)
    batches = [rng.standard_normal((2, n, D)) for n in (2, 3, 4, 5)]
    got = np.concatenate([model(X) for X in batches])
    got[at] += off
    return Fresh(batches, got, got[-1:].copy())


@pytest.mark.parametrize("bias", [0.0, 1e3])
@pytest.mark.parametrize(("times", "ok"), [(0.9, True), (1.2, False)])
def test_answers_may_be_off_by_a_millionth_of_what_heads_choose(bias, times, ok):
    """However large the bias beside it, but for its rounding."""
    model = layer(bias=bias)
    plain = fresh_of(model)
    chosen = np.abs(plain.got - plain.each(lambda X: several.mean_answers(learned(model), X))).max()
    oracle = Promising(D, roundoff=2.0**-53)
    rounding = 100 * 2.0**-53 * (np.abs(plain.got).max() + bias)
    check = several.judged_heads(fresh_of(model, times * (1e-6 * chosen + rounding)), learned(model), oracle, 1)
    assert (check.evidence is None) == ok


def test_a_check_that_agrees_less_than_usual_says_so():
    model = layer()
    size = np.abs(fresh_of(model).got).max()
    check = several.judged_heads(fresh_of(model, 1e-7 * size), learned(model), Promising(D, roundoff=2.0**-53), 1)
    assert "less than usual" in check.words
    assert check.warning


# Where it looks.


def test_tokens_suit_every_head():
    model = layer((1.0, 1.1, 1e6))
    sizes = several.typical_tokens(learned(model), 1e9)
    assert len(sizes) == 2
    lengths = sorted(head_length(head) for head in model.heads)
    assert sizes[0] == pytest.approx(lengths[0])
    assert sizes[1] == pytest.approx(np.mean(lengths[1:]))
    assert len(several.typical_tokens(learned(layer((1.0, 30.0))), 1e9)) == 1  # lengths differ by less than 8
    np.testing.assert_allclose(several.typical_tokens(learned(layer((0.0, 0.0))), 50.0), [1.0, 50.0])
    np.testing.assert_allclose(several.typical_tokens(learned(layer((0.0, 0.0))), 0.5), [0.5, 0.5])
    assert several.typical_tokens(learned(model), 1e-3).max() == 1e-3


def test_heads_with_a_key_bias_alone_prefer_tokens_too():
    assert len(several.choosy(learned(layer((0.0, 1.0))))) == 1
    assert len(several.choosy(learned(layer((0.0, 1.0), key_bias=1.0)))) == 2


def test_all_lengths_are_asked():
    model = layer()
    oracle = Promising(D, model, max_norm=1e4, roundoff=2.0**-53)
    found = learned(model)
    check = several.check_held_out_heads(oracle, found, np.random.default_rng(0))
    before = oracle.queries
    everywhere = several.check_all_lengths(oracle, found, check, np.random.default_rng(0))
    assert everywhere.evidence is None
    assert everywhere.compared == check.compared + 8
    assert oracle.queries == before + 8
    lengths = np.linalg.norm(oracle.asked[-1], axis=2).max(axis=1)
    usual = several.typical_tokens(found, oracle.reach)[0]
    assert lengths[0] <= 1e-6 * usual
    assert 0.1 * 2500 < lengths[-1] <= 2500.0
    assert (lengths[1:] > 2 * lengths[:-1]).all()


@pytest.mark.parametrize("at", [1e-4, 1e2])
def test_a_head_that_shows_at_other_lengths_is_noticed(at):
    model = layer()
    other = gh.Attention(np.eye(D) / at**2, 1e-3 * np.ones(D))

    def box(X):
        size = np.linalg.norm(X, axis=2).max(axis=1)
        return model(X) + np.where((size > at / 8) & (size < at * 8), other(X) - X.mean(axis=1) @ other.v, 0.0)

    found = learned(model)
    oracle = Promising(D, box, max_norm=1e4, roundoff=2.0**-53)
    check = several.check_heads_everywhere(oracle, found, np.random.default_rng(0))
    assert check.evidence is not None


def test_what_a_budget_leaves_unchecked_is_known():
    def box(X):
        raise gh.BudgetExceeded("enough", budget=1, needed=1)

    found = learned()
    with pytest.raises(gh.BudgetExceeded) as caught:
        several.check_heads_everywhere(Promising(D, box), found, np.random.default_rng(0))
    assert caught.value.known["unchecked"] is found


@pytest.mark.parametrize("share", [1e-6, 1e-3])
def test_answers_move_by_no_more_than_what_is_unknown_of_scores(share):
    """W and the key bias off by a share, in any direction, for tokens of many lengths."""
    rng, worst = np.random.default_rng(0), 0.0
    head = gh.Attention(rng.standard_normal((D, D)), rng.standard_normal(D), key_bias=rng.standard_normal(D))
    for length in (0.1, 1.0, 3.0, 30.0):
        X = length * rng.standard_normal((40, 3, D))
        bound = several.unsure(head, X, share)
        for _ in range(20):
            off = rng.standard_normal((D, D + 1))
            off *= share / np.linalg.norm(off)
            other = gh.Attention(
                head.W + head.W_norm * off[:, :D],
                head.v,
                key_bias=head.key_bias + np.linalg.norm(head.key_bias) * off[:, D],
            )
            moved = np.abs(other(X) - head(X))
            assert (moved <= bound + 1e-12).all()
            worst = max(worst, np.max(moved / np.maximum(bound, 1e-300)))
    assert worst > 0.02


def test_a_bound_on_what_scores_move_is_half_the_range_of_values_at_most():
    """Scores that may be anything: half of all weight, from the largest value to the smallest or back, and twice."""
    head, X = gh.Attention(np.eye(D), np.ones(D)), np.random.default_rng(0).standard_normal((5, 3, D))
    half = np.ptp(X @ head.v, axis=1) / 2
    np.testing.assert_allclose(several.unsure(head, X, 1e9), half * np.expm1(1.0))
    small = several.unsure(head, X, 1e-9)
    norms = np.linalg.norm(X, axis=2)
    off = 1e-9 * norms.max(axis=1) * (2.0 * norms[:, -1] + np.sqrt(2.0))
    np.testing.assert_allclose(small, half * 2 * off, rtol=1e-6)


def test_slack_at_other_lengths_has_what_the_usual_ones_leave_open():
    oracle, found = Promising(D, roundoff=2.0**-53), learned()
    X = np.random.default_rng(0).standard_normal((4, 3, D))
    answers = found.model(X)
    tight, loose = (several.slack(oracle, found, X, answers, residual) for residual in (0.0, 1e-3))
    chosen = np.abs(answers - several.mean_answers(found, X)) + sum(
        np.abs(several.preferred(h, X)) for h in found.model.heads
    )
    assert (loose >= 1e-2 * chosen).all()
    assert (tight < 1e-4 * (1 + chosen)).all()


def test_what_the_usual_tokens_leave_open():
    """Beside a large bias, more."""
    oracle = Promising(D, roundoff=2.0**-53)
    plain, biased = learned(layer()), learned(layer(bias=1e3))
    assert several.unknown(oracle, plain, 1e-9) == pytest.approx(1e-8 + 100 * 2.0**-53)
    length = several.typical_tokens(biased, oracle.reach).min()
    values = sum(np.linalg.norm(head.v) for head in biased.model.heads) * length
    assert several.unknown(oracle, biased, 1e-9) == pytest.approx((1e-8 + 100 * 2.0**-53) * (1 + 1e3 / values))
    assert several.unknown(oracle, learned(layer((0.0, 0.0))), 1e-9) == 0.0


# Output by output.


def combined(model=None, garbage=(False, False), tolerance=(0.0, 0.0), **given):
    model = model or layer(outputs=(2,), bias=np.array([0.5, -1.0]))
    promise = Promise(np.array(tolerance), 0.0)
    return LearnedCombined(
        model=model, rank=(D, D), found="heads", value_rank=(2, 2), promise=promise, garbage=garbage, **given
    )


@pytest.mark.parametrize("output", [0, 1])
@pytest.mark.parametrize(("off", "ok"), [(1e-8, True), (1e-4, False)])
def test_each_output_is_judged_by_its_own_size(output, off, ok):
    values = np.array([1.0, 1e-3])
    model = layer(outputs=(2,), bias=np.zeros(2))
    model = gh.MultiHead([gh.Attention(head.W, head.v * values) for head in model.heads])
    found = combined(model)

    def box(X):
        y = np.array(model(X))
        y[:, output] += off * values[output] * (X.shape[1] == 4)
        return y

    def check():
        return several.check_held_out_outputs(Promising(D, box, roundoff=2.0**-53), found, np.random.default_rng(0))

    if ok:
        assert check().evidence is None
    else:
        assert f"as output {output} less its bias" in check().evidence.law


def test_the_worst_output_counts_and_garbage_does_not():
    model = layer(outputs=(2,), bias=np.zeros(2))

    def box(X):
        return model(X) + np.array([1e-9, 1e-8]) * (X.shape[1] == 4)

    def residual(garbage):
        oracle = Promising(D, box, roundoff=2.0**-53)
        return several.check_held_out_outputs(oracle, combined(model, garbage), np.random.default_rng(0)).residual

    assert residual((False, False)) > 5 * residual((False, True))


@pytest.mark.parametrize(("off", "ok"), [(0.9e-3, True), (1.1e-3, False)])
def test_a_head_that_answers_hardly_show_is_refused(off, ok):
    model = layer(outputs=(2,), bias=np.zeros(2))
    found = combined(model)
    batches = [np.random.default_rng(0).standard_normal((3, 4, D))]
    shown = min(np.abs(head(batches[0]) - batches[0].mean(axis=1) @ head.v).max(axis=0)[0] for head in model.heads)
    got = np.array(model(batches[0]))
    got[1, 0] += off * shown
    got[:, 1] += 1e9
    fresh = Fresh(batches, got, got[-1:])
    if ok:
        several.refuse_blurred_heads(found, fresh)
        return
    with pytest.raises(gh.AccuracyUnreachable, match=r"off by 0.001 of all that a head"):
        several.refuse_blurred_heads(found, fresh)


def test_what_a_head_shows():
    X = np.random.default_rng(0).standard_normal((3, 4, D))
    head = gh.Attention(np.eye(D), np.ones(D))
    np.testing.assert_allclose(several.head_part(head, X), head(X) - X.mean(axis=1).sum(axis=1))
    mean = gh.Attention(np.zeros((D, D)), np.ones(D))
    np.testing.assert_allclose(several.head_part(mean, X), X.mean(axis=1).sum(axis=1))
    one = several.only(layer(outputs=(2,), bias=np.ones(2)), 1)
    np.testing.assert_allclose(one(X), layer(outputs=(2,))(X)[:, 1])


# Yes and no.


def from_signs(bound=1e-9, rank=D, W=None, bias=0.0, **given):
    v = np.eye(D)[0]
    model = gh.Attention(np.eye(D) if W is None else W, v, bias=bias)
    bounds = {"bound": bound, "bound_v": bound, "bound_key_bias": bound, "bound_bias": bound} | given
    return LearnedFromSigns(model=model, rank=rank, confidence=1.0, **bounds)


def test_half_of_the_sequences_lie_next_to_a_change():
    found = from_signs()
    oracle = Promising(D, lambda X: found.model(X) > 0, answers="sign", roundoff=2.0**-53)
    check = signs.check_held_out_signs(oracle, found, np.random.default_rng(0))
    assert check.evidence is None
    assert oracle.queries == signs.SIGN_QUERIES == check.compared == 20
    values = np.concatenate([found.model(X) for X in oracle.asked])
    allowed = np.concatenate([found.allowed(X, oracle) for X in oracle.asked])
    near = np.abs(values) < 100 * allowed
    assert near.sum() >= 8  # with 64 tokens no two of those drawn may be answered differently
    assert (np.abs(values) > allowed).all()


@pytest.mark.parametrize("length", [2, 64])
def test_two_sequences_on_either_side_of_a_change(length):
    found = from_signs()
    oracle = Promising(D, answers="sign", roundoff=2.0**-53)
    ends = signs.edge(oracle, found, length, np.random.default_rng(0))
    values, allowed = found.model(ends), found.allowed(ends, oracle)
    assert values[0] > 0 > values[1]
    assert (np.abs(values) >= 0.99 * allowed).all()
    assert (np.abs(values) < 10 * allowed).all()


@pytest.mark.parametrize("bias", [0.0, 3.0])
def test_how_far_along_v_a_value_is_zero(bias):
    head = from_signs(bias=bias).model
    for x in np.random.default_rng(0).standard_normal((10, 3, D)):
        assert head(x + signs.change_along(head, x) * head.v) == pytest.approx(0.0, abs=1e-9)


def test_a_plane_a_little_elsewhere_is_noticed():
    found = from_signs(bound=1e-6)
    for off, ok in ((1e-7, True), (1e-3, False)):
        oracle = Promising(D, lambda X, off=off: found.model(X) + off > 0, answers="sign", roundoff=2.0**-53)
        check = signs.check_held_out_signs(oracle, found, np.random.default_rng(0))
        assert (check.evidence is None) == ok
        if not ok:
            assert {check.evidence.expected[:11], check.evidence.got} <= {"expected ye", "expected no", "yes", "no"}


def test_sequences_lie_around_the_plane_and_within_reach():
    found = from_signs(bias=-3.0)
    oracle = Promising(D, answers="sign", max_norm=5.0)
    X = signs.around_the_plane(oracle, found, 4, 200, np.random.default_rng(0))
    np.testing.assert_allclose(X.mean(axis=(0, 1)), [3.0, 0, 0, 0], atol=0.3)
    assert np.linalg.norm(X, axis=2).max() <= 5.0
    assert np.linalg.norm(X - [3.0, 0, 0, 0], axis=2).max() > 1.0


def test_where_scores_are_zero_tokens_are_as_long_as_bounds_allow():
    found = from_signs(bound=1e-6, rank=0, W=np.zeros((D, D)))
    assert signs.flat_size(found) == pytest.approx(0.25 * 1e3)
    assert signs.flat_size(replace(found, bound_key_bias=1e-2)) == pytest.approx(0.25 * 1e2)
    assert np.isfinite(signs.flat_size(replace(found, bound=0.0, bound_key_bias=0.0)))
    X = signs.around_the_plane(Promising(D, answers="sign"), found, 3, 50, np.random.default_rng(0))
    assert 50 < np.linalg.norm(X, axis=2).max() < 250.1
