"""The program that `make lint` type-checks is one that works."""

from __future__ import annotations

from .program import main


def test_the_program_runs(tmp_path, capsys):
    main(tmp_path / "found")
    assert "(6, 6) (2, 6)" in capsys.readouterr().out
