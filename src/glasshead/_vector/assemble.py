"""The parameters of every head, out of what was measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .._models import Attention
from .._models.multi_head import MultiHead
from .columns import SURE, Columns, span
from .readout import Readout


@dataclass(frozen=True)
class HeadScores:
    """What one head scores tokens with."""

    W: np.ndarray
    key_bias: np.ndarray | None
    rank: int

    def keys_against(self, last: np.ndarray) -> np.ndarray:
        keys = last @ self.W.T
        return keys if self.key_bias is None else keys + self.key_bias


def value_maps(readout: Readout, spaces: list[np.ndarray]) -> list[np.ndarray]:
    """`B_h = B Pi_h`, with `Pi_h` the projector on one head's outputs along all the others'."""
    if len(spaces) == 1:
        return [readout.B]
    inverse = np.linalg.inv(np.concatenate(spaces, axis=1))
    rows = np.split(inverse, np.cumsum([space.shape[1] for space in spaces])[:-1])
    return [readout.map @ space @ own @ readout.outputs.T for space, own in zip(spaces, rows, strict=True)]


def head_scores(columns: Columns, frame: np.ndarray, length: float) -> list[HeadScores]:
    """The first column is the zero token's, the others those of `length * frame`."""
    return [one_head(k, noise, frame / length) for k, noise in zip(columns.k, columns.noise, strict=True)]


def one_head(k: np.ndarray, noise: float, per_last: np.ndarray) -> HeadScores:
    rank = span(k[1:] - k[0], SURE * noise).shape[1]
    W = (k[1:] - k[0]).T @ per_last if rank else np.zeros((k.shape[1],) * 2)
    return HeadScores(W, k[0] if np.linalg.norm(k[0]) > SURE * noise else None, rank)


def layer(scores: list[HeadScores], maps: list[np.ndarray], bias: np.ndarray) -> Attention | MultiHead:
    own: Any = bias if len(maps) == 1 else 0.0
    heads = [Attention(s.W, v, key_bias=s.key_bias, bias=own) for s, v in zip(scores, maps, strict=True)]
    return heads[0] if len(heads) == 1 else MultiHead(heads, bias=bias)
