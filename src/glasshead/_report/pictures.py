"""Pictures that any browser opens, of numpy and nothing else: heatmaps side by side, or curves, as one SVG file."""

from __future__ import annotations

import base64
import os
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

import numpy as np

from .packing import largest_of_blocks

# Blue for negative, red for positive, pale at zero (ColorBrewer's RdBu, reversed).
STOPS = ["053061", "2166ac", "4393c3", "92c5de", "d1e5f0", "f7f7f7", "fddbc7", "f4a582", "d6604d", "b2182b", "67001f"]
LEVELS = 127  # levels on either side of zero, so that zero has a colour of its own
CELLS = 16  # up to this many rows and columns each entry is a rectangle; beyond, the panel is an embedded PNG
DOTS = 512  # more rows or columns than this are not drawn one by one
SIDE, SPACE, MARGIN, HEADER, FOOT = 256, 44, 32, 84, 88  # pixels
INK, FAINT_INK = "#1f2933", "#6b7785"
FONT = "system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif"


@dataclass(frozen=True)
class Panel:
    """One heatmap: colours run from `-limit` to `limit`, by default the largest entry."""

    title: str
    values: np.ndarray
    limit: float | None = None

    @property
    def range(self) -> float:
        return float(np.abs(self.values).max(initial=0.0)) if self.limit is None else self.limit


def draw(
    path: str | os.PathLike, panels: Sequence[Panel], *, title: str = "", caption: str = "", signs: Sequence[str] = ()
) -> Path:
    """Write the panels to `path`, from left to right; `signs` go into the gaps between them.

    >>> draw("W.svg", [Panel("true", W), Panel("recovered", W_hat)])  # doctest: +SKIP
    """
    width = 2 * MARGIN + len(panels) * SIDE + (len(panels) - 1) * SPACE
    height = HEADER + SIDE + FOOT
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" font-family="{FONT}" fill="{INK}">',
        f"<title>{escape(title)}</title>",
        gradient(),
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        text(MARGIN, 32, title, size=17, weight=600),
        *(drawn(panel, MARGIN + k * (SIDE + SPACE)) for k, panel in enumerate(panels)),
        *(
            text(
                MARGIN + (k + 1) * (SIDE + SPACE) - SPACE / 2,
                HEADER + SIDE / 2 + 8,
                sign,
                "middle",
                24,
                FAINT_INK,
            )
            for k, sign in enumerate(signs)
        ),
        text(MARGIN, height - 16, caption, size=12.5, fill=FAINT_INK),
        "</svg>\n",
    ]
    path = Path(path)
    path.write_text("\n".join(parts), encoding="utf-8")
    return path


def drawn(panel: Panel, x: int) -> str:
    values, block = thinned(panel.values)
    title = panel.title if block == 1 else f"{panel.title} (the largest of each {block} x {block})"
    cell = SIDE / max(values.shape)
    heatmap = cells if max(values.shape) <= CELLS else image
    rows, columns = values.shape
    return "\n".join(
        [
            f'<g transform="translate({x:g} {HEADER})">',
            text(0, -12, title, size=13.5),
            heatmap(values, panel.range, cell),
            f'<rect width="{columns * cell:g}" height="{rows * cell:g}" fill="none" stroke="#c7ccd1"/>',
            scale_bar(panel.range),
            "</g>",
        ]
    )


def cells(values: np.ndarray, limit: float, cell: float) -> str:
    size = f'width="{cell:.6g}" height="{cell:.6g}"'
    rows = (
        f'<rect x="{j * cell:.6g}" y="{i * cell:.6g}" {size} fill="#{r:02x}{g:02x}{b:02x}"/>'
        for i, row in enumerate(colours(values, limit).tolist())
        for j, (r, g, b) in enumerate(row)
    )
    return '<g shape-rendering="crispEdges">\n' + "\n".join(rows) + "\n</g>"


def image(values: np.ndarray, limit: float, cell: float) -> str:
    # Enlarged beforehand: not every viewer knows that pixels must not be blurred.
    times = max(1, 2 * SIDE // max(values.shape))
    data = base64.b64encode(png(levels(values, limit).repeat(times, axis=0).repeat(times, axis=1))).decode()
    rows, columns = values.shape
    return (
        f'<image width="{columns * cell:g}" height="{rows * cell:g}" style="image-rendering: pixelated" '
        f'preserveAspectRatio="none" href="data:image/png;base64,{data}"/>'
    )


def scale_bar(limit: float) -> str:
    """The colour bar under a panel, with the numbers its colours stand for."""
    y = SIDE + 12
    ends = (("start", 0, -limit), ("middle", SIDE / 2, 0.0), ("end", SIDE, limit))
    strip = f'<rect y="{y}" width="{SIDE}" height="8" rx="2" fill="url(#colours)"/>'
    return strip + "".join(text(x, y + 24, short_number(value), anchor, 11.5, FAINT_INK) for anchor, x, value in ends)


def gradient() -> str:
    stops = (f'<stop offset="{k / (len(STOPS) - 1):g}" stop-color="#{colour}"/>' for k, colour in enumerate(STOPS))
    return '<defs><linearGradient id="colours">' + "".join(stops) + "</linearGradient></defs>"


def text(
    x: int | float, y: int | float, words: str, anchor="start", size: int | float = 13, fill=INK, weight=400
) -> str:
    style = f'font-size="{size}" fill="{fill}" font-weight="{weight}" text-anchor="{anchor}"'
    return f'<text x="{x:g}" y="{y:g}" {style}>{escape(words)}</text>'


def short_number(value: float) -> str:
    return "0" if value == 0 else f"{value:.2g}".replace("-", "\N{MINUS SIGN}")


def thinned(values: np.ndarray) -> tuple[np.ndarray, int]:
    """At most `DOTS` rows and columns: of every block the entry that is largest in size, so that no outlier is lost."""
    values = np.asarray(values, dtype=float)
    block = -(-max(values.shape) // DOTS)
    return largest_of_blocks(values, block), block


def palette() -> np.ndarray:
    stops = np.array([list(bytes.fromhex(colour)) for colour in STOPS], dtype=float)
    at = np.linspace(0, len(STOPS) - 1, 2 * LEVELS + 1)
    channels = [np.interp(at, np.arange(len(STOPS)), channel) for channel in stops.T]
    return np.stack(channels, axis=1).round().astype(np.uint8)


def levels(values: np.ndarray, limit: float) -> np.ndarray:
    """Which of the palette's colours every entry gets."""
    share = np.zeros(np.shape(values)) if limit == 0 else np.clip(np.asarray(values) / limit, -1, 1)
    return (np.rint(LEVELS * share) + LEVELS).astype(np.uint8)


def colours(values: np.ndarray, limit: float) -> np.ndarray:
    """Red, green and blue of every entry, `(rows, columns, 3)`."""
    return palette()[levels(values, limit)]


def png(pixels: np.ndarray) -> bytes:
    """A PNG file of `pixels (rows, columns)`, each a number of a palette colour."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows, columns = pixels.shape
    unfiltered = np.pad(pixels, ((0, 0), (1, 0))).tobytes()  # each row begins with its filter, 0 for none
    header = struct.pack(">IIBBBBB", columns, rows, 8, 3, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        chunk(kind, data)
        for kind, data in (
            (b"IHDR", header),
            (b"PLTE", palette().tobytes()),
            (b"IDAT", zlib.compress(unfiltered, 9)),
            (b"IEND", b""),
        )
    )


WIDTH, HEIGHT = 720, 420
LEFT, RIGHT, TOP, BOTTOM = 64, 150, 64, 84
COLOURS = ("#2166ac", "#b2182b", "#1b7837", "#762a83")
GRID = "#e3e7eb"


@dataclass(frozen=True)
class ChartCurve:
    name: str
    x: Sequence[float]
    y: Sequence[float]


def chart(
    path: str | os.PathLike, curves: Sequence[ChartCurve], *, title: str, x: str, y: str, caption: str = ""
) -> Path:
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
        *(text(place(at, 0.0)[0], HEIGHT - BOTTOM + 18, f"{at:g}", "middle", 11.5, FAINT_INK) for at in ticks),
        text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - BOTTOM + 40, x, "middle", 12.5),
        f'<g transform="translate(20 {(TOP + HEIGHT - BOTTOM) / 2:g}) rotate(-90)">{text(0, 0, y, "middle", 12.5)}</g>',
        *(line(curve, place, colour) for curve, colour in zip(curves, COLOURS, strict=False)),
        *(legend(k, curve.name, colour) for k, (curve, colour) in enumerate(zip(curves, COLOURS, strict=False))),
        text(LEFT, HEIGHT - 14, caption, size=12, fill=FAINT_INK),
        "</svg>\n",
    ]
    path = Path(path)
    path.write_text("\n".join(parts), encoding="utf-8")
    return path


def level(place, low: float, high: float, height: float) -> str:
    (x1, y), (x2, _) = place(low, height), place(high, height)
    rule = f'<line x1="{x1:g}" y1="{y:g}" x2="{x2:g}" y2="{y:g}" stroke="{GRID}"/>'
    return rule + text(x1 - 8, y + 4, f"{height:g}", "end", 11.5, FAINT_INK)


def line(curve: ChartCurve, place, colour: str) -> str:
    points = [place(at, height) for at, height in zip(curve.x, curve.y, strict=True)]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dots = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"/>' for x, y in points)
    return f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2.5"/>' + dots


def legend(k: int, name: str, colour: str) -> str:
    x, y = WIDTH - RIGHT + 20, TOP + 12 + 22 * k
    swatch = f'<rect x="{x}" y="{y - 9}" width="14" height="10" rx="2" fill="{colour}"/>'
    return swatch + text(x + 22, y, name, size=12.5)
