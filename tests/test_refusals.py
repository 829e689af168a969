"""Boxes nobody could read, boxes that are something else, budgets that end too early."""

import numpy as np
import pytest

import glasshead as gh

from .helpers import IMPOSTORS, Impostors, head


@pytest.mark.parametrize("dim", [2, 8])
@pytest.mark.parametrize("kind", IMPOSTORS)
def test_impostors_are_refused_with_evidence(kind, dim):
    box = getattr(Impostors(dim), kind)
    with pytest.raises(gh.TargetMismatch, match="not a single attention head") as caught:
        gh.recover(gh.ValueOracle(box, dim=dim), family="attention", seed=dim)
    evidence = caught.value.evidence
    assert evidence.query.shape[1] == dim
    assert evidence.law in str(caught.value)
    assert evidence.expected
    assert evidence.got


def test_the_closest_head_comes_with_the_refusal():
    box = Impostors(6)
    with pytest.raises(gh.TargetMismatch) as caught:
        gh.recover(gh.ValueOracle(box.nearly_one_head, dim=6), family="attention")
    assert caught.value.best is None or gh.distance(caught.value.best.model, box.one) < 0.1


def test_obvious_impostors_cost_little():
    for kind in ("linear_attention", "positional_encoding", "random_answers"):
        oracle = gh.ValueOracle(getattr(Impostors(64), kind), dim=64)
        with pytest.raises(gh.TargetMismatch):
            gh.recover(oracle)
        assert oracle.queries <= 64 + 96


def test_v_zero_hides_W_from_everybody():
    silent = gh.Attention(head(4).W, np.zeros(4), bias=1.5)
    with pytest.raises(gh.NotIdentifiable, match=r"v = 0: .* no learner could read W"):
        gh.recover(silent)


def test_v_below_the_tolerance_hides_W_too():
    faint = gh.Attention(head(4).W, np.full(4, 1e-6))
    oracle = gh.ValueOracle(lambda X: np.round(faint(X), 2), dim=4, tolerance=5e-3, max_norm=10.0)
    with pytest.raises(
        gh.NotIdentifiable, match=r"v cannot be told from 0: with tolerance = 0\.005, .* larger max_norm"
    ):
        gh.recover(oracle)


def test_accuracy_that_the_promise_cannot_give():
    oracle = gh.ValueOracle(lambda X: np.round(head(4)(X), 2), dim=4, tolerance=5e-3, max_norm=100.0)
    needed = r"only prove 0\.00\d+; about tolerance = 1\.\de-09 or about max_norm = 3\.\de\+08 is needed"
    with pytest.raises(gh.AccuracyUnreachable, match=needed) as caught:
        gh.recover(oracle, accuracy=1e-9)
    assert caught.value.best.bound > 1e-9
    assert gh.recover(oracle, accuracy=10.0).bound <= 10.0


def test_a_broken_promise_is_noticed():
    oracle = gh.ValueOracle(lambda X: np.round(head(4)(X), 3), dim=4, tolerance=1e-9)
    with pytest.raises(gh.TargetMismatch, match=r"less accurate than promised|not a single attention head"):
        gh.recover(oracle)


@pytest.mark.parametrize("budget", [1, 40])
def test_hopeless_budgets_are_refused_before_the_first_query(budget):
    oracle = gh.ValueOracle(head(16))
    with pytest.raises(gh.BudgetExceeded, match=f"a budget of {budget} cannot suffice: .* gh.plan") as caught:
        gh.recover(oracle, budget=budget)
    assert oracle.queries == 0
    assert caught.value.needed > 0


@pytest.mark.parametrize("outputs", [1, 32])
@pytest.mark.parametrize("rank", [0, 1, 32])
def test_what_a_recovery_took_is_a_budget_that_suffices(outputs, rank):
    """However many numbers answers hold, and however little there is to read."""
    rng = np.random.default_rng(1)
    W = rng.standard_normal((32, rank)) @ rng.standard_normal((rank, 32)) / 32
    target = gh.Attention(W, rng.standard_normal((32, outputs)).squeeze())
    took = gh.recover(gh.ValueOracle(target)).queries
    assert gh.recover(gh.ValueOracle(target), budget=took).queries == took


@pytest.mark.parametrize("budget", [110, 150, 280])
def test_a_budget_that_ends_early_gives_what_is_known(budget):
    target = head(16)
    oracle = gh.ValueOracle(target)
    with pytest.raises(gh.BudgetExceeded) as caught:
        gh.recover(oracle, budget=budget)
    known = caught.value.known
    assert oracle.queries <= budget
    assert caught.value.needed > 0
    np.testing.assert_allclose(known["v"], target.v, rtol=1e-12)
    if "b" in known:
        np.testing.assert_allclose(known["W_b"], known["b"] @ target.W.T, atol=1e-12)
    if budget == 280:
        assert len(known["b"]) >= 11


def test_a_budget_of_the_plan_suffices():
    for dim in (1, 5, 16):
        assert gh.recover(head(dim), budget=gh.plan(dim)).queries <= gh.plan(dim)


def test_an_unchecked_result_is_not_lost():
    target = head(3)
    enough = gh.recover(target).queries
    with pytest.raises(gh.BudgetExceeded) as caught:
        gh.recover(target, budget=enough - 1)
    assert gh.distance(caught.value.known["unchecked"].model, target) < 1e-12


ORACLE, SIGNS = gh.ValueOracle(head(4)), gh.SignOracle(head(4))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: gh.Attention(np.eye(0), []),
            ValueError,
            r"expected W of shape \(d, d\) with d >= 1, got shape \(0, 0\)",
        ),
        (lambda: gh.Attention(np.ones((2, 3)), [1, 2]), ValueError, r"expected W of shape \(d, d\)"),
        (
            lambda: gh.Attention(np.eye(2), [1, 2, 3]),
            ValueError,
            r"expected v of shape \(2,\) or \(2, k\), got .*\(3,\)",
        ),
        (
            lambda: gh.Attention(np.eye(2) * 1j, [1, 2]),
            TypeError,
            "expected W to hold real numbers, got dtype complex128",
        ),
        (lambda: gh.Attention([["a"]], [1]), TypeError, "expected W to hold real numbers"),
        (lambda: gh.Attention(np.eye(2), [1, np.nan]), ValueError, "expected v to be finite, got 1 NaN"),
        (lambda: gh.Attention(np.eye(2), [1, 2], key_bias=[1]), ValueError, r"expected key_bias of shape \(2,\)"),
        (lambda: gh.Attention(np.eye(2), [1, 2], bias=[1, 2]), ValueError, "expected a bias of shape"),
        (
            lambda: gh.Attention.from_projections(np.ones((2, 3)), np.ones((1, 3)), np.ones((2, 3)), [1, 1]),
            ValueError,
            "K",
        ),
        (
            lambda: head(3)(np.ones((2, 4))),
            ValueError,
            r"expected sequences of shape \(N, 3\) or \(B, N, 3\), got \(2, 4\)",
        ),
        (lambda: head(3)(np.ones((2, 0, 3))), ValueError, "expected sequences"),
        (lambda: head(3).factor(4), ValueError, "expected a rank from 1 to dim = 3, got 4"),
        (lambda: gh.Attention.random(0), ValueError, "expected dim >= 1, got 0"),
        (lambda: gh.Attention.random(3, rank=4), ValueError, "expected a rank from 1 to dim = 3, got 4"),
        (lambda: gh.ValueOracle(42, dim=2), TypeError, "expected a callable box, got int"),
        (lambda: gh.ValueOracle(lambda X: X), ValueError, r"call ValueOracle\(f, dim=...\)"),
        (lambda: gh.ValueOracle(lambda X: X, dim=0), ValueError, "expected dim to be an integer >= 1, got 0"),
        (lambda: gh.ValueOracle(lambda X: X, dim=2.5), ValueError, "expected dim to be an integer >= 1, got 2.5"),
        (lambda: gh.ValueOracle(head(3), dim=4), ValueError, "expected dim=3, which the box itself says, got dim=4"),
        (lambda: gh.ValueOracle(head(3), tolerance=-1), ValueError, "expected tolerance to be a finite number >= 0"),
        (lambda: gh.ValueOracle(head(3), rtol=np.nan), ValueError, "expected rtol to be a number >= 0 and below 1"),
        (
            lambda: gh.ValueOracle(head(3), rtol=1.5),
            ValueError,
            "expected rtol to be a number >= 0 and below 1, got 1.5",
        ),
        (lambda: gh.ValueOracle(head(3), max_norm=0), ValueError, "expected max_norm to be a positive number, got 0"),
        (
            lambda: gh.ValueOracle(head(3), dtype="int32"),
            ValueError,
            "expected dtype to be 'float64', 'float32' or 'float16', got 'int32'",
        ),
        (lambda: gh.ValueOracle(head(3), device="cuda"), ValueError, "expected device=None, got 'cuda'"),
        (
            lambda: ORACLE(np.ones((2, 4))),
            ValueError,
            r"expected queries of shape \(B, N, 4\) with N >= 1, got \(2, 4\)",
        ),
        (lambda: ORACLE(np.ones((2, 2, 5))), ValueError, "expected queries of shape"),
        (lambda: gh.recover(lambda X: X), TypeError, r"wrap a callable as gh.ValueOracle\(f, dim=...\)"),
        (lambda: gh.recover(SIGNS, family="multi-head"), ValueError, "expected value answers for family 'multi-head'"),
        (lambda: gh.recover(SIGNS, family="transformer"), ValueError, "family='any-network' reads W"),
        (lambda: gh.recover(ORACLE, family="lstm"), ValueError, "expected family to be one of .*, got 'lstm'"),
        (lambda: gh.recover(ORACLE, rank=5), ValueError, "expected a rank from 1 to dim = 4, got 5"),
        (lambda: gh.recover(ORACLE, accuracy=0.0), ValueError, "expected accuracy to be a positive number, got 0"),
        (lambda: gh.recover(ORACLE, budget=0), ValueError, "expected budget to be an integer >= 1, got 0"),
        (lambda: gh.recover(ORACLE, rank=2.5), ValueError, "expected rank to be an integer >= 1, got 2.5"),
        (lambda: gh.recover(ORACLE, accuracy="x"), ValueError, "expected accuracy to be a positive number, got 'x'"),
        (lambda: gh.recover(ORACLE, seed=-1), ValueError, "expected seed to be an integer >= 0, got -1"),
        (lambda: gh.recover(ORACLE, progress="yes"), TypeError, "expected progress to be True or a callable"),
        (lambda: gh.ValueOracle(head(3), tolerance=None), ValueError, "expected tolerance to be a finite number >= 0"),
        (lambda: gh.recover(ORACLE, journal=3), TypeError, "expected journal to be None or the path of a file"),
        (lambda: gh.plan(0), ValueError, "expected dim to be an integer >= 1, got 0"),
        (lambda: gh.plan(4, family="lstm"), ValueError, "expected family to be one of .*, got 'lstm'"),
        (lambda: gh.plan(4, heads=2), ValueError, "expected heads=1"),
        (lambda: gh.plan(4, answers="rank"), ValueError, "expected answers to be one of .*, got 'rank'"),
        (lambda: gh.plan(4, rank=5), ValueError, "expected a rank from 1 to dim = 4"),
        (lambda: gh.plan(4, accuracy=-1.0), ValueError, "expected accuracy to be a positive number"),
        (lambda: gh.distance(head(2), 3), TypeError, "expected a gh.Attention or a gh.MultiHead, got int"),
        (lambda: gh.paper.theorem_4_1(head(2), probes="sobol"), ValueError, "expected probes to be one of"),
    ],
)
def test_wrong_arguments(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_files_that_are_not_ours(tmp_path):
    from safetensors.numpy import save_file

    cases = {
        "text": ("is not a safetensors file", lambda path: path.write_text("hello")),
        "foreign": ("was not written by gh.save", lambda path: save_file({"W": np.eye(2)}, path)),
        "newer": (
            "has version 99, this glasshead reads version 1",
            lambda path: save_file({"W": np.eye(2)}, path, {"format": "glasshead", "version": "99"}),
        ),
        "unknown": (
            "holds a 'lstm', this glasshead knows",
            lambda path: save_file({"W": np.eye(2)}, path, {"format": "glasshead", "version": "1", "family": "lstm"}),
        ),
        "damaged": (
            "is damaged",
            lambda path: save_file(
                {"W": np.eye(2)}, path, {"format": "glasshead", "version": "1", "family": "attention"}
            ),
        ),
    }
    for name, (message, write) in cases.items():
        write(tmp_path / name)
        with pytest.raises(ValueError, match=message):
            gh.load(tmp_path / name)
    with pytest.raises(FileNotFoundError, match="no such model file"):
        gh.load(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError, match="expected an existing folder"):
        gh.save(head(2), tmp_path / "no" / "folder")
    with pytest.raises(TypeError, match=r"expected a glasshead model \(gh.Attention, .*\), got dict"):
        gh.save({}, tmp_path / "x")
    with pytest.raises(FileNotFoundError, match="no recovery in"):
        gh.load_recovery(tmp_path)
    (tmp_path / "recovery.json").write_text("{}")
    with pytest.raises(ValueError, match=r"is not a recovery written by found\.save"):
        gh.load_recovery(tmp_path)


@pytest.mark.parametrize("dim", [4, 8])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("tokens", ["last 4", "last 12", "first 8", "fewer when longer"])
def test_a_head_for_short_sequences_only(tokens, dtype, dim):
    """A window, a truncation, or scores that shrink with the length: all of them one head up to a few tokens."""
    target = head(dim, seed=dim)

    def box(X):
        kept = {"last 4": X[:, -4:], "last 12": X[:, -12:], "first 8": X[:, :8]}.get(tokens, X)
        if tokens == "fewer when longer":
            cooler = gh.Attention(target.W / max(1.0, X.shape[1] / 8), target.v)
            return cooler(X).astype(dtype)
        return target(kept).astype(dtype)

    with pytest.raises(gh.TargetMismatch):
        gh.recover(gh.ValueOracle(box, dim=dim), family="attention")
