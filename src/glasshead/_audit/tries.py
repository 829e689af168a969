"""Every setting once: those in the folder are not tried again, the others here or by an executor."""

from __future__ import annotations

from concurrent.futures import Executor
from pathlib import Path
from typing import Any

import numpy as np

from .._boxes import as_finished
from .._oracles import Report
from .attack import Attack
from .copies import Finding
from .folder import SAME_ANSWERS, AuditFolder
from .honest import RememberingBox, read_answers
from .settings import OWN, Setting
from .source import TargetSource


def find_copies(
    source: TargetSource,
    attack: Attack,
    settings: list[Setting],
    kept: AuditFolder | None,
    progress: Report | None,
    executor: Executor | None,
) -> list[Finding]:
    """A finding for each setting: those in the folder as they are, the others tried, here or by the executor."""
    found: list[Finding | None] = [None if kept is None else kept.finding(k, each) for k, each in enumerate(settings)]
    check_own(source, attack, settings, found)

    missing = [k for k, each in enumerate(found) if each is None]
    tries = [(k, source, attack, settings[k], journals(kept, k, settings[k], attack)) for k in missing]
    for (k, *_), (finding, copy) in as_finished(find_one_copy, tries, executor):
        found[k] = finding
        if kept is not None:
            kept.keep(k, finding, copy)
        if progress is not None:
            progress(sum(each is not None for each in found), len(found), finding.name)
    return [each for each in found if each is not None]


def check_own(source: TargetSource, attack: Attack, settings: list[Setting], found: list[Finding | None]) -> None:
    """A defence of somebody's own is known by its answers: those of another one under the same name are refused."""
    for setting, finding in zip(settings, found, strict=True):
        if finding is not None and setting.group == OWN:
            box = setting.around(RememberingBox(source.make()[0], attack.honest))
            now = read_answers(box, attack.honest.X).ravel()[: len(finding.probe)]
            if not np.allclose(now, finding.probe, rtol=SAME_ANSWERS, atol=SAME_ANSWERS * attack.honest.spread):
                raise ValueError(f"{setting.name!r} is another defence than it was in this folder; name another folder")


def find_one_copy(
    k: int, source: TargetSource, attack: Attack, setting: Setting, journals: Path | None
) -> tuple[Finding, Any | None]:
    return attack.find_copy(source.make()[0], setting, journals)


def journals(kept: AuditFolder | None, k: int, setting: Setting, attack: Attack) -> Path | None:
    """Where the answers of a box that is not ours are kept, so that no query is paid for twice."""
    return None if kept is None or attack.truth is not None else kept.place(k, setting.name)
