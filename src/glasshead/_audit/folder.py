"""The folder of an audit: a file for each finished setting, so that nothing is tried twice."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np

from .._models import save, written_whole
from .copies import Finding
from .honest import Honest
from .settings import Setting

BEGUN, SETTINGS_FOLDER = "begun.json", "settings"
SAME_ANSWERS = 1e-6  # relative: how far answers of the same box may differ from one day to the next


class AuditFolder:
    """`begun.json` says what is audited and how, `settings/` has the findings, each with the attacker's copy beside it
    where there is one, `audit.json` the whole in the end."""

    def __init__(self, path: Path):
        self.path = path

    def begin(self, honest: Honest, how: dict[str, Any]) -> None:
        """Make the folder, or go on in it; one that holds something else is refused."""
        begun = self.path / BEGUN
        if not begun.is_file():
            if self.path.exists() and not self.path.is_dir():
                raise NotADirectoryError(f"expected the name of a folder, got {self.path}, which is a file")
            if self.path.is_dir() and any(self.path.iterdir()):
                raise FileExistsError(
                    f"expected a new folder, an empty one, or that of an audit to go on with, got {self.path}, which "
                    f"holds other files and no {BEGUN}; name another one"
                )
            (self.path / SETTINGS_FOLDER).mkdir(parents=True, exist_ok=True)
            self.write(BEGUN, how | {"answers": honest.answers.tolist()})
            return
        (self.path / SETTINGS_FOLDER).mkdir(exist_ok=True)
        before = self.load(begun)
        differ = [name for name, value in how.items() if before.get(name) != value]
        if differ:
            was = ", ".join(f"{name}={before.get(name)}" for name in differ)
            raise ValueError(f"{self.path} holds an audit with {was}; name another folder, or the same to go on")
        answers = np.array(before.get("answers"), dtype=np.float64)
        near = SAME_ANSWERS * float(np.abs(honest.answers).max(initial=0.0))
        if answers.shape != honest.answers.shape or not np.allclose(answers, honest.answers, rtol=0, atol=near):
            raise ValueError(f"{self.path} holds the audit of another target, or of one that has changed since")

    def stem(self, k: int, name: str) -> str:
        return f"{SETTINGS_FOLDER}/{k:02d}-{plain(name)}"

    def place(self, k: int, name: str) -> Path:
        """A folder for the answers of one setting."""
        folder = self.path / self.stem(k, name)
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def finding(self, k: int, setting: Setting) -> Finding | None:
        """What is known of a setting, if it was finished."""
        path = self.path / f"{self.stem(k, setting.name)}.json"
        if not path.is_file():
            return None
        content = self.load(path)
        if content.keys() != {each.name for each in fields(Finding)} or content["defence"] != setting.defence:
            raise ValueError(f"{path} is of another version or another grid; remove it to try that setting again")
        content |= {name: tuple(content[name]) for name in ("mitigations", "probe")}
        return Finding(**content)

    def keep(self, k: int, finding: Finding, copy: Any | None) -> None:
        """The copy first: where there is a finding, nothing is missing."""
        if copy is not None:
            save(copy, self.path / f"{self.stem(k, finding.name)}.safetensors")
        self.write(f"{self.stem(k, finding.name)}.json", asdict(finding))

    def write(self, name: str, content: dict[str, Any]) -> Path:
        self.path.mkdir(parents=True, exist_ok=True)
        with written_whole(self.path / name) as part:
            part.write_text(json.dumps(content, indent=1, allow_nan=False) + "\n", encoding="utf-8")
        return self.path / name

    def load(self, path: Path) -> dict[str, Any]:
        try:
            return dict(json.loads(path.read_text(encoding="utf-8")))
        except (ValueError, TypeError, RecursionError) as error:
            raise ValueError(f"{path} is damaged ({error}); remove it to try again") from error


def plain(name: str) -> str:
    """A name that any file system takes."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
