"""The rest of every head: the keys along the other heads' values.

The rows of R that the isolated keys found span all queries that matter, so r well-chosen queries with H - 1 keys each
complete the head.
"""

from __future__ import annotations

import numpy as np

from .._meter.frame import cone
from .._types import Float
from .beside import Beside
from .box import Box
from .part import Part
from .room import Room

ROUGH = 1.0  # times the square root of the precision: what is fainter than that is not looked for


def complete(
    box: Box, room: Room, parts: list[Part], h: int, rng: np.random.Generator, enough: float
) -> tuple[np.ndarray, np.ndarray]:
    """`M = [kappa W, key_bias]` of head h as two factors; what is smaller than `enough` does not matter."""
    part, alone = parts[h], room.alone(h)
    if len(parts) == 1:
        return alone @ part.U, part.R
    beside = Beside(box, room, parts, h, rng)
    rows, x = queries_for(part.R, part.meter.oracle.dim, rng)
    seen = np.array([beside.column(one)[0] for one in x]).reshape(len(x), len(parts) - 1)
    rows, along = all_rows(beside, rows, x, seen, rng, enough * part.meter.kappa)
    return alone @ (part.U @ (part.R @ rows.T)) + beside.basis @ along, rows


def queries_for(
    R: Float[np.ndarray, "r e"], m: int, rng: np.random.Generator
) -> tuple[Float[np.ndarray, "r e"], Float[np.ndarray, "r e"]]:
    """Orthonormal rows that span those of R, and as many queries that see them perfectly conditioned.

    What is added along the key bias beyond the rows changes nothing of `M x` but keeps tokens short.
    """
    rows = np.linalg.svd(R, full_matrices=False)[2]
    if len(R) == 0:
        return rows, rows
    bias = rows[:, -1]
    beyond = np.eye(R.shape[1])[-1] - bias @ rows
    share = float(np.linalg.norm(bias))
    axis = bias / share if share > 0 else np.eye(len(R))[0]
    mixed = cone(axis, rng, lean=float(1 / np.sqrt(len(R)))).vectors if len(R) > 1 else np.ones((1, 1))
    x = mixed @ rows
    more = np.maximum(0.0, 1 / np.sqrt(m) - np.abs(x[:, -1])) * np.where(x[:, -1] < 0, -1, 1)
    if share < 1 - 1e-8:
        x = x + np.outer(more / (1 - share**2), beyond)
    return rows, x


def all_rows(
    beside: Beside, rows: np.ndarray, x: np.ndarray, seen: np.ndarray, rng: np.random.Generator, enough: float
) -> tuple[np.ndarray, np.ndarray]:
    """Queries that the isolated keys say nothing about may still matter along the others' values: look, and add them.

    Returns the rows and what lies along the others' values in their coordinates.
    """
    while True:
        along = np.linalg.lstsq(x @ rows.T, seen, rcond=None)[0].T
        if len(rows) == rows.shape[1] or not shows(beside, rows, along, rng, enough):
            return rows, along
        new = outside(rows, rng)
        asked = askable(new, rows, rng)
        x, seen = np.vstack([x, asked]), np.vstack([seen, beside.column(asked)[0]])
        rows = np.vstack([rows, new])


def shows(beside: Beside, rows: np.ndarray, along: np.ndarray, rng: np.random.Generator, enough: float) -> bool:
    """Whether a random query is answered along the others' values in a way that the rows do not explain."""
    f = rng.standard_normal((1, len(along)))
    f /= np.linalg.norm(f)
    asked = askable(outside(rows, rng), rows, rng)
    seen, noise = beside.column(asked, f)
    size = np.hypot(np.linalg.norm(along), np.linalg.norm(beside.parts[beside.h].R)) / np.sqrt(rows.shape[1])
    off = np.abs(seen - f @ along @ (rows @ asked))
    return bool(np.any(off > noise + ROUGH * np.sqrt(beside.box.oracle.roundoff) * size + enough))


def askable(x: np.ndarray, rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The query x with something of the rows, for a key to steer by, and some key bias, for short tokens."""
    within = rng.standard_normal(len(rows))
    asked = x + within @ rows / (np.linalg.norm(within) or 1.0)
    asked[-1] += np.where(asked[-1] < 0, -1, 1) * max(0.0, 1 / np.sqrt(len(x)) - abs(asked[-1]))
    return asked


def outside(rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A random unit vector orthogonal to orthonormal rows."""
    x = rng.standard_normal(rows.shape[1])
    for _ in range(2):
        x -= rows.T @ (rows @ x)
        x /= np.linalg.norm(x)
    return x
