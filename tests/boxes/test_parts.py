"""A batch in as many requests as a server takes, whatever it takes: every sequence is answered once, in order."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glasshead._boxes.parts import GROW_AFTER, Parts, wants_fewer
from glasshead._boxes.transport import Reply


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(1, 60), st.integers(1, 70)), min_size=1, max_size=8), st.integers(1, 64))
def test_every_sequence_is_answered_once_and_in_order(batches, most):
    parts, sizes, refused = Parts(most), [], 0
    for count, limit in batches:

        def ask(part, limit=limit):
            nonlocal refused
            sizes.append(len(part))
            refused += len(part) * (len(part) > limit)
            return part[:, 0, 0] if len(part) <= limit else None

        X = np.arange(count, dtype=float).reshape(-1, 1, 1)
        np.testing.assert_array_equal(parts.ask(X, ask), np.arange(count))
    assert max(sizes) <= most
    assert parts.refused == refused


def test_a_limit_that_stays_is_tried_less_and_less_often():
    parts, tries = Parts(64), []

    def ask(part):
        tries.append(len(part) > 16)
        return None if tries[-1] else part[:, 0, 0]

    parts.ask(np.zeros((16 * 15 * GROW_AFTER, 1, 1)), ask)
    assert np.flatnonzero(tries).tolist() == [0, 1, 34, 99, 228]  # 64, 32; then after 32, 64, 128 that fit


@pytest.mark.parametrize(
    ("status", "said", "wanted"),
    [
        (413, "", True),
        (400, "[request id: 1] inference request batch-size must be <= 8 for 'head'", True),
        (400, "Maximum request body size 1048576 exceeded", True),
        (500, "payload size of 9 MB is above 4 MB", True),
        (400, "This model's maximum context length is 128 tokens", False),
        (200, "batch size", False),
        (503, "batch size", False),
    ],
)
def test_servers_that_want_fewer(status, said, wanted):
    assert wants_fewer(Reply(status, {}, said.encode())) == wanted
