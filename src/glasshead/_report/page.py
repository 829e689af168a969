"""`gh.report`: one HTML file for a recovery or an audit, which needs nothing but itself."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import os
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from .._models import Model, written_whole
from .._recovery import RESULT_FILE, Recovery, load_recovery
from .._version import __version__
from .audited import AUDIT_FILE, audit_data
from .recovered import recovery_data
from .run import RUN_FILE, Run

REPORT_FILE = "report.html"
SCRIPTS = (  # in the order they are read
    *("format", "colour", "scale", "drawing", "chart", "heatmap", "table", "parts"),
    *("head", "recovery", "settings", "tradeoff", "audit", "page"),
)
JOURNALS = "journal.sqlite"


def report(
    run: str | os.PathLike[str] | Recovery, path: str | os.PathLike[str] | None = None, *, truth: Model | None = None
) -> Path:
    """Write one self-contained HTML page about a recovery or an audit; returns where it is.

    >>> gh.report("runs/first")  # doctest: +SKIP
    PosixPath('runs/first/report.html')

    `run` is a folder that `found.save`, `glasshead recover --run` or `glasshead audit` has written, or a `gh.Recovery`.
    `path` is `report.html` in that folder, or here, unless told. `truth` is the true model, for a page that compares
    with it; a folder of `glasshead recover` knows the target's file itself. It asks no queries.
    """
    if isinstance(run, Recovery):
        folder, data = Path(), recovery_data(run, None, truth)
    else:
        folder = Path(run)
        data = folder_data(folder, truth)
    path = folder / REPORT_FILE if path is None else Path(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"expected an existing folder to write to, got {path.parent}")
    with written_whole(path) as part:
        part.write_text(page(data), encoding="utf-8")
    return path


def folder_data(folder: Path, truth: Model | None = None) -> dict[str, Any]:
    """What the page of a folder shows; an OSError or a ValueError says what it lacks and how to get it."""
    if not folder.is_dir():
        raise FileNotFoundError(f"there is no folder {folder}; expected one that recover --run or audit --run wrote")
    if (folder / AUDIT_FILE).is_file():
        return audit_data(folder)
    if not (folder / RESULT_FILE).is_file():
        raise FileNotFoundError(unfinished(folder))
    try:
        found = load_recovery(folder)
    except (ValueError, OSError) as error:
        error.add_note(how_to_resume(folder))
        raise
    run = Run.load(folder)
    return recovery_data(found, run, truth or (None if run is None else run.true_model(folder)))


def unfinished(folder: Path) -> str:
    """What a folder without a result lacks, and how to go on."""
    if (folder / RUN_FILE).is_file() or (folder / JOURNALS).is_file():
        return f"no result in {folder} yet: there is no {RESULT_FILE}. {how_to_resume(folder)}"
    if (folder / "begun.json").is_file():
        done = len(list(folder.glob("settings/*.json")))
        return (
            f"no result in {folder} yet: there is no {AUDIT_FILE}, but {done} finished settings. The same glasshead "
            f"audit command with --run {folder} goes on from there"
        )
    return (
        f"no result in {folder}: expected {RESULT_FILE}, written by glasshead recover --run or found.save, or "
        f"{AUDIT_FILE}, written by glasshead audit --run"
    )


def how_to_resume(folder: Path) -> str:
    """The command that makes the result, again or in the end."""
    try:
        run = Run.load(folder)
    except ValueError:
        run = None
    if run is None:
        return f"The same glasshead recover command with --run {folder} makes it from the answers that were kept"
    given = "" if " --run " in run.command else f" --run {folder}"
    return f"To make it from the answers that were kept: {run.command}{given}"


def page(data: dict[str, Any]) -> str:
    """The HTML, with styles, scripts and data inside it and a policy that lets it load and evaluate nothing else."""
    style = asset("style.css")
    script = '(() => {\n"use strict";\n' + "\n".join(asset(f"{name}.js") for name in SCRIPTS) + "})();\n"
    run: dict[str, Any] = data.get("run") or {}
    target = data["audit"]["target"] if data["kind"] == "audit" else run.get("target", data["model"])
    named = {"audit": "Audit", "recovery": "Recovery"}[data["kind"]]
    filled = {
        "TITLE": escape(f"{named} of {target}"),
        "POLICY": f"default-src 'none'; img-src data:; style-src {digest(style)}; script-src {digest(script)}",
        "STYLE": style,
        "DATA": embedded({"format": "glasshead report 1", "version": __version__, **data}),
        "SCRIPT": script,
    }
    pieces = asset("template.html").split("%%")  # text and names in turn, so that what is filled in is not filled again
    return "".join(filled[piece] if k % 2 else piece for k, piece in enumerate(pieces))


def asset(name: str) -> str:
    return files("glasshead._report").joinpath(name).read_text(encoding="utf-8")


def digest(text: str) -> str:
    """What a Content-Security-Policy calls this very text."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def embedded(data: Any) -> str:
    """JSON that may stand inside a script element: no `<`, and no infinity or NaN, which JSON has not got."""
    return json.dumps(finite(data), allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")


def finite(value: Any) -> Any:
    inside: Any = value
    if isinstance(value, dict):
        return {name: finite(item) for name, item in inside.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in inside]
    return None if isinstance(value, float) and not math.isfinite(value) else value
