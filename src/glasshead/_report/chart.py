"""Curves as a picture: a line chart in one SVG file that any browser opens."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from .picture import FAINT, FONT, INK, text

WIDTH, HEIGHT = 720, 420
LEFT, RIGHT, TOP, BOTTOM = 64, 150, 64, 84
COLOURS = ("#2166ac", "#b2182b", "#1b7837", "#762a83")
GRID = "#e3e7eb"


@dataclass(frozen=True)
class Curve:
    name: str
    x: Sequence[float]
    y: Sequence[float]


def chart(path: str | os.PathLike, curves: Sequence[Curve], *, title: str, x: str, y: str, caption: str = "") -> Path:
    """Write the curves, whose heights run from 0 to 1, to `path`."""
    low, high = min(min(c.x) for c in curves), max(max(c.x) for c in curves)

    def place(at: float, height: float) -> tuple[float, float]:
        across, up = (at - low) / (high - low), height
        return LEFT + across * (WIDTH - LEFT - RIGHT), HEIGHT - BOTTOM - up * (HEIGHT - TOP - BOTTOM)

    ticks = sorted({float(at) for curve in curves for at in curve.x})
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        f'role="img" font-family="{FONT}" fill="{INK}">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        text(LEFT, 32, title, size=17, weight=600),
        *(level(place, low, high, height) for height in (0.0, 0.25, 0.5, 0.75, 1.0)),
        *(text(place(at, 0.0)[0], HEIGHT - BOTTOM + 18, f"{at:g}", "middle", 11.5, FAINT) for at in ticks),
        text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - BOTTOM + 40, x, "middle", 12.5),
        f'<g transform="translate(20 {(TOP + HEIGHT - BOTTOM) / 2:g}) rotate(-90)">{text(0, 0, y, "middle", 12.5)}</g>',
        *(line(curve, place, colour) for curve, colour in zip(curves, COLOURS, strict=False)),
        *(legend(k, curve.name, colour) for k, (curve, colour) in enumerate(zip(curves, COLOURS, strict=False))),
        text(LEFT, HEIGHT - 14, caption, size=12, fill=FAINT),
        "</svg>\n",
    ]
    path = Path(path)
    path.write_text("\n".join(parts), encoding="utf-8")
    return path


def level(place, low: float, high: float, height: float) -> str:
    (x1, y), (x2, _) = place(low, height), place(high, height)
    rule = f'<line x1="{x1:g}" y1="{y:g}" x2="{x2:g}" y2="{y:g}" stroke="{GRID}"/>'
    return rule + text(x1 - 8, y + 4, f"{height:g}", "end", 11.5, FAINT)


def line(curve: Curve, place, colour: str) -> str:
    points = [place(at, height) for at, height in zip(curve.x, curve.y, strict=True)]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dots = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"/>' for x, y in points)
    return f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2.5"/>' + dots


def legend(k: int, name: str, colour: str) -> str:
    x, y = WIDTH - RIGHT + 20, TOP + 12 + 22 * k
    return f'<rect x="{x}" y="{y - 9}" width="14" height="10" rx="2" fill="{colour}"/>' + text(
        x + 22, y, name, size=12.5
    )
