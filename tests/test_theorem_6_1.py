"""Theorem 6.1, its erratum, Lemma A.1 and the tolerances: promised, and kept against the worst answers allowed."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import glasshead as gh
from glasshead.paper.lemma_a_1 import LIPSCHITZ, TAU_CLIP, clipped_logit
from glasshead.paper.theorem_6_1 import NoisyProbes

MARGIN = 0.2


class Adversary(gh.Oracle):
    """Answers `truth + tolerance * signs[k]` to the k-th query: the theorem asks in an order that is known."""

    def __init__(self, target: gh.Attention, tolerance: float, signs: np.ndarray):
        self.dim, self.target, self.tolerance, self.signs = target.dim, target, tolerance, signs
        self.queries = 0

    def __call__(self, X):
        push = self.signs[self.queries : self.queries + len(X)]
        self.queries += len(X)
        return self.target(X) + self.tolerance * push


def matrices(dim: int, W_bound: float, zero: int, p: int) -> dict[str, np.ndarray]:
    """Matrices on the edge of what is allowed: `||W||_F = W_bound`. Rows `zero` and `p` meet in the second case."""
    rng = np.random.default_rng(dim)
    edge = {name: np.zeros((dim, dim)) for name in ("one entry", "one negative", "same signs", "both down", "opposite")}
    edge["one entry"][zero, 0] = 1
    edge["one negative"][p, -1] = -1
    edge["same signs"][[zero, p], 0] = 1, 1
    edge["both down"][[zero, p], -1] = -1, -1
    edge["opposite"][[zero, p], 0] = 1, -1
    edge["spread"] = np.ones((dim, dim))
    edge["random"] = rng.standard_normal((dim, dim))
    edge["column"] = np.outer(rng.standard_normal(dim), np.eye(dim)[-1])
    return {name: W_bound * W / np.linalg.norm(W) for name, W in edge.items()} | {"W = 0": np.zeros((dim, dim))}


def values(dim: int) -> dict[str, np.ndarray]:
    """Entries are zero or at least the margin, mostly just that."""
    alternating = np.where(np.arange(dim) % 2, -1.0, 1.0)
    few = np.where(np.arange(dim) % 2, 0.0, MARGIN)
    return {
        "at the margin": MARGIN * alternating,
        "every other zero": few,
        "one": MARGIN * np.eye(dim)[dim - 1],
        "minus one": -np.eye(dim)[dim - 1],
        "long": np.where(few > 0, math.sqrt(1 / np.count_nonzero(few)), 0.0),
    }


def targets(dim: int, W_bound: float) -> list[gh.Attention]:
    found = []
    for v in values(dim).values():
        zero, p = int(np.argmin(np.abs(v))), int(np.argmax(np.abs(v)))
        found += [gh.Attention(W, v) for W in matrices(dim, W_bound, zero, p).values()]
    return found


def strategies(target: gh.Attention, rng: np.random.Generator) -> list[np.ndarray]:
    """Signs for the d + d^2 answers, chosen with the estimator in view. Columns are asked one after another."""
    d, v, W = target.dim, target.v, target.W
    towards_zero = -np.where(v != 0, np.sign(v), 1.0)  # small denominators; zeros pretend to be something
    visible, p = v != 0, int(np.argmax(np.abs(v)))
    score = np.where(visible[:, None], W, W + W[p])
    outwards = np.where(score >= 0, 1.0, -1.0) * np.sign(np.where(visible, v, v[p]))[:, None]  # away from weight 1/2
    against_p = np.where(np.arange(d) == p, -1.0, 1.0)[:, None] * np.ones((d, d))  # both halves of the second case
    of_v = [np.ones(d), -np.ones(d), towards_zero, -towards_zero, rng.choice([-1.0, 1.0], d)]
    of_W = [outwards, -outwards, against_p, -against_p, np.ones((d, d)), rng.choice([-1.0, 1.0], (d, d))]
    return [np.concatenate([a, b.T.ravel()]) for a in of_v for b in of_W] + [rng.uniform(-1, 1, d + d * d)]


def attack(target: gh.Attention, tau: float, signs: np.ndarray, W_bound: float, corrected=True):
    """What the theorem makes of these answers, and how far W is off."""
    found = gh.paper.theorem_6_1(Adversary(target, tau, signs), W_bound, MARGIN, corrected)
    return found, float(np.linalg.norm(found.model.W - target.W))


def climb(target: gh.Attention, tau: float, W_bound: float, corrected=True) -> tuple[gh.Recovery, float]:
    """The best strategy, then one answer after another turned round wherever that hurts more."""
    rng = np.random.default_rng(0)
    tried = [(attack(target, tau, signs, W_bound, corrected), signs) for signs in strategies(target, rng)]
    worst, signs = max(tried, key=lambda entry: entry[0][1])
    for k in range(len(signs)):
        turned = np.where(np.arange(len(signs)) == k, -signs, signs)
        other = attack(target, tau, turned, W_bound, corrected)
        if other[1] > worst[1]:
            worst, signs = other, turned
    return worst


def tolerance(dim: int, W_bound: float, eps_W: float) -> float:
    return gh.tolerance_for(dim=dim, W_bound=W_bound, margin=MARGIN, eps_W=eps_W, eps_v=1.0)


@pytest.mark.parametrize("dim", [1, 2, 5, 9])
@pytest.mark.parametrize("W_bound", [2, 10, 1e3])
def test_exact_answers(dim, W_bound):
    for target in targets(dim, W_bound):
        oracle = gh.ValueOracle(target)
        found = gh.paper.theorem_6_1(oracle, W_bound, MARGIN, corrected=True)
        assert found.queries == oracle.queries == dim + dim**2 == found.limit
        assert np.linalg.norm(found.model.W - target.W) <= found.bound <= 1e-10 * W_bound**2
        assert np.linalg.norm(found.model.v - target.v) <= found.bound_v <= 1e-12
        assert found.residual is None


@pytest.mark.parametrize("W_bound", [2.0, 10.0, 100.0])
@pytest.mark.parametrize("sign", [1, -1])
def test_the_second_case_fails_as_stated(W_bound, sign):
    W = np.array([[sign, 0], [sign, 0]]) * W_bound / math.sqrt(2)
    target = gh.Attention(W, [0.0, 1.0])
    literal = gh.paper.theorem_6_1(target, W_bound, margin=1)
    mended = gh.paper.theorem_6_1(target, W_bound, margin=1, corrected=True)
    assert np.linalg.norm(literal.model.W - W) == pytest.approx((math.sqrt(2) - 1) * W_bound)
    assert literal.bound is None
    assert "corrected=True mends it" in literal.reason
    assert np.linalg.norm(mended.model.W - W) <= mended.bound <= 1e-9 * W_bound**2
    assert literal.queries == mended.queries == 6


@pytest.mark.parametrize(("dim", "W_bound", "eps_W"), [(1, 2, 0.5), (3, 10, 0.1), (6, 100, 1e-3)])
def test_the_corrected_guarantee_holds_against_strategies(dim, W_bound, eps_W):
    tau, rng = tolerance(dim, W_bound, eps_W), np.random.default_rng(dim)
    for target in targets(dim, W_bound)[::2]:
        for signs in strategies(target, rng):
            found, off = attack(target, tau, signs, W_bound)
            assert off <= min(eps_W, found.bound)
            assert np.linalg.norm(found.model.v - target.v) <= found.bound_v
            assert found.bound == pytest.approx(eps_W, rel=1e-3)


@pytest.mark.parametrize(("dim", "W_bound", "step"), [(3, 2.0, 2), (4, 30.0, 3)])
def test_the_corrected_guarantee_holds_against_a_greedy_adversary(dim, W_bound, step):
    tau = tolerance(dim, W_bound, 0.5)
    worst = 0.0
    for target in targets(dim, W_bound)[::step]:
        found, off = climb(target, tau, W_bound)
        assert off <= min(0.5, found.bound)
        worst = max(worst, off / 0.5)
    assert worst >= 0.05  # the adversary bites: the guarantee is within a factor of 20 of what can be forced


def test_the_corrected_guarantee_holds_against_every_extreme_answer():
    tau = tolerance(2, 2.0, 0.9)
    every = [np.where(k >> np.arange(6) & 1, 1.0, -1.0) for k in range(64)]
    heads = [gh.Attention(W, values(2)["every other zero"]) for W in matrices(2, 2.0, zero=1, p=0).values()]
    worst = max(attack(target, tau, signs, 2.0)[1] for target in heads for signs in every)
    assert 0.05 * 0.9 <= worst <= 0.9


def test_without_zeros_the_theorem_holds_as_stated():
    tau = tolerance(3, 2.0, 0.5)
    v = values(3)["at the margin"]
    for W in matrices(3, 2.0, 0, 1).values():
        found, off = climb(gh.Attention(W, v), tau, 2.0, corrected=False)
        assert off <= min(0.5, found.bound)


def test_an_adversary_cannot_save_the_second_case():
    """Its own tolerance, zeros in v: the promise `eps_W` is broken whatever the answers."""
    tau = tolerance(2, 10.0, 0.5)
    target = gh.Attention(np.array([[1, 0], [1, 0]]) * 10 / math.sqrt(2), [0.0, MARGIN])
    rng = np.random.default_rng(0)
    assert min(attack(target, tau, signs, 10.0, corrected=False)[1] for signs in strategies(target, rng)) > 0.5


def test_the_second_case_keeps_its_logits_inside_the_clip():
    """`a b |u . W e_j| <= 1/2` for the corrected probes, with equality for the worst matrix; not for the paper's."""
    v, W = np.array([0.0, 1.0]), np.ones((2, 1)) * 3 / math.sqrt(2)
    probes = {c: NoisyProbes.of(v, 3.0, 1.0, c) for c in (True, False)}
    reach = {c: float(np.max(p.a * p.b * (p.u @ W)[:, 0])) for c, p in probes.items()}
    assert reach[True] == pytest.approx(0.5)
    assert reach[False] == pytest.approx(math.sqrt(2) / 2)


@pytest.mark.parametrize("decimals", [6, 7, 8])
@pytest.mark.parametrize("seed", range(3))
def test_rounded_answers(decimals, seed):
    rng = np.random.default_rng(seed)
    W, v = rng.standard_normal((6, 6)), np.array([0.5, 0, -0.3, 0.2, 0, 0.7])
    target = gh.Attention(W, v)
    box = gh.defences.rounded(target, decimals)
    found = gh.paper.theorem_6_1(gh.ValueOracle(box, tolerance=box.tolerance), np.linalg.norm(W), 0.2, corrected=True)
    assert np.linalg.norm(found.model.W - W) <= found.bound
    assert np.linalg.norm(found.model.v - v) <= found.bound_v == pytest.approx(math.sqrt(6) * box.tolerance, rel=1e-4)


def test_relative_tolerance_counts_too():
    target = gh.Attention(np.eye(2), [3.0, -4.0])
    found = gh.paper.theorem_6_1(gh.ValueOracle(target, rtol=1e-6), 2, 1)
    assert found.bound_v == pytest.approx(math.sqrt(2) * 4e-6, rel=1e-4)


@pytest.mark.parametrize(
    ("why", "target", "tau", "margin"),
    [
        ("the tolerance 0.06 is above margin/4 = 0.05", gh.Attention(np.eye(2), [1.0, 1.0]), 0.06, 0.2),
        (
            "v_1 was answered as 0.1, which is neither 0 nor at least the margin 0.2",
            gh.Attention(np.eye(2), [1.0, 0.1]),
            0,
            0.2,
        ),
        ("what ||W||_F <= W_bound = 2 allows", gh.Attention(3 * np.eye(2), [1.0, 1.0]), 1e-6, 0.2),
    ],
)
def test_no_bound_where_the_theorem_says_nothing(why, target, tau, margin):
    found = gh.paper.theorem_6_1(gh.ValueOracle(target, tolerance=tau), 2, margin, corrected=True)
    assert found.bound is None
    assert why in found.reason
    assert found.bound_v is not None


def test_an_invisible_head_is_refused():
    with pytest.raises(gh.NotIdentifiable, match=r"answers up to 0.05 with a tolerance of 0.3: either v = 0"):
        gh.paper.theorem_6_1(gh.ValueOracle(gh.Attention(np.eye(2), [0.05, 0.0]), tolerance=0.3), 2, 0.2)


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"W_bound": 1.5}, "expected W_bound to be a number >= 2, as in the paper .*, got 1.5"),
        ({"W_bound": math.inf}, "expected W_bound to be a number >= 2"),
        ({"margin": 0}, "expected margin to be a positive number, got 0"),
        ({"margin": "wide"}, "expected margin to be a positive number, got 'wide'"),
    ],
)
def test_refused_arguments(arguments, match):
    with pytest.raises(ValueError, match=match):
        gh.paper.theorem_6_1(gh.Attention(np.eye(2), np.ones(2)), **{"W_bound": 2, "margin": 0.2} | arguments)


# The tolerances, both ways.

SIZES = {
    "dim": st.integers(1, 4096),
    "W_bound": st.floats(2, 1e6),
    "margin": st.floats(1e-6, 1),
}


@given(**SIZES, share=st.floats(1e-9, 1))
def test_tolerance_to_accuracy_and_back(dim, W_bound, margin, share):
    known = {"dim": dim, "W_bound": W_bound, "margin": margin}
    tau = share * margin / 4
    eps_W, eps_v = gh.accuracy_for(**known, tolerance=tau)
    assert gh.tolerance_for(**known, eps_W=eps_W, eps_v=eps_v) == pytest.approx(tau)
    assert gh.tolerance_for(**known, eps_W=2 * eps_W, eps_v=eps_v) <= tau * (1 + 1e-12)


@given(**SIZES, eps_W=st.floats(1e-9, 1), eps_v=st.floats(1e-9, 1))
def test_the_tolerance_buys_the_accuracy(dim, W_bound, margin, eps_W, eps_v):
    known = {"dim": dim, "W_bound": W_bound, "margin": margin}
    tau = gh.tolerance_for(**known, eps_W=eps_W, eps_v=eps_v)
    bought = gh.accuracy_for(**known, tolerance=tau)
    assert bought.eps_W <= eps_W * (1 + 1e-12)
    assert bought.eps_v <= eps_v * (1 + 1e-12)
    assert bought.eps_W == pytest.approx(eps_W) or bought.eps_v == pytest.approx(eps_v)


def test_the_constants_are_the_papers():
    tau = gh.tolerance_for(dim=5, W_bound=3, margin=0.1, eps_W=0.2, eps_v=1)
    assert tau == pytest.approx(0.1 * 0.2 / (160 * 9 * 5))
    assert gh.tolerance_for(dim=4, W_bound=3, margin=0.1, eps_W=0.2, eps_v=1e-6) == pytest.approx(1e-6 / 2)
    assert gh.tolerance_for(dim=4, W_bound=3, margin=0.1, eps_W=1e9, eps_v=1e9) == pytest.approx(0.1 / 4)
    assert gh.accuracy_for(dim=4, W_bound=3, margin=0.1, tolerance=0.03) == (math.inf, 0.06)


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"dim": 0}, "expected dim to be an integer >= 1, got 0"),
        ({"dim": 2.0}, "expected dim to be an integer >= 1, got 2.0"),
        ({"W_bound": 1}, "expected W_bound to be a number >= 2"),
        ({"margin": -1}, "expected margin to be a positive number, got -1"),
        ({"eps_W": 0}, "expected eps_W to be a positive number, got 0"),
        ({"eps_v": math.nan}, "expected eps_v to be a positive number, got nan"),
    ],
)
def test_refused_accuracies(wrong, match):
    with pytest.raises(ValueError, match=match):
        gh.tolerance_for(**{"dim": 2, "W_bound": 2, "margin": 0.1, "eps_W": 0.1, "eps_v": 0.1} | wrong)


def test_refused_tolerances():
    with pytest.raises(ValueError, match=r"expected tolerance to be a number >= 0, got -0.1"):
        gh.accuracy_for(dim=2, W_bound=2, margin=0.1, tolerance=-0.1)


# Lemma A.1.


def logit(p):
    return math.log(p) - math.log1p(-p)


def test_the_constant_of_lemma_a_1():
    assert gh.paper.lemma_a_1() == gh.paper.lemma_a_1(TAU_CLIP) <= LIPSCHITZ == 5
    assert logit(TAU_CLIP) == pytest.approx(-0.5)
    for end, inwards in ((TAU_CLIP, 1), (1 - TAU_CLIP, -1)):  # the constant is the slope at the ends, and is reached
        near = end + inwards * 1e-7
        assert (logit(near) - logit(end)) / (near - end) == pytest.approx(gh.paper.lemma_a_1(), rel=1e-6)


@given(
    truth=st.floats(TAU_CLIP, 1 - TAU_CLIP) | st.sampled_from([TAU_CLIP, 0.5, 1 - TAU_CLIP]),
    estimate=st.floats(-1e9, 1e9) | st.floats(0.3, 0.7) | st.sampled_from([TAU_CLIP, 1 - TAU_CLIP]),
)
def test_lemma_a_1(truth, estimate):
    (read,) = clipped_logit(np.array([estimate]))
    off = abs(read - logit(truth))
    assert off <= gh.paper.lemma_a_1() * abs(estimate - truth) + 1e-15
    assert off <= LIPSCHITZ * abs(estimate - truth) + 1e-15
    assert abs(read) <= 0.5 + 1e-15


@given(tau=st.floats(1e-6, 0.49), share=st.floats(0, 1), other=st.floats(0, 1))
def test_lemma_a_1_for_any_interval(tau, share, other):
    p, q = (tau + s * (1 - 2 * tau) for s in (share, other))
    assert abs(logit(p) - logit(q)) <= gh.paper.lemma_a_1(tau) * abs(p - q) + 1e-14


@pytest.mark.parametrize("tau", [0, 0.5, 1, -0.1, math.nan])
def test_refused_intervals(tau):
    with pytest.raises(ValueError, match="expected tau to be a number strictly between 0 and 1/2, got"):
        gh.paper.lemma_a_1(tau)
