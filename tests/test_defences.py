"""Defences: what they do to answers, what they promise, and that they combine."""

from __future__ import annotations

import doctest
import pickle

import numpy as np
import pytest

import glasshead as gh

from .helpers import head

DEFENCES = {
    "rounded": lambda f: gh.defences.rounded(f, 3),
    "noisy": lambda f: gh.defences.noisy(f, 0.01),
    "gaussian": lambda f: gh.defences.gaussian(f, 0.1),
    "flipped": lambda f: gh.defences.flipped(f, 0.1),
    "half": gh.defences.half,
    "bfloat16": gh.defences.bfloat16,
    "clipped": lambda f: gh.defences.clipped(f, 2.0),
}
PROMISING = ["rounded", "noisy", "half", "bfloat16", "clipped"]


def echo(X):
    """The first entry of each sequence."""
    return np.asarray(X)[:, 0, 0]


def answers(defence, numbers) -> np.ndarray:
    return defence(echo)(np.asarray(numbers)[:, None, None])


def queries(count=50, dim=4, seed=0, scale=1.0):
    return scale * np.random.default_rng(seed).standard_normal((count, 3, dim))


@pytest.mark.parametrize("name", DEFENCES)
@pytest.mark.parametrize("outputs", [None, 3])
def test_a_defended_box_is_a_box(name, outputs):
    target = head(4)
    target = target if outputs is None else gh.Attention(target.W, np.outer(target.v, np.ones(outputs)))
    box = DEFENCES[name](target)
    expected = np.bool_ if name == "flipped" else np.float64
    for count in (0, 1, 7):
        got = box(queries(count))
        assert got.shape == target(queries(count)).shape
        assert got.dtype == expected
    assert box.dim == 4
    assert repr(box).startswith(f"{name}(Attention(dim=4")


@pytest.mark.parametrize("name", DEFENCES)
def test_dim_is_only_what_the_box_says(name):
    assert not hasattr(DEFENCES[name](echo), "dim")


@pytest.mark.parametrize("name", DEFENCES)
def test_examples_run(name):
    cls = getattr(gh.defences, name)
    assert ">>>" in cls.__doc__
    for example in doctest.DocTestFinder(recurse=False).find(cls, name, globs={"gh": gh, "np": np}):
        assert doctest.DocTestRunner().run(example).failed == 0


@pytest.mark.parametrize("name", PROMISING)
@pytest.mark.parametrize("scale", [1e-9, 1e-3, 1.0, 1e3])
def test_promises_are_kept(name, scale):
    target, X = head(4), queries(2000)
    X = X if name == "clipped" else scale * X
    X = X * np.minimum(1, 1.9 / np.linalg.norm(X, axis=-1, keepdims=True)) if name == "clipped" else X
    box, truth = DEFENCES[name](target), target(X)
    off = np.abs(box(X) - truth)
    assert np.all(off <= box.tolerance + (box.rtol + 1e-15) * np.abs(truth))
    if name != "clipped" and scale == 1:  # the promise is not much larger than need be
        assert np.max(off / (box.tolerance + box.rtol * np.abs(truth))) > 0.9


@pytest.mark.parametrize("outer", PROMISING)
@pytest.mark.parametrize("inner", PROMISING)
def test_promises_add_up(outer, inner):
    target, X = head(4), queries(500, scale=0.3)
    box = DEFENCES[outer](DEFENCES[inner](target))
    truth = target(X)
    assert box.dim == 4
    assert np.all(np.abs(box(X) - truth) <= box.tolerance + (box.rtol + 1e-15) * np.abs(truth))
    assert box.tolerance >= max(DEFENCES[name](target).tolerance for name in (outer, inner))
    assert box.max_norm == (2.0 if "clipped" in (outer, inner) else None)


def test_a_relative_error_counts_the_noise_inside_too():
    box = gh.defences.bfloat16(gh.defences.half(gh.defences.noisy(echo, 0.5)))
    assert box.tolerance == pytest.approx(0.5 * (1 + 2**-8) * (1 + 2**-11), rel=1e-6)
    assert box.rtol == pytest.approx((1 + 2**-8) * (1 + 2**-11) - 1, rel=1e-12)


@pytest.mark.parametrize("random", ["gaussian", "flipped"])
@pytest.mark.parametrize("around", DEFENCES)
def test_no_promise_around_random_answers(random, around):
    box = DEFENCES[around](DEFENCES[random](echo))
    assert box.tolerance is box.rtol is None
    assert len(box(queries())) == 50


@pytest.mark.parametrize(
    ("decimals", "number", "rounded"),
    [
        (2, 0.123, 0.12),
        (0, 2.5, 2.0),
        (0, -3.5, -4.0),
        (-2, 149.0, 100.0),
        (2, 1e300, 1e300),
        (308, 1.5, 1.5),
        (2, 0, 0),
    ],
)
def test_rounded(decimals, number, rounded):
    assert answers(lambda f: gh.defences.rounded(f, decimals), [number]) == [rounded]


def test_rounded_keeps_narrow_answers_narrow():
    box = gh.defences.rounded(head(4, dtype=np.float32), 3)
    assert box(queries()).dtype == np.float32


def test_half():
    numbers = np.array([1 + 2**-11, 1 + 3 * 2**-11, 65519.0, 65520.0, -1e6, 2**-25, 3 * 2**-26, 0.0])
    assert np.array_equal(answers(gh.defences.half, numbers), [1, 1 + 2**-9, 65504, np.inf, -np.inf, 0, 2**-24, 0])


@pytest.mark.parametrize(
    ("number", "nearest"),
    [
        (1 + 2**-8, 1),  # a tie goes to the even neighbour
        (1 + 3 * 2**-8, 1 + 2**-6),
        (1 + 2**-8 + 2**-40, 1 + 2**-7),  # by way of float32 this would be taken for a tie
        (-(1 + 2**-8 + 2**-40), -(1 + 2**-7)),
        (255.5, 256),
        (2.0**-133, 2.0**-133),
        (2.0**-134, 0),
        (2.0**-134 * 1.01, 2.0**-133),
        ((2 - 2**-7) * 2.0**127, (2 - 2**-7) * 2.0**127),
        ((2 - 2**-8) * 2.0**127, np.inf),
        (-1e300, -np.inf),
        (0, 0),
    ],
)
def test_bfloat16(number, nearest):
    assert answers(gh.defences.bfloat16, [float(number)]) == [nearest]


def test_bfloat16_numbers_are_float32_with_half_the_bits():
    got = answers(
        gh.defences.bfloat16,
        np.random.default_rng(0).standard_normal(1000) * 10.0 ** np.arange(-30, 30).repeat(17)[:1000],
    )
    assert not np.any(got.astype(np.float32).view(np.uint32) & 0xFFFF)
    assert np.array_equal(got.astype(np.float32), got)


def test_noise_is_a_function_of_the_query():
    X = queries(100)
    box, again, other = (gh.defences.noisy(echo, 0.1, seed) for seed in (0, 0, 1))
    together = box(X)
    assert np.array_equal(together, box(X))
    assert np.array_equal(together, again(X))
    assert np.array_equal(together, np.concatenate([box(X[k : k + 1]) for k in range(100)]))
    assert np.array_equal(box(np.zeros((1, 2, 4))), box(-np.zeros((1, 2, 4))))
    assert not np.any(together == other(X))


def test_noise_looks_random():
    """Neighbours, permutations and paddings of a query get noise of their own, spread evenly."""

    def silent(X):
        return np.zeros((len(X), 2))

    box = gh.defences.noisy(silent, 1.0)
    X = np.zeros((10_000, 2, 8))
    X[:, 0, 0] = np.arange(10_000) * 2.0**-40
    noise = box(X)
    assert np.abs(noise).max() <= 1
    assert np.abs(noise.mean(axis=0)).max() < 0.03
    assert np.abs(noise.var(axis=0) - 1 / 3).max() < 0.02
    assert np.abs(np.corrcoef([*noise.T, [*noise[1:, 0], 0]])[np.triu_indices(3, 1)]).max() < 0.04
    assert not np.any(box(X[1:, ::-1]) == noise[1:])
    assert not np.any(box(X[:, :1]) == noise)


def test_gaussian_noise_is_fresh_and_seeded():
    X = np.zeros((20_000, 1, 1))
    box, again = gh.defences.gaussian(echo, 0.5), gh.defences.gaussian(echo, 0.5)
    first, second = box(X), box(X)
    assert np.array_equal(first, again(X))
    assert first.std() == pytest.approx(0.5, rel=0.03)
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.03


@pytest.mark.parametrize("f", [echo, lambda X: echo(X) > 0, lambda X: (echo(X) > 0).astype(int)])
@pytest.mark.parametrize("probability", [0, 0.1, 1])
def test_flipped(f, probability):
    X = queries(20_000)
    box = gh.defences.flipped(f, probability)
    wrong = [box(X) != (echo(X) > 0) for _ in range(2)]
    assert wrong[0].mean() == pytest.approx(probability, abs=0.01)
    assert (wrong[0] & wrong[1]).mean() == pytest.approx(probability**2, abs=0.005)


def test_clipped():
    seen = []
    box = gh.defences.clipped(lambda X: seen.append(X) or np.zeros(len(X)), 2.0)
    short, long, huge, zero = [1.0, 1.0], [1.8, 2.4], [1e200, -1e200], [0.0, 0.0]
    box(np.array([[short, long], [huge, zero]]))
    assert np.allclose(seen[0], [[short, [1.2, 1.6]], [[2**0.5, -(2**0.5)], zero]], rtol=1e-15)
    assert np.array_equal(seen[0][0, 0], short)


def test_clipped_twice_keeps_the_shorter():
    for one, two in ((1.0, 3.0), (3.0, 1.0)):
        assert gh.defences.clipped(gh.defences.clipped(echo, one), two).max_norm == 1.0


@pytest.mark.parametrize("name", DEFENCES)
def test_defended_models_can_be_sent_to_replicas(name):
    box = DEFENCES[name](head(4))
    assert np.array_equal(pickle.loads(pickle.dumps(box))(queries()), box(queries()))


def test_an_honest_oracle_on_a_defended_box():
    target = head(4, W=0.2)
    box = gh.defences.noisy(target, 1e-9)
    found = gh.recover(gh.ValueOracle(box, tolerance=box.tolerance, rtol=box.rtol, max_norm=box.max_norm))
    assert np.linalg.norm(found.model.W - target.W) <= found.bound <= 1e-4


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda f: gh.defences.rounded(f, 1.5), "expected decimals to be an integer, got 1.5"),
        (lambda f: gh.defences.rounded(f, True), "expected decimals to be an integer, got True"),
        (lambda f: gh.defences.noisy(f, -1), "expected tolerance to be a number >= 0, got -1"),
        (lambda f: gh.defences.noisy(f, 0.1, seed=-1), "expected seed to be an integer >= 0, got -1"),
        (lambda f: gh.defences.noisy(f, np.nan), "expected tolerance to be a number >= 0, got nan"),
        (lambda f: gh.defences.gaussian(f, "loud"), "expected sigma to be a number >= 0, got 'loud'"),
        (lambda f: gh.defences.gaussian(f, 1, seed=0.5), "expected seed to be an integer >= 0, got 0.5"),
        (lambda f: gh.defences.flipped(f, 1.1), "expected probability to be a number from 0 to 1, got 1.1"),
        (lambda f: gh.defences.clipped(f, 0), "expected max_norm to be a positive number, got 0"),
        (lambda f: gh.defences.clipped(f, np.inf), "expected max_norm to be a positive number, got inf"),
    ],
)
def test_refused_arguments(call, match):
    with pytest.raises(ValueError, match=match):
        call(echo)


@pytest.mark.parametrize("name", DEFENCES)
def test_refused_boxes_and_queries(name):
    with pytest.raises(TypeError, match=r"expected a callable box, got float; wrap it as lambda X: ..."):
        DEFENCES[name](1.0)
    with pytest.raises(
        ValueError, match=r"expected queries of shape \(B, N, d\), got \(3, 4\); one sequence is X\[None\]"
    ):
        DEFENCES[name](echo)(np.ones((3, 4)))
