"""A trained layer as a black box: 8 heads of rank 32 in dimension 256, with biases. The bench has the larger ones."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from glasshead._vector import learn_vector

from .boxes import learned


@pytest.mark.skipif(find_spec("rxnmapper") is None, reason="needs pip install --no-deps rxnmapper==0.4.3")
def test_albert():
    pytest.importorskip("torch")
    from bench.vector import albert_layer

    found, error, queries = learned(albert_layer(), learn_vector)
    assert found.rank == (32,) * 8
    assert error <= 1e-8
    assert queries <= 1.7 * found.limit
