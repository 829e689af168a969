"""Numbers as they were measured, and as a page shows them."""

from __future__ import annotations

import json
import re
import textwrap
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"


def load(name: str) -> dict[str, Any]:
    return json.loads((RESULTS / f"{name}.json").read_text())


def power(x: float) -> str:
    """1.2e-15, and 1e-9 for a round one."""
    return re.sub(r"\.0(?=e)|(?<=e-)0|(?<=e)\+0?", "", f"{x:.1e}")


def number(x: float) -> str:
    """Powers only where they are needed: 1.7e-4, 0.89, 36.4, 4,096."""
    return power(x) if x < 0.01 else f"{x:.2g}" if x < 10 else f"{x:.1f}" if x < 100 else f"{x:,.0f}"


def marked(error: float, most: float) -> str:
    """With a word where it misses what was asked."""
    return power(error) + ("" if error <= most else " (missed)")


def wrapped(page: str) -> str:
    """Paragraphs to 120 columns again, after numbers were put in; code, tables, titles and lists as they are."""
    parts = re.split(r"(^```.*?^```$)", page, flags=re.DOTALL | re.MULTILINE)
    return "".join(part if part.startswith("```") else "\n\n".join(map(_filled, part.split("\n\n"))) for part in parts)


def _filled(paragraph: str) -> str:
    if not paragraph.strip() or re.match(r"\s*([|#-]|\d\.)", paragraph):
        return paragraph
    end = "\n" if paragraph.endswith("\n") else ""
    return textwrap.fill(" ".join(paragraph.split()), 120, break_long_words=False, break_on_hyphens=False) + end
