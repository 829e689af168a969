"""Figures for papers, of arrays and matplotlib: every head's W beside its singular values, in one look."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
from scipy.optimize import linear_sum_assignment  # pyright: ignore[reportMissingTypeStubs, reportUnknownVariableType]

from .._linalg import svd
from .._validate import needs

PANEL, SPECTRUM = 2.6, 2.2  # inches: the side of a heat map, the width of a chart of singular values
MOST_HEADS = 12  # rows of a figure that still fits on a page of paper
BLUE, ORANGE, GREY = "#0b5cad", "#c2410c", "#6b7280"  # told apart by those who see red and green alike
UNDATED = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}  # a day of its own would make it another file
LOOK = {
    "font.family": "sans-serif",
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "glasshead",  # the same figure is the same file
}


def heads_figure(
    heads: Sequence[np.ndarray], ranks: Sequence[int], true: Sequence[np.ndarray] | None = None, title: str = ""
) -> Any:
    """A `matplotlib.figure.Figure` with a row for each W: the matrix, how far it is from the true one where that is
    given, and its singular values with the rank cut."""
    if not heads:
        raise ValueError("expected a model with heads to draw, got none")
    if true is not None:
        if [W.shape for W in true] != [W.shape for W in heads]:
            got = [W.shape for W in true]
            raise ValueError(f"expected a truth with {len(heads)} heads of shape {heads[0].shape}, got {got}")
        true = [true[h] for h in nearest_heads(heads, true)]
    matplotlib = needs("matplotlib", "report")
    from matplotlib.figure import Figure

    shown = list(heads[:MOST_HEADS])
    columns = 2 if true is None else 3
    with matplotlib.rc_context(LOOK):
        size = (PANEL * (columns - 1) * 1.25 + SPECTRUM * 1.2, PANEL * len(shown) + 0.4)
        figure: Any = Figure(figsize=size, layout="constrained")
        grid = figure.subplots(len(shown), columns, squeeze=False)
        for h, W in enumerate(shown):
            name = f"head {h + 1}: " if len(heads) > 1 else ""
            heat_map(figure, grid[h][0], W, f"{name}W recovered")
            if true is not None:
                heat_map(figure, grid[h][1], W - true[h], "recovered less true")
            spectrum(grid[h][-1], W, int(ranks[h]), None if true is None else true[h])
        left_out = "" if len(shown) == len(heads) else f" (the first {len(shown)} of {len(heads)} heads)"
        figure.suptitle(title + left_out, fontsize=9)
    return figure


def drawn_model(model: Any, what: str = "what is drawn") -> Any:
    """The model in numpy, if it has heads to draw."""
    if not hasattr(model, "heads"):
        raise TypeError(f"expected {what} to be a model with heads, got {type(model).__name__}")
    return model.numpy()


def nearest_heads(found: Sequence[np.ndarray], true: Sequence[np.ndarray]) -> list[int]:
    """For each that was found the place of the true one that it is nearest to, in pairs."""
    far = np.array([[np.linalg.norm(W - other) for other in true] for W in found])
    return cast("tuple[np.ndarray, np.ndarray]", linear_sum_assignment(far))[1].tolist()


def save_figure(figure: Any, path: str | os.PathLike[str]) -> None:
    """Write a figure in the format that the ending of `path` names; the same figure becomes the same file."""
    with needs("matplotlib", "report").rc_context(LOOK):
        figure.savefig(path, metadata=UNDATED.get(Path(path).suffix))


def heat_map(figure: Any, axes: Any, W: np.ndarray, title: str) -> None:
    limit = float(np.abs(W).max()) or 1.0
    image = axes.imshow(W, cmap="RdBu_r", vmin=-limit, vmax=limit, interpolation="nearest", rasterized=True)
    axes.set(title=title, xlabel="column (last token)", ylabel="row (key)")
    figure.colorbar(image, ax=axes, shrink=0.8, aspect=24).outline.set_linewidth(0.4)


def spectrum(axes: Any, W: np.ndarray, rank: int, true: np.ndarray | None) -> None:
    """Singular values on a logarithmic axis, those beyond the rank in grey."""
    values = np.maximum(svd(W)[1], np.finfo(float).tiny)
    places = np.arange(1, len(values) + 1)
    if true is not None:
        reference = np.maximum(svd(true)[1], np.finfo(float).tiny)
        axes.plot(places, reference, "o", ms=5, mfc="none", mec=ORANGE, mew=0.8, label="true")
    axes.plot(places[:rank], values[:rank], "o", ms=2.5, color=BLUE, label="recovered")
    axes.plot(places[rank:], values[rank:], "x", ms=2.5, color=GREY, mew=0.6)
    if rank < len(values):
        axes.axvline(rank + 0.5, color=GREY, lw=0.6, ls="--")
    axes.set_yscale("log")
    axes.set(title=f"rank {rank}", xlabel="number", ylabel="singular value of W")
    axes.spines[["top", "right"]].set_visible(False)
    if true is not None:
        axes.legend(frameon=False, fontsize=7)
