"""The picture is a well-formed file that shows every entry in its colour."""

from __future__ import annotations

import base64
import struct
import zlib
from io import StringIO
from xml.etree import ElementTree

import numpy as np
import pytest
from rich.console import Console

from glasshead._cli.showing import COLUMN_GAP, can_draw, half_blocks
from glasshead._cli.showing import matrix_picture as picture
from glasshead._report.pictures import CELLS, DOTS, LEVELS, STOPS, Panel, colours, draw, palette

SVG = "{http://www.w3.org/2000/svg}"


def entries(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape)


def decoded(image: ElementTree.Element) -> np.ndarray:
    """The pixels (rows, columns, 3) of an embedded PNG, checked chunk by chunk."""
    kind, _, data = image.attrib["href"].partition(",")
    assert kind == "data:image/png;base64"
    file = base64.b64decode(data)
    assert file[:8] == b"\x89PNG\r\n\x1a\n"
    chunks, at = {}, 8
    while at < len(file):
        (size,) = struct.unpack(">I", file[at : at + 4])
        name, body = file[at + 4 : at + 8], file[at + 8 : at + 8 + size]
        assert struct.unpack(">I", file[at + 8 + size : at + 12 + size]) == (zlib.crc32(name + body),)
        chunks[name], at = body, at + 12 + size
    columns, rows, depth, kind_of_pixel = struct.unpack(">IIBB", chunks[b"IHDR"][:10])
    assert (depth, kind_of_pixel, list(chunks)[-1]) == (8, 3, b"IEND")
    lines = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(rows, columns + 1)
    assert not lines[:, 0].any()
    return np.frombuffer(chunks[b"PLTE"], np.uint8).reshape(-1, 3)[lines[:, 1:]]


def drawn(tmp_path, *panels: Panel, **keywords) -> ElementTree.Element:
    return ElementTree.parse(draw(tmp_path / "W.svg", panels, **keywords)).getroot()


@pytest.mark.parametrize("shape", [(1, 1), (5, 5), (3, 7), (CELLS, CELLS)])
def test_small_matrices_are_cells(tmp_path, shape):
    W = entries(*shape)
    root = drawn(tmp_path, Panel("true", W), Panel("recovered", 2 * W, limit=9.0))
    groups = [group for group in root.iter(f"{SVG}g") if group.get("shape-rendering")]
    fills = [[bytes.fromhex(cell.attrib["fill"][1:]) for cell in group] for group in groups]
    assert fills == [
        [bytes(c) for c in colours(A, limit).reshape(-1, 3)] for A, limit in ((W, np.abs(W).max()), (2 * W, 9.0))
    ]
    assert not list(root.iter(f"{SVG}image"))


@pytest.mark.parametrize("shape", [(CELLS + 1, CELLS + 1), (64, 40), (DOTS, DOTS)])
def test_large_matrices_are_images(tmp_path, shape):
    W = entries(*shape)
    images = list(drawn(tmp_path, Panel("true", W), Panel("recovered", -W)).iter(f"{SVG}image"))
    for image, values in zip(images, (W, -W), strict=True):
        pixels = decoded(image)
        times = pixels.shape[0] // shape[0]
        assert pixels.shape == (times * shape[0], times * shape[1], 3)
        for corner in (0, times - 1):
            assert np.array_equal(pixels[corner::times, corner::times], colours(values, np.abs(W).max()))


def test_huge_matrices_stay_small_and_keep_their_outliers(tmp_path):
    W = 0.1 * entries(2 * DOTS + 1, 2 * DOTS + 1)
    W[-1, 500] = -7.0
    root = drawn(tmp_path, Panel("difference", W))
    (image,) = root.iter(f"{SVG}image")
    pixels = decoded(image)
    assert max(pixels.shape) <= DOTS
    assert np.array_equal(pixels[-1, 500 // 3], colours(np.array([-7.0]), 7.0)[0])
    assert "the largest of each 3 x 3" in "".join(root.itertext())
    assert (tmp_path / "W.svg").stat().st_size < 5e5


def test_words_and_numbers(tmp_path):
    panels = [Panel("W < 1 & v", np.array([[0.5, -3.25]])), Panel("none", np.zeros((2, 2)))]
    root = drawn(tmp_path, *panels, title="a title", caption="a caption", signs="-")
    words = [element.text for element in root.iter(f"{SVG}text")]
    assert {"W < 1 & v", "none", "a title", "a caption", "-", "3.2", "\u22123.2", "0"} <= set(words)
    width = float(root.attrib["width"])
    assert all(0 <= float(element.attrib["x"]) <= width for element in root.iter(f"{SVG}text"))


def test_colours_have_a_middle_and_two_ends():
    left, middle, right = colours(np.array([-2.0, 0.0, 2.0]), 1.0)
    assert [bytes(c).hex() for c in (left, middle, right)] == [STOPS[0], STOPS[5], STOPS[-1]]
    assert left[2] > left[0]
    assert right[0] > right[2]
    assert len(np.unique(palette(), axis=0)) == 2 * LEVELS + 1
    assert np.array_equal(colours(np.zeros((2, 2)), 0.0)[0, 0], middle)


@pytest.mark.parametrize("rows", [1, 2, 5, 6])
def test_half_blocks_show_two_rows_a_line(rows):
    pixels = colours(entries(rows, 3), 2.0)
    text = half_blocks(pixels)
    assert text.plain.split("\n") == ["\u2580" * 3] * -(-rows // 2)
    shown = {span.start: span.style for span in text.spans if text.plain[span.start] != "\n"}
    for i in range(0, rows, 2):
        style = shown[i // 2 * 4 + 1]
        assert tuple(style.color.triplet) == tuple(pixels[i, 1])
        assert i + 1 == rows or tuple(style.bgcolor.triplet) == tuple(pixels[i + 1, 1])


@pytest.mark.parametrize(("width", "size"), [(200, 32), (80, 25), (40, 12), (20, None)])
def test_the_terminal_shows_what_fits(width, size):
    fitted = picture([Panel(name, entries(32, 32)) for name in ("true", "recovered", "difference")], width)
    if size is None:
        assert fitted is None
        return
    grid, shown = fitted
    screen = Console(file=StringIO(), force_terminal=True, color_system="truecolor", width=width)
    screen.print(grid)
    assert shown == size
    assert 3 * size + 2 * COLUMN_GAP <= width
    assert screen.file.getvalue().count("\u2580") == 3 * size * -(-size // 2)


@pytest.mark.parametrize(
    ("keywords", "drawn"),
    [
        ({"force_terminal": True, "color_system": "truecolor", "no_color": False}, True),
        ({"force_terminal": True, "color_system": "256", "no_color": False}, True),
        ({"force_terminal": True, "color_system": "truecolor", "no_color": True}, False),
        ({"force_terminal": True, "color_system": "standard", "no_color": False}, False),
        ({"force_terminal": False, "color_system": "truecolor", "no_color": False}, False),
    ],
)
def test_no_blocks_without_colours(keywords, drawn, tmp_path):
    with open(tmp_path / "screen", "w", encoding="utf-8") as file:
        assert can_draw(Console(file=file, **keywords)) is drawn
