"""Which option might have avoided an error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from .._errors import BudgetExceeded, OracleError, TargetMismatch
from .._oracle import Oracle
from .._plan import plan


@contextmanager
def advice(oracle: Oracle) -> Iterator[None]:
    """Errors that pass through get a note, which is printed after their message."""
    try:
        yield
    except BudgetExceeded as error:
        enough = plan(oracle.dim, biases=True, answers=oracle.answers)
        error.add_note(f"--budget {enough} is enough for dimension {oracle.dim}, biases included")
        raise
    except TargetMismatch as error:
        if oracle.answers == "value" and oracle.tolerance == oracle.rtol == 0 and "tolerance" not in str(error):
            error.add_note("If the box rounds its answers or adds noise, say how much with --tolerance")
        raise
    except OracleError as error:
        if error.__cause__ is not None:
            error.add_note(f"Its tokens have length {oracle.dim}: is that what it expects?")
        raise
    except SystemExit as error:
        raise OracleError(f"the box called sys.exit({error.code})") from error
