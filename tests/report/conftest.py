"""A real browser, and pages to open in it that were made by real commands."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import glasshead as gh
from glasshead._cli.app import run
from glasshead._recovery import recovered

from . import samples

LEFT_OUT = "no Chromium here: `make browser` installs it"  # tests/conftest.py counts these
NAMES = "chromium", "chromium-browser", "google-chrome"
DESK, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """Debian's Chromium, driven by Playwright; without one the tests are left out, or fail where it is required."""
    path = next((found for name in NAMES if (found := shutil.which(name))), None)
    if path is None:
        assert os.environ.get("GLASSHEAD_BROWSER") != "required", LEFT_OUT
        pytest.skip(LEFT_OUT)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@dataclass
class Opened:
    """A page in the browser, and what it did beyond showing itself."""

    page: Any
    said: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def show(self, file: Path) -> Any:
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(file.resolve().as_uri())
        self.page.wait_for_function("document.documentElement.dataset.ready")
        return self.page


@pytest.fixture
def browse(chromium: Any) -> Iterator[Any]:
    """Opens a file in a window of its own."""
    windows = []

    def open_file(file: Path, size: dict[str, int] = DESK, scheme: str = "light") -> Opened:
        window = chromium.new_context(viewport=size, color_scheme=scheme, reduced_motion="reduce")
        windows.append(window)
        opened = Opened(window.new_page())
        opened.show(file)
        return opened

    yield open_file
    for window in windows:
        window.close()


@pytest.fixture(scope="session")
def pages(chromium: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The page of a head and of three heads recovered by the command line, of an audit, of twelve large heads, and of
    a block, whose values are matrices."""
    folder = tmp_path_factory.mktemp("pages")
    gh.save(gh.Attention.random(16, rank=3, seed=1), folder / "head.safetensors")
    gh.save(gh.MultiHead.random(12, heads=3, rank=2, seed=1), folder / "heads.safetensors")
    for name in ("head", "heads"):
        assert run(["recover", str(folder / f"{name}.safetensors"), "--run", str(folder / name), "--json"]) == 0
    block = gh.Block.random(6, heads=2, seed=1)
    found = recovered(block, (3, 3), queries=99, limit=42, reason="made for a test")
    large = samples.twelve_heads(folder / "large")
    return {
        "head": folder / "head" / "report.html",
        "heads": folder / "heads" / "report.html",
        "block": gh.report(found, folder / "block.html", truth=block),
        "audit": gh.report(samples.audit_folder(folder / "audit")),
        "large": gh.report(large, truth=gh.load(large / "truth.safetensors")),
    }
