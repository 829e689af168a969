"""The search for rank-one members on a GPU, where torch sees one.

For networks of thousands of neurons the power method and Newton's method of `rank_one` are products of large matrices
and nothing else. A box that lives on a GPU has torch loaded already; then they are computed there, in float64 and with
the same steps.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from .._types import Float

WORTH_IT = 2.0**33  # products of numbers in one step: with fewer, moving them takes longer
AT_ONCE_THERE = 2**28  # floats: 2 GiB


def device_for(work: float) -> str | None:
    """The device for a step of so many products: "cuda" where torch is loaded and sees one, None for numpy."""
    torch: Any = sys.modules.get("torch")
    return "cuda" if work >= WORTH_IT and torch is not None and torch.cuda.is_available() else None


def unit_rows(X: Any) -> Any:
    return X / (X * X).sum(1, keepdim=True).sqrt()


def climbed_there(
    device: str,
    basis: Float[np.ndarray, "r D D"],
    X: Float[np.ndarray, "n D"],
    climbs: int,
    shift: float,
    settled: float,
) -> Float[np.ndarray, "n D"]:
    """The power method: where it leads from the rows of X."""
    import torch

    D = X.shape[1]
    flat = torch.tensor(basis.reshape(len(basis), D * D), device=device)
    found = []
    for start in np.array_split(X, max(1, -(-len(X) * D * D // AT_ONCE_THERE))):
        x = torch.tensor(start, device=device)
        for _ in range(climbs):
            squares = (x[:, :, None] * x[:, None, :]).reshape(len(x), D * D)
            projected = ((squares @ flat.T) @ flat).reshape(len(x), D, D)
            y = unit_rows((projected @ x[:, :, None])[:, :, 0] + shift * x)
            moved = float((y - x).abs().max())
            x = y
            if moved <= settled:
                break
        found.append(x.cpu().numpy())
    return np.concatenate(found)


def sharpened_there(
    device: str,
    basis: Float[np.ndarray, "r D D"],
    X: Float[np.ndarray, "n D"],
    steps: int,
    regular: float,
    exact: float,
) -> Float[np.ndarray, "n D"]:
    """Newton's method for members of rank one, damped by what is missing of each."""
    import torch

    r, D = basis.shape[:2]
    flat, eye = torch.tensor(basis.reshape(r * D, D), device=device), torch.eye(D, dtype=torch.float64, device=device)
    found = []
    for start in np.array_split(X, max(1, -(-len(X) * r * D // AT_ONCE_THERE))):
        x = torch.tensor(start, device=device)
        for _ in range(steps):
            Bx = (x @ flat.T).reshape(len(x), r, D)
            square = x[:, :, None] * x[:, None, :]
            N = (eye * (x * x).sum(1)[:, None, None] + square) / 2 - Bx.transpose(1, 2) @ Bx
            gradient = (N @ x[:, :, None])[:, :, 0]
            left = (gradient * x).sum(1).abs()[:, None, None]
            move = torch.linalg.solve(N + square + (left + regular) * eye, gradient[:, :, None])[:, :, 0] / 2
            x = unit_rows(x - move)
            if float(move.abs().max()) <= exact:
                break
        found.append(x.cpu().numpy())
    return np.concatenate(found)
