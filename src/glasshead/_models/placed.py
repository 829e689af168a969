"""`gh.Placed`: position vectors that are added to tokens in front of any model."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._families import FAMILIES, resolve
from .._types import ArrayLike, Float
from .._validate import as_real, check_shape


class Placed:
    """`model(X + positions[:N])` for a sequence of N tokens: learned positions, as in GPT-2 and BERT.

    >>> import numpy as np, glasshead as gh
    >>> head, table = gh.Attention.random(4, seed=1), np.random.default_rng(0).standard_normal((8, 4))
    >>> X = np.ones((3, 4))
    >>> bool(gh.Placed(head, table)(X) == head(X + table[:3]))
    True

    `positions (N, d)` has a row for each place, from the first token on; longer sequences are refused. Only what shows
    is identified. Without a norm a vector that is added at every place is a key bias and a bias of the model: there the
    first row is 0. Behind a LayerNorm the mean of the first row is 0, and of all rows where a last LayerNorm hides it.
    """

    family = "placed"

    def __init__(self, model: Any, positions: ArrayLike) -> None:
        if getattr(model, "family", None) not in FAMILIES:
            raise TypeError(f"expected a glasshead model to add positions to, got {type(model).__name__}")
        self.model, self.positions = model, as_real(positions, "positions")
        shape = self.positions.shape
        check_shape(len(shape) == 2 and shape[1] == model.dim, f"positions of shape (N, {model.dim})", shape)

    @property
    def dim(self) -> int:
        return self.model.dim

    @property
    def heads(self) -> tuple[Any, ...]:
        """The heads of the model, for tokens with their positions."""
        return self.model.heads

    def placed(self, X: ArrayLike) -> Float[np.ndarray, "*B N d"]:
        """Tokens with their positions."""
        tokens = np.asarray(X)
        if tokens.ndim < 2 or tokens.shape[-2] > len(self.positions):
            raise ValueError(f"expected sequences of at most {len(self.positions)} tokens, got shape {tokens.shape}")
        return tokens + self.positions[: tokens.shape[-2]]

    def __call__(self, X: ArrayLike) -> np.ndarray:
        return self.model(self.placed(X))

    def ask(self, f: Any) -> None:
        """From now on the model asks the box f, which adds positions by itself, for what lies behind its heads."""
        first = self.positions[0]

        def behind(X: ArrayLike) -> Any:  # it is asked about single tokens
            return f(np.asarray(X) - first)

        self.model.behind = behind

    def numpy(self) -> Placed:
        return Placed(self.model.numpy(), np.asarray(self.positions))

    def tensors(self) -> dict[str, np.ndarray]:
        named = {f"{self.model.family}.{name}": x for name, x in self.model.tensors().items()}
        return {"positions": self.positions} | named

    @classmethod
    def from_tensors(cls, tensors: dict[str, np.ndarray]) -> Placed:
        parts = [(name.split(".", 1), x) for name, x in tensors.items() if name != "positions"]
        family = parts[0][0][0] if parts else ""
        if family not in FAMILIES or any(name[0] != family for name, _ in parts):
            raise ValueError("expected the tensors of one model beside its positions")
        model = resolve(f"_models:{FAMILIES[family].model}").from_tensors({name[1]: x for name, x in parts})
        return cls(model, tensors["positions"])

    def __repr__(self) -> str:
        return f"Placed({self.model!r}, {len(self.positions)} places)"
