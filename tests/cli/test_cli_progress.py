"""A bar for those who wait, on a terminal and nowhere else."""

from __future__ import annotations

import io
import sys

import pytest

from glasshead._cli import screen


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("patience", "shown"), [(-1.0, True), (1e9, False)])
def test_a_bar_appears_after_a_while(monkeypatch, patience, shown):
    monkeypatch.setattr(screen, "BAR_DELAY", patience)
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    with screen.patient_bar() as progress:
        progress(3, 7, "asking")
    assert ("3/7" in terminal.getvalue()) is shown
    assert shown or terminal.getvalue() == ""


def test_no_bar_in_a_file(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with screen.patient_bar() as progress:
        assert progress is None
