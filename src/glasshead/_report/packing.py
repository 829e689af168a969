"""Matrices inside a page: float32 in base64, as two factors where that is shorter, thinned out where it is too much."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import numpy as np

Packed = dict[str, Any]
FactorPair = tuple[np.ndarray, np.ndarray]
BYTES = 16 / 3  # of base64 for a float32


def packed_matrix(matrix: np.ndarray, most: float, factors: FactorPair | None = None) -> Packed:
    """The matrix for the page in at most that many bytes, or as many as a single number takes.

    Whole as `{"shape", "block": 1, "dense"}`, or as `{"shape", "block": 1, "left" (n, r), "right" (r, m)}` where it is
    the product of two `factors` that are shorter; else the entry of largest size of every `block x block`.
    """
    rows, columns = matrix.shape
    shape = {"shape": [rows, columns]}
    if factors is not None and sum(part.size for part in factors) * BYTES <= min(most, whole_bytes(matrix.shape)):
        left, right = factors
        return shape | {"block": 1, "rank": len(right), "left": text_of(left), "right": text_of(right)}
    block = 1
    while block < max(rows, columns) and whole_bytes((-(-rows // block), -(-columns // block))) > most:
        block += 1
    return shape | {"block": block, "dense": text_of(largest_of_blocks(matrix, block))}


def whole_bytes(shape: Sequence[int]) -> float:
    return BYTES * float(np.prod(shape))


def largest_of_blocks(matrix: np.ndarray, block: int) -> np.ndarray:
    """The entry of every `block x block` that is largest in size, so that no outlier is lost."""
    if block == 1:
        return matrix
    padded = np.pad(matrix, [(0, -n % block) for n in matrix.shape])
    tiles = padded.reshape(padded.shape[0] // block, block, padded.shape[1] // block, block).swapaxes(1, 2)
    tiles = tiles.reshape(*tiles.shape[:2], -1)
    return np.take_along_axis(tiles, np.abs(tiles).argmax(axis=-1)[..., None], axis=-1)[..., 0]


def text_of(array: np.ndarray) -> str:
    """Little-endian float32, row by row, in base64."""
    with np.errstate(over="ignore"):
        narrow = np.ascontiguousarray(array, "<f4")
    return base64.b64encode(narrow.tobytes()).decode()


def unpacked_matrix(pack: Packed) -> np.ndarray:
    """What the page draws, as float32: thinned out if it was."""

    def array(text: str, *shape: int) -> np.ndarray:
        return np.frombuffer(base64.b64decode(text), "<f4").reshape(shape)

    rows, columns = pack["shape"]
    if "left" in pack:
        return array(pack["left"], rows, -1) @ array(pack["right"], -1, columns)
    return array(pack["dense"], -(-rows // pack["block"]), -1)
