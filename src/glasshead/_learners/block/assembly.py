"""A `gh.Block` of what was read: heads in the block's own coordinates, and the normalisation behind them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..._linalg import norms, unit
from ..._models import Attention, Block, Norm
from ..._oracles import Oracle, read_single
from .columns import HeadColumns
from .geometry import Reference
from .search import Found

OFF_THE_MEAN = 1e-4  # off the direction of (1, .., 1): the mean, which LayerNorm forgets
ALONG_RAY, CONSTANT = 0.1, 1e-3  # of a token, and of the answer's change otherwise: a normalisation forgets lengths
NO_RESIDUAL = 1e-6  # of B: nothing but heads


def without_noise(at: Reference, columns: HeadColumns, error: float) -> HeadColumns:
    """Key biases that cannot be told from 0 are none: `W q` and its error are all that is seen of them."""
    seen = error * norms(columns.W @ at.token)
    return replace(columns, key_bias=np.where(norms(columns.key_bias) > seen, columns.key_bias.T, 0.0).T)


def find_model(oracle: Oracle, found: Found, columns: HeadColumns, residual_map: str | None) -> Block:
    """The heads in the block's own coordinates, as far as the residual map is known."""
    total, B, d = found.total, found.heads.B, oracle.dim
    T = np.eye(d) - total.B
    known, maps = "unknown", B
    free = unit(total.unseen.T)
    norm: tuple[Norm, ...] = ()
    if float(np.linalg.norm(T)) <= NO_RESIDUAL * np.sqrt(d):
        known = "none"
    elif residual_map is not None:
        S = np.linalg.inv(T)
        forgotten = np.linalg.qr((total.unseen.T @ S).T)[0]
        mean = np.ones(d) / np.sqrt(d)
        layer = forgotten.shape[1] == 1 and abs(abs(float(forgotten[:, 0] @ mean)) - 1) <= OFF_THE_MEAN
        if layer:
            forgotten, norm = mean[:, None], (Norm("layer", None, "behind"),)
        elif forgotten.shape[1] == 0 and len(found.view.blind) == 1 and read_ray(oracle, found):
            norm = (Norm("rms", None, "behind"),)
        keep = np.eye(d) - forgotten @ forgotten.T
        known, maps, free = "assumed identity", B @ S @ keep, forgotten.T
    each = zip(columns.W, columns.key_bias, maps, strict=True)
    heads = [Attention(W, v, key_bias=c if np.any(c) else None) for W, c, v in each]
    return Block(heads, residual_map=known, norms=norm, free=free, behind=oracle)


def read_ray(oracle: Oracle, found: Found) -> bool:
    """Whether answers stay as they are far along the direction that they do not see, as behind a normalisation."""
    at, view = found.references[0], found.view
    length = ALONG_RAY * float(np.linalg.norm(at.token))
    blind, seen = (
        read_single(oracle, at.token[None] + length * unit(x)[None])[0] for x in (view.blind[0], view.directions[0])
    )
    return bool(np.linalg.norm(blind - at.answer) <= CONSTANT * np.linalg.norm(seen - at.answer))
