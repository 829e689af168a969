"""Shapes in signatures are checked while the tests run. Must come before glasshead is imported anywhere."""

import os

# One thread for each process: tests run side by side, and two sums rounded in different orders differ.
for library in ("OMP", "OPENBLAS", "MKL", "VECLIB_MAXIMUM"):
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")

from jaxtyping import install_import_hook  # noqa: E402

import tests.shapes  # noqa: E402, F401 (the hook finds it as an attribute)

hook = install_import_hook("glasshead", "tests.shapes.check")


def pytest_terminal_summary(terminalreporter):
    """Tests that need a browser and did not get one are named where everybody looks."""
    skipped = terminalreporter.stats.get("skipped", [])
    left_out = sum("`make browser`" in str(report.longrepr) for report in skipped)
    if left_out:
        terminalreporter.write_sep("=", f"{left_out} browser tests were LEFT OUT: run `make browser`", yellow=True)
