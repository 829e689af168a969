"""What comes back: a callable network, the same for the same seed, and a reason for its number of neurons."""

from __future__ import annotations

import numpy as np
import pytest
from relu_cases import Net, gaussian

import glasshead as gh
from glasshead._oracles import box as box_module


def test_one_input_or_many():
    net = gaussian(3, 4, biases=1.0)
    found = gh.recover_relu(net, 3)
    x = np.array([[1.0, 2.0, -1.0], [0.0, 0.0, 0.0]])
    assert found(x).shape == (2,)
    assert found(x[0]) == pytest.approx(found(x)[0])
    assert np.allclose(found(x), np.maximum(x @ found.A + found.b, 0) @ found.w + found.c)
    with pytest.raises(ValueError, match=r"expected inputs of shape \(3,\) or \(B, 3\), got \(2, 4\)"):
        found(np.zeros((2, 4)))


def test_the_box_may_say_its_dimension():
    net = gaussian(3, 4)
    net.dim = 3  # type: ignore[attr-defined]
    assert gh.recover_relu(net).dim == 3


@pytest.mark.parametrize("biases", [0.0, 1.0])
def test_the_same_seed_asks_the_same_queries(biases):
    def asked(seed):
        log = []
        net = gaussian(5, 9, biases=biases)
        gh.recover_relu(lambda x: log.append(x.copy()) or net(x), 5, seed=seed)
        return np.vstack(log)

    assert np.array_equal(asked(3), asked(3))
    assert not np.array_equal(asked(3)[:10], asked(4)[:10])


def test_a_box_that_works_in_place_is_none_of_our_business():
    net = gaussian(4, 4)

    def rude(x):
        y = net(x)
        x[:] = np.nan
        return y

    assert net.error(gh.recover_relu(rude, 4)) <= 1e-11


def test_large_requests_go_out_in_chunks(monkeypatch):
    monkeypatch.setattr(box_module, "CHUNK_BYTES", 8 * 160)
    net, largest = gaussian(8, 6), []
    found = gh.recover_relu(lambda x: largest.append(len(x)) or net(x), 8)
    assert max(largest) <= 20
    assert net.error(found) <= 1e-11


def shared(J, signs, tau):
    """A network with these jumps whose linear part is half of `sum tau_k J_k`, up to two extra neurons."""
    rest = (tau - signs) @ J / 2
    A = np.vstack([signs[:, None] * signs[:, None] * J, rest, -rest])
    return Net(A.T, np.r_[signs, 1.0, -1.0], np.zeros(len(A)))


SIGNS = [
    (8, 6, "signs", 6, ", proved fewest: the signs are the one solution of a linear system"),
    (8, 6, "one split", 7, ", proved fewest: one hyperplane needs both its sides"),
    (8, 6, "two split", 8, ", proved fewest: the jumps are independent and no signs"),
    (4, 9, "signs", 9, ", proved fewest: the signs come from trying all of them"),
    (4, 9, "two split", 11, ", not proved fewest: all signs were tried"),
    (24, 40, "signs", 40, ", proved fewest: the signs come from a linear program"),
    (4, 40, "signs", 42, ", not proved fewest: signs that save the last two would solve a vector partition problem"),
]


@pytest.mark.parametrize(("d", "m", "kind", "width", "reason"), SIGNS)
def test_the_choice_of_signs(d, m, kind, width, reason):
    rng = np.random.default_rng(m)
    J, signs, tau = rng.standard_normal((m, d)), rng.choice([-1.0, 1.0], m), rng.choice([-1.0, 1.0], m)
    tau[: {"signs": 0, "one split": 1, "two split": 2}[kind]] = 0.3
    net = shared(J, signs, tau)
    found = gh.recover_relu(net, d)
    assert net.error(found) <= 1e-10
    assert found.width == width
    assert reason in found.reason
    assert f"{width} neurons for {m} kinks" in found.reason
    assert str(width) in str(found)
