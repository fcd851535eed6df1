"""Debian's Chromium, headless, in a fresh profile for each test."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from tests.browser.scenes import Scene, Served, serving

_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
Open = Callable[..., Any]


@pytest.fixture(scope="module")  # not longer: no other event loop runs in this thread meanwhile
def browser() -> Iterator[Any]:
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        pytest.skip("there is no Chromium here: apt-get install chromium")
    with sync_api.sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=path, args=_FLAGS)
        yield launched
        launched.close()


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Callable[[Callable[[], Scene]], Served]]:
    """Return a function that serves a scene until the test ends."""
    opened: list[AbstractContextManager[Served]] = []

    def serve(make: Callable[[], Scene]) -> Served:
        manager = serving(tmp_path / f"curator-{len(opened)}", make)
        opened.append(manager)
        return manager.__enter__()

    yield serve
    for manager in opened:
        manager.__exit__(None, None, None)


@pytest.fixture
def page(browser: Any) -> Iterator[Open]:
    """Return a function that opens a page; whatever the browser complains about fails the test."""
    contexts: list[Any] = []
    complaints: list[str] = []

    def note(message: Any) -> None:
        is_hint = message.text.startswith(("[DOM]", "Failed to load resource"))
        if message.type in {"error", "warning"} and not is_hint:
            complaints.append(message.text)

    def open_page(served: Served, *, may_complain: bool = False, **options: Any) -> Any:
        made = browser.new_context(base_url=served.address, ignore_https_errors=True, **options)
        contexts.append(made)
        page = made.new_page()
        if not may_complain:
            page.on("console", note)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        return page

    yield open_page
    for made in contexts:
        made.close()
    assert complaints == []


@pytest.fixture
def picture(tmp_path: Path) -> Callable[[Any, str], Path]:
    """Return a function that takes a screenshot; WEIR_SCREENSHOTS names a folder to keep them."""
    folder = Path(os.environ.get("WEIR_SCREENSHOTS", tmp_path))

    def take(page: Any, name: str) -> Path:
        path = folder / f"dashboard-{name}.png"
        page.screenshot(path=path, full_page=True)
        return path

    return take
