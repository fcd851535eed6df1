"""axe-core finds nothing serious; WEIR_AXE names its axe.min.js (npm install axe-core)."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.browser.conftest import Open
from tests.browser.scenes import Scene, Served, empty, exhausted, rehearsing, working
from tests.browser.test_dashboard import Serve, sign_in

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def axe() -> str:
    path = Path(os.environ.get("WEIR_AXE", "node_modules/axe-core/axe.min.js"))
    if not path.exists():
        pytest.skip("axe-core is not here: npm install axe-core, or set WEIR_AXE")
    return path.read_text()


def findings(page: Any, axe: str) -> list[str]:
    """Return what axe finds in its strictest set of rules; the page's own policy stays."""
    page.evaluate(axe)  # by the debugger, which no policy of a page holds back
    found = page.evaluate("axe.run()")["violations"]
    return [f"{one['impact']}: {one['id']} at {one['nodes'][0]['html']}" for one in found]


@pytest.mark.parametrize("color_scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 375])
@pytest.mark.parametrize("make", [working, empty, exhausted, rehearsing])
def test_the_dashboard(
    scene: Serve,
    page: Open,
    axe: str,
    make: Callable[[], Scene],
    width: int,
    color_scheme: str,
) -> None:
    served: Served = scene(make)
    shown = page(served, color_scheme=color_scheme, viewport={"width": width, "height": 800})
    sign_in(shown, served, "steward")
    shown.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
    assert findings(shown, axe) == []


@pytest.mark.parametrize("color_scheme", ["light", "dark"])
def test_the_form(scene: Serve, page: Open, axe: str, color_scheme: str) -> None:
    served = scene(empty)
    shown = page(served, color_scheme=color_scheme)
    shown.goto("/sign-in")
    assert findings(shown, axe) == []
    shown.get_by_label("Token").fill("wrong")
    shown.get_by_role("button", name="Sign in").click()
    shown.get_by_role("alert").wait_for()
    assert findings(shown, axe) == []
