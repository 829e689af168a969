"""The callable that is being learned: asked in chunks, counted, never beyond the budget, its failures named."""

from __future__ import annotations

import numpy as np

from .._errors import BudgetExceeded, GlassheadError, OracleError
from .._numbers import whole
from .._types import Float

CHUNK = 2**22  # floats sent to the box at a time; memory stays bounded however much is asked


class Box:
    """`f: (B, d) -> (B,)` with a count; `known` is what a `BudgetExceeded` carries."""

    def __init__(self, f, dim, budget, max_norm: float | None = None):
        if not callable(f):
            raise TypeError(f"expected a callable box, got {type(f).__name__}; wrap it as lambda x: ...")
        dim = getattr(f, "dim", None) if dim is None else dim
        if dim is None:
            raise ValueError("expected dim=, the length of an input: this box does not say; call recover_relu(f, dim)")
        self.dim = whole(dim, "dim", least=1)
        says = getattr(f, "dim", dim)
        if says != dim:
            raise ValueError(f"expected dim={says}, which the box itself says, got dim={dim}")
        self.budget = None if budget is None else whole(budget, "budget", least=1)
        self.max_norm = max_norm
        self.queries = 0
        self.known: dict = {}
        self._f = f

    def __call__(self, x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n"]:
        self._check_budget(len(x))
        rows = max(1, CHUNK // self.dim)
        parts = [self._ask(x[start : start + rows]) for start in range(0, len(x), rows)]
        return np.concatenate(parts) if parts else np.empty(0)

    def _check_budget(self, wanted: int) -> None:
        if self.budget is not None and self.queries + wanted > self.budget:
            raise BudgetExceeded(
                f"the budget of {self.budget} queries is spent: {self.queries} asked, {wanted} more wanted",
                budget=self.budget,
                needed=self.queries + wanted - self.budget,
                known=self.known,
            )

    def _ask(self, x: np.ndarray) -> np.ndarray:
        self.queries += len(x)
        try:
            answers = np.array(self._f(x.copy()))  # copies: the box may work in place, or answer in one array again
        except BudgetExceeded as error:  # of an oracle that the box is
            error.known = self.known | error.known
            raise
        except GlassheadError:
            raise
        except Exception as error:
            asked = f"{len(x)} inputs of dimension {self.dim}"
            raise OracleError(f"the box raised {type(error).__name__}: {error} (asked: {asked})", x[:1]) from error
        if answers.shape != (len(x),):
            raise OracleError(f"expected answers of shape ({len(x)},), one for each input, got {answers.shape}", x[:1])
        if answers.dtype.kind not in "fiub":
            raise OracleError(f"expected real answers, got dtype {answers.dtype}", x[:1])
        bad = np.flatnonzero(~np.isfinite(answers))
        if len(bad):
            raise OracleError(f"expected finite answers, got {answers[bad[0]]}", x[bad[:1]])
        return answers.astype(np.float64)
