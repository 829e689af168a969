"""Pages in a real Chromium: they load alone, can be used by pointer, keys and screen reader, and show what is so."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from axe_playwright_python.sync_playwright import Axe

import glasshead as gh
from glasshead._report.packing import unpacked_matrix

from . import samples
from .conftest import DESK, PHONE

KINDS = "head", "heads", "audit"
RAISED = str.maketrans("\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079\u207b\u2212", "0123456789--")


def embedded(page) -> dict:
    return json.loads(page.locator("#data").text_content())


def shown_number(text: str) -> float:
    """`-1.2 x 10^-5` and `1,064` as they stand on a page."""
    plain = text.translate(RAISED).replace("\u202f\u00d7\u202f10", "e").replace(",", "")
    return float(plain)


def numbers_in(value) -> set[float]:
    if isinstance(value, dict | list):
        return {x for item in (value.values() if isinstance(value, dict) else value) for x in numbers_in(item)}
    return {float(value)} if isinstance(value, int | float) and not isinstance(value, bool) else set()


def middle_of(page, selector: str, across: float = 0.5, down: float = 0.5) -> tuple[float, float]:
    page.locator(selector).scroll_into_view_if_needed()
    box = page.locator(selector).bounding_box()
    return box["x"] + across * box["width"], box["y"] + down * box["height"]


def cell_under(page) -> tuple[int, int]:
    words = page.locator("#weights-maps-readout b").first.text_content()
    row, column = re.fullmatch(r"row (\d+), column (\d+)", words).groups()
    return int(row) - 1, int(column) - 1


def readout(page, panel: str) -> float:
    return float(page.locator(f"#weights-maps-readout [data-panel={panel}]").get_attribute("data-value"))


@pytest.mark.parametrize("kind", [*KINDS, "large", "block"])
def test_it_loads_from_disk_alone(kind, pages, browse):
    opened = browse(pages[kind])
    assert opened.said == []
    assert opened.requests == [pages[kind].resolve().as_uri()]
    assert opened.page.locator("h1 .big").text_content() == embedded(opened.page)["headline"]["big"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("kind", KINDS)
def test_axe_finds_nothing(kind, scheme, pages, browse):
    page = browse(pages[kind], scheme=scheme).page
    page.locator("details summary").first.click()
    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()


@pytest.mark.parametrize("kind", [*KINDS, "large", "block"])
def test_a_phone_scrolls_one_way_only(kind, pages, browse):
    page = browse(pages[kind], PHONE).page
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_shown_are_those_of_the_json(kind, pages, browse):
    page = browse(pages[kind]).page
    known = numbers_in(embedded(page))
    shown = page.locator("main [data-value]").evaluate_all("all => all.map(x => [x.dataset.value, x.textContent])")
    assert len(shown) > 15
    for value, text in shown:
        assert float(value) in known, text
        assert shown_number(text) == pytest.approx(float(value), rel=6e-3)
    name = "audit" if kind == "audit" else "recovery"
    saved = json.loads((pages[kind].parent / f"{name}.json").read_text())
    for key, value in embedded(page)[name].items():
        rows = zip(value, saved[key], strict=True) if key == "settings" else ()
        assert value == saved[key] or all(one.items() <= other.items() for one, other in rows)


def test_hover_reads_every_map(pages, browse):
    page = browse(pages["head"]).page
    head = embedded(page)["heads"][0]
    for across, down in ((0.5, 0.5), (0.97, 0.04)):
        page.mouse.move(*middle_of(page, "canvas[data-map=true]", across, down))
        i, j = cell_under(page)
        assert (i, j) == (int(16 * down), int(16 * across))
        for panel in ("W", "true", "difference"):
            assert readout(page, panel) == pytest.approx(float(unpacked_matrix(head[panel])[i, j]), rel=1e-6)


def test_large_heads_are_drawn_from_their_factors(pages, browse):
    page = browse(pages["large"]).page
    page.locator("input[name=head]").first.press("ArrowRight")  # keys choose the next head
    page.mouse.move(*middle_of(page, "canvas[data-map=W]", 0.3, 0.7))
    i, j = cell_under(page)
    W = gh.load_recovery(pages["large"].parent).model.heads[1].W
    assert readout(page, "W") == pytest.approx(W[i, j], abs=1e-5 * np.abs(W).max())
    assert readout(page, "true") == readout(page, "W")  # float32 does not tell them apart
    assert pages["large"].stat().st_size <= 3_000_000


def test_zoom_by_wheel_button_and_key(pages, browse):
    page = browse(pages["head"]).page
    chosen = page.locator("canvas[data-map=W]")

    def under(across: float, down: float) -> tuple[int, int]:
        x, y = middle_of(page, "canvas[data-map=W]", across, down)
        page.mouse.move(x + 1, y)
        page.mouse.move(x, y)
        return cell_under(page)

    def wheel() -> None:
        under(0.5, 0.5)
        page.mouse.wheel(0, -100)
        page.wait_for_timeout(50)

    wheel()  # not chosen yet: the page scrolls, the map stays
    assert under(0.05, 0.05) == (0, 0)
    chosen.focus()
    wheel()
    wheel()
    assert min(under(0.05, 0.05)) > 0
    page.get_by_role("button", name="Reset zoom: W").click()
    assert under(0.05, 0.05) == (0, 0)
    chosen.focus()
    for key in ("ArrowDown", "ArrowRight", "+", "+"):
        page.keyboard.press(key)
    assert cell_under(page) == (1, 1)
    assert max(under(0.98, 0.98)) < 8
    page.keyboard.press("0")
    assert under(0.98, 0.98) == (15, 15)


def test_points_can_be_read_by_pointer_and_keys(pages, browse):
    page = browse(pages["head"]).page
    chart = page.locator("svg[aria-label^='Singular values']")
    values = embedded(page)["heads"][0]["singular"]
    chart.focus()
    page.keyboard.press("ArrowRight")
    tip = page.locator(".chart:has(svg[aria-label^='Singular values']) .tip")
    assert "singular value 1" in tip.text_content()
    assert float(tip.locator("[data-value]").get_attribute("data-value")) == pytest.approx(values[0], rel=1e-12)
    place = chart.locator("path.dot").nth(1).bounding_box()
    page.mouse.move(place["x"] + place["width"] / 2, place["y"] + place["height"] / 2)
    assert "singular value 2" in tip.text_content()
    before = chart.locator("text").all_text_contents()
    page.keyboard.press("+")
    assert chart.locator("text").all_text_contents() != before
    page.get_by_role("button", name="Reset zoom: Singular values of W").click()
    assert chart.locator("text").all_text_contents() == before


def test_the_table_sorts_and_filters(pages, browse):
    page = browse(pages["audit"]).page
    names = page.locator(".settings tbody .name")
    queries = page.locator(".settings tbody tr td:nth-child(3)")
    assert names.all_text_contents() == [row["name"] for row in samples.settings()]
    header = page.get_by_role("columnheader", name="Queries")
    header.get_by_role("button").click()
    asked = [shown_number(text) for text in queries.all_text_contents()]
    assert asked == sorted(row["queries"] for row in samples.settings())
    assert header.get_attribute("aria-sort") == "ascending"
    header.get_by_role("button").press("Enter")
    assert [shown_number(text) for text in queries.all_text_contents()] == asked[::-1]
    page.get_by_label("Filter").fill("rounded")
    assert len(names.all_text_contents()) == 8
    page.get_by_label("only what kept the model").check()
    kept = [row["name"] for row in samples.settings() if "rounded" in row["name"] and row["kept"]]
    assert names.all_text_contents() == kept[::-1]
    assert page.locator(".controls output").text_content().startswith(f"{len(kept)} of 25")


def test_unknown_numbers_sort_last(pages, browse):
    page = browse(pages["audit"], PHONE).page
    page.get_by_label("Sort by").select_option("error_W")  # what a phone has in place of headers
    errors = page.locator(".settings tbody tr td:nth-child(4)").all_text_contents()
    known = [text for text in errors if text != "\u2014"]
    assert errors[: len(known)] == known
    assert [shown_number(text) for text in known] == sorted(shown_number(text) for text in known)


def background(page) -> str:
    return page.evaluate("getComputedStyle(document.body).backgroundColor")


def test_themes_and_print(pages, browse):
    page = browse(pages["heads"], DESK, "dark").page
    dark, picture = background(page), "document.querySelector('canvas[data-map=W]').toDataURL()"
    drawn = page.evaluate(picture)
    button = page.locator("#theme")
    button.click()
    assert button.text_content() == "Theme: light"
    light = background(page)
    assert light != dark
    assert page.evaluate(picture) != drawn
    page.reload()
    assert background(page) == light  # it is remembered
    button.click()
    assert (button.text_content(), background(page)) == ("Theme: dark", dark)
    page.emulate_media(media="print")
    assert background(page) == "rgb(255, 255, 255)"
    page.wait_for_function(f"drawn => {picture} !== drawn", arg=drawn)  # on paper, in the colours of the light page
    assert not button.is_visible()
    assert page.locator("h1").is_visible()
    assert page.pdf()[:4] == b"%PDF"


def test_keys_alone(pages, browse):
    page = browse(pages["audit"]).page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the report"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    reached = set()
    for _ in range(12):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.tagName"))
    assert {"svg", "SUMMARY", "INPUT", "SELECT"} <= reached


@pytest.mark.parametrize("kind", ["recovery", "audit"])
def test_what_a_target_says_is_text(kind, tmp_path, browse):
    name = samples.HOSTILE
    if kind == "audit":
        rows = samples.settings()
        rows[0] |= {"name": name, "verdict": name, "defence": name, "group": name, "reason": name}
        file = gh.report(samples.audit_folder(tmp_path, target=name, settings=rows, recommendation=name, command=name))
    else:
        gh.recover(gh.Attention.random(3)).save(tmp_path)
        (tmp_path / "run.json").write_text(json.dumps(samples.run_fields(command=name, target=name)))
        file = gh.report(tmp_path)
    opened = browse(file)
    assert opened.said == []
    assert len(opened.requests) == 1
    assert opened.page.locator(".eyebrow code").text_content() == name
    assert opened.page.locator("#reproduce pre").text_content() == name
    assert "owned" in opened.page.title()  # as the text that it is
    assert opened.page.locator("main script, main img").count() == 0
