"""The HTML page: how large it is, and how soon it can be used in Chromium, for one head and for twelve large ones."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from tests.report.conftest import NAMES
from tests.report.samples import audit_folder, twelve_heads

import glasshead as gh

Progress = Callable[[int, int, str], None]
OPENED = 5  # times each page; the median counts
MOST_BYTES, MOST_SECONDS = 3_000_000, 2.0
READY = "document.documentElement.dataset.ready"


def one_head(folder: Path) -> Path:
    target = gh.Attention.random(64, rank=8, seed=1)
    return gh.report(gh.recover(target), folder / "head.html", truth=target)


def large_heads(folder: Path) -> Path:
    twelve_heads(folder / "large")
    return gh.report(folder / "large", truth=gh.load(folder / "large" / "truth.safetensors"))


PAGES: dict[str, Callable[[Path], Path]] = {
    "one head, d = 64": one_head,
    "12 heads of rank 32, d = 384, and the truth": large_heads,
    "an audit of 25 settings": lambda folder: gh.report(audit_folder(folder / "audit")),
}


def run(progress: Progress) -> dict[str, Any]:
    from playwright.sync_api import sync_playwright

    path = next(found for name in NAMES if (found := shutil.which(name)))
    rows = []
    with TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        for done, (name, make) in enumerate(PAGES.items()):
            progress(done, len(PAGES), name)
            file = make(Path(folder))
            seconds = [opened(browser, file) for _ in range(OPENED)]
            rows.append(
                {"page": name, "bytes": file.stat().st_size, "seconds": median(seconds), "slowest": max(seconds)}
            )
        version = browser.version
        browser.close()
    return {
        "chromium": version,
        "opened": OPENED,
        "limits": {"bytes": MOST_BYTES, "seconds": MOST_SECONDS},
        "rows": rows,
    }


def opened(browser: Any, file: Path) -> float:
    """Seconds from the first look at the file until everything is drawn and can be used."""
    page = browser.new_page()
    page.goto(file.resolve().as_uri())
    page.wait_for_function(READY)
    # Two frames later what was drawn is on the screen.
    shown = (
        "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now()))))"
    )
    seconds = page.evaluate(shown) / 1000
    page.close()
    return seconds


def broken(result: dict[str, Any]) -> Iterable[str]:
    """A sentence for every number that misses its limit."""
    for row in result["rows"]:
        if row["bytes"] > MOST_BYTES:
            yield f"report, {row['page']}: {row['bytes']:,} bytes > {MOST_BYTES:,}"
        if row["seconds"] > MOST_SECONDS:
            yield f"report, {row['page']}: {row['seconds']:.1f} s until it can be used > {MOST_SECONDS:.0f} s"
