"""`gh.Placed`: position vectors that are added to tokens in front of any model."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._families import FAMILIES, resolve
from .._linalg import norms
from .._types import ArrayLike, Float
from .._validate import as_real, require_shape
from .block import Block
from .front_head import FrontHead


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
        self.model: Any = model
        self.positions: np.ndarray = as_real(positions, "positions")
        shape = self.positions.shape
        require_shape(len(shape) == 2 and shape[1] == model.dim, f"positions of shape (N, {model.dim})", shape)

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
        return tokens + rows_for(tokens, self.positions)

    def __call__(self, X: ArrayLike) -> np.ndarray | np.generic:
        if isinstance(self.model, Block | FrontHead) and self.model.behind is None:
            raise ValueError(
                "expected a box to ask: what lies behind these heads is not known; call placed.ask(f), where f adds "
                "positions by itself"
            )
        return self.model(self.placed(X))

    @property
    def behind(self) -> Any:
        """The box that the model asks for what lies behind its heads, with its positions; None if it asks none. To set
        it is to call `ask`."""
        behind = getattr(self.model, "behind", None)
        return behind.box if isinstance(behind, WithoutPositions) else behind

    @behind.setter
    def behind(self, f: Any) -> None:
        self.ask(f)

    def ask(self, f: Any) -> None:
        """From now on the model asks the box f, which adds positions by itself, for what lies behind its heads."""
        if not isinstance(self.model, Block | FrontHead):
            raise TypeError(
                f"expected a gh.Block or a gh.FrontHead, which ask a box, got a {type(self.model).__name__}, which "
                "answers by itself"
            )
        if isinstance(self.model, Block) and self.model.network is not None:
            raise ValueError("expected a block that asks a box, got one with a network, which answers by itself")
        if not callable(f):
            raise TypeError(f"expected a callable that asks the box, got {type(f).__name__}")
        self.model.behind = WithoutPositions(f, self.positions)

    def numpy(self) -> Placed:
        return Placed(self.model.numpy(), np.asarray(self.positions))

    def tensors(self) -> dict[str, np.ndarray]:
        named = {f"{self.model.family}.{name}": x for name, x in self.model.tensors().items()}
        return {"positions": self.positions} | named

    @classmethod
    def from_tensors(cls, tensors: dict[str, np.ndarray]) -> Placed:
        parts = [(name.split(".", 1), x) for name, x in tensors.items() if name != "positions"]
        family = parts[0][0][0] if parts else ""
        if family not in FAMILIES or any(len(name) < 2 or name[0] != family for name, _ in parts):
            raise ValueError("expected the tensors of one model beside its positions")
        model = resolve(f"_models:{FAMILIES[family].model}").from_tensors({name[1]: x for name, x in parts})
        return cls(model, tensors["positions"])

    def __repr__(self) -> str:
        return f"Placed({self.model!r}, {len(self.positions)} places)"


class WithoutPositions:
    """A box that adds positions, on tokens that have theirs: they are taken away before it is asked."""

    def __init__(self, box: Any, positions: Float[np.ndarray, "N d"]):
        self.box, self.positions = box, positions

    @property
    def max_norm(self) -> float | None:
        longest = getattr(self.box, "max_norm", None)
        return None if longest is None else longest - float(norms(self.positions).max())

    def __call__(self, X: np.ndarray) -> np.ndarray:
        return self.box(X - rows_for(X, self.positions))


def rows_for(tokens: np.ndarray, positions: Float[np.ndarray, "N d"]) -> Float[np.ndarray, "n d"]:
    """The positions of as many tokens as these sequences have."""
    places, dim = positions.shape
    if tokens.ndim not in (2, 3) or tokens.shape[-1] != dim or tokens.shape[-2] < 1:
        raise ValueError(f"expected sequences of shape (N, {dim}) or (B, N, {dim}), got {tokens.shape}")
    if tokens.shape[-2] > places:
        raise ValueError(f"expected sequences of at most {places} tokens, got shape {tokens.shape}")
    return positions[: tokens.shape[-2]]
