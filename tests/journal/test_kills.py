"""A run over HTTP, killed and resumed; `python -m bench.run --only journal` does it fifty times."""

import pytest

from .kills import killed_runs


@pytest.mark.slow
def test_a_run_over_http_that_is_killed_again_and_again(tmp_path):
    run = killed_runs(tmp_path, kills=3, dim=16, seconds=0.01, seed=0)
    assert run.same
    assert run.lost == 0
    assert run.uninterrupted < run.counted <= run.most
    # A process that was killed during its first look had no journal yet to count in.
    assert run.received - run.kills * 8 <= run.counted <= run.received + run.kills * run.batch
