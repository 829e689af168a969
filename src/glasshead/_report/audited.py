"""An audit as its page shows it: `audit.json`, looked through, with the headline."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from .._audit import AUDIT_FORMAT
from .run import load_json

AUDIT_FILE = "audit.json"
TEXT, NUMERIC, MAYBE = str, (int, float), (int, float, type(None))
# What the page reads of an audit and of each of its settings; what else there is, is left alone.
AUDIT_FIELDS: dict[str, Any] = {
    "version": TEXT,
    "command": TEXT,
    "target": TEXT,
    "family": TEXT,
    "dim": NUMERIC,
    "parameters": MAYBE,
    "threshold": NUMERIC,
    "price_per_query": MAYBE,
    "budget": MAYBE,
    "threat": TEXT,
    "technique": TEXT,
    "leak": (dict, type(None)),
    "settings": list,
    "ranking": list,
    "recommendation": TEXT,
}
SETTING_FIELDS: dict[str, Any] = {
    "name": TEXT,
    "group": TEXT,
    "defence": (str, type(None)),
    "mitigation": (str, type(None)),
    "answers": TEXT,
    "outcome": TEXT,
    "verdict": TEXT,
    "queries": MAYBE,
    "bits": MAYBE,
    "plan": MAYBE,
    "error_W": MAYBE,
    "error_v": MAYBE,
    "function_error": MAYBE,
    "bound": MAYBE,
    "distortion": MAYBE,
    "cost": MAYBE,
    "seconds": MAYBE,
    "kept": bool,
    "reason": TEXT,
}
MORE_FIELDS = ("attack",)  # of a setting, where it has them
LEAK_FIELDS: dict[str, Any] = {"answers": TEXT, "width": MAYBE, "singular": list, "words": TEXT}


def audit_data(folder: Path) -> dict[str, Any]:
    """All that the page of an audit shows, as JSON takes it; a ValueError says what is wrong with the file."""
    path = folder / AUDIT_FILE
    fields = load_json(path, "an audit written by glasshead audit")
    if fields.get("format") != AUDIT_FORMAT:
        raise ValueError(
            f"{path} is not of this version: expected the format {AUDIT_FORMAT!r}, got {fields.get('format')!r}; "
            "audit again to make a new one"
        )
    audit = picked_fields(fields, AUDIT_FIELDS, path)
    audit["settings"] = [
        picked_fields(one, SETTING_FIELDS, path) | {name: str(one[name]) for name in MORE_FIELDS if name in one}
        for one in audit["settings"]
    ]
    audit["ranking"] = [str(name) for name in audit["ranking"]]
    if audit["leak"] is not None:
        rows = [picked_fields(row, LEAK_FIELDS, path) for row in audit["leak"].get("rows", [])]
        for row in rows:
            if not all(isinstance(s, int | float) and math.isfinite(s) for s in row["singular"]):
                raise ValueError(f"{path} is damaged: a singular value is no number")
        audit["leak"] = {name: audit["leak"].get(name) for name in ("outputs", "queries")} | {"rows": rows}
    return {"kind": "audit", "headline": audit_headline(audit), "audit": audit}


def picked_fields(fields: Any, kinds: dict[str, Any], path: Path) -> dict[str, Any]:
    """The fields of these names, each of its kind; JSON's infinities and NaN, which are none, become None."""
    if not isinstance(fields, dict):
        raise ValueError(f"{path} is damaged: expected fields, got a {type(fields).__name__}")
    if missing := sorted(kinds.keys() - fields.keys()):
        raise ValueError(f"{path} is damaged: it lacks {', '.join(missing)}; audit again to make a new one")
    kept = {name: fields[name] for name in kinds}
    for name, value in kept.items():
        if isinstance(value, float) and not math.isfinite(value):
            kept[name] = value = None
        if not isinstance(value, kinds[name]) or (isinstance(value, bool) and kinds[name] is not bool):
            raise ValueError(f"{path} is damaged: {name} is of type {type(value).__name__} there")
    return kept


def audit_headline(audit: dict[str, Any]) -> dict[str, Any]:
    """How many of the settings give the model away."""
    settings = audit["settings"]
    lost = sum(not setting["kept"] for setting in settings)
    return {
        "big": f"{lost} of {len(settings)}",
        "what": "settings give the model away",
        "words": audit["recommendation"],
        "value": lost,
    }
