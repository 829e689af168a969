"""A trained layer as a black box: 8 heads of rank 32 in dimension 256, with biases. The bench has the larger ones."""

from __future__ import annotations

from bench.vector import albert_layer

from glasshead._learners.heads.vector.learn import learn_vector

from .boxes import learned


def test_albert():
    found, error, queries = learned(albert_layer(), learn_vector)
    assert found.rank == (32,) * 8
    assert error <= 1e-8
    assert queries <= 1.7 * found.limit
