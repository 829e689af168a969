"""The folder that results go to."""

from __future__ import annotations

from pathlib import Path


def make_folder(path: Path) -> None:
    """Made before the first query is asked: one that cannot be made costs none."""
    if path.exists() and not path.is_dir():
        raise NotADirectoryError(f"expected the name of a folder, got {path}, which is a file")
    path.mkdir(parents=True, exist_ok=True)
