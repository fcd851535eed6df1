"""The dashboard in a real Chromium: signing in, looking, without scripts, by keyboard, narrow."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from curator.ledger.entries import StatusSet
from curator.ledger.ledger import DatasetStatus
from tests.browser.conftest import Open
from tests.browser.scenes import Scene, Served, empty, exhausted, rehearsing, working

pytestmark = pytest.mark.e2e

Serve = Callable[[Callable[[], Scene]], Served]
Picture = Callable[[Any, str], Path]
SIGNATURE = b"\x89PNG"


def sign_in(page: Any, served: Served, name: str) -> None:
    page.goto("/")
    page.get_by_label("Token").fill(served.token[name])
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("heading", name="Privacy budgets").wait_for()


@pytest.mark.parametrize(
    ("name", "make", "options"),
    [
        ("light", working, {"color_scheme": "light"}),
        ("dark", working, {"color_scheme": "dark"}),
        ("narrow", working, {"color_scheme": "light", "viewport": {"width": 375, "height": 800}}),
        ("empty", empty, {"color_scheme": "light"}),
        ("exhausted", exhausted, {"color_scheme": "light"}),
        ("rehearsal", rehearsing, {"color_scheme": "light"}),
    ],
)
def test_it_fits_the_screen(
    scene: Serve,
    page: Open,
    picture: Picture,
    name: str,
    make: Callable[[], Scene],
    options: dict[str, Any],
) -> None:
    served = scene(make)
    shown = page(served, **options)
    sign_in(shown, served, "steward")
    wide = shown.evaluate("document.documentElement.scrollWidth - innerWidth")
    assert wide <= 0
    assert picture(shown, name).read_bytes()[:4] == SIGNATURE


def test_an_analyst_sees_own_runs_only(scene: Serve, page: Open, picture: Picture) -> None:
    served = scene(working)
    shown = page(served)
    sign_in(shown, served, "bob")
    text = shown.inner_text("main")
    assert "alice" not in text
    assert "STEP_OUT_OF_ORDER" not in text
    assert "PRIVACY_BUDGET_EXHAUSTED" in text
    assert shown.get_by_role("meter").count() == 2
    picture(shown, "analyst")


def test_numbers_need_no_script(scene: Serve, page: Open) -> None:
    served = scene(working)
    shown = page(served, java_script_enabled=False)
    sign_in(shown, served, "steward")
    spent = served.service.runs.ledger.statement("digits").spent_epsilon
    assert f"{spent:.4f}" in shown.inner_text("main")
    assert shown.locator("progress").count() == 2
    assert not shown.locator("#refresh").is_visible()


def test_a_certificate_is_downloaded(scene: Serve, page: Open) -> None:
    served = scene(working)
    shown = page(served)
    sign_in(shown, served, "alice")
    with shown.expect_download() as downloaded:
        shown.get_by_role("link", name="Download").first.click()
    name = downloaded.value.suggested_filename
    assert name.startswith("certificate-")
    assert '"signature"' in Path(downloaded.value.path()).read_text()


def test_signing_out_and_revoking_end_the_session(scene: Serve, page: Open) -> None:
    served = scene(empty)
    shown = page(served)
    sign_in(shown, served, "alice")
    (cookie,) = shown.context.cookies()
    assert (cookie["httpOnly"], cookie["secure"], cookie["sameSite"]) == (True, True, "Strict")
    shown.get_by_role("button", name="Sign out").click()
    shown.get_by_label("Token").wait_for()
    assert shown.context.cookies() == []
    shown.context.add_cookies([cookie])  # what was kept of it opens nothing
    shown.goto("/")
    shown.get_by_label("Token").wait_for()
    sign_in(shown, served, "alice")
    served.tokens.revoke("alice")
    shown.reload()
    shown.get_by_label("Token").fill(served.token["alice"])
    shown.get_by_role("button", name="Sign in").click()
    assert "missing or not valid" in shown.get_by_role("alert").inner_text()


def test_another_site_cannot_sign_in_or_out(scene: Serve, page: Open) -> None:
    served, elsewhere = scene(empty), scene(empty)
    shown = page(served, may_complain=True)
    sign_in(shown, served, "alice")
    for path in ("/sign-in", "/sign-out"):
        shown.goto(served.address.replace("localhost", "127.0.0.1") + "/sign-in")
        answer = shown.evaluate(
            "url => fetch(url, {method: 'POST', mode: 'no-cors', credentials: 'include',"
            " body: new URLSearchParams({token: 'x'})}).then(() => 'sent', () => 'stopped')",
            served.address + path,
        )
        assert answer == "stopped"  # the policy of the page; a page without one is refused below
    shown.route("**/elsewhere", lambda route: route.fulfill(content_type="text/html", body="x"))
    shown.goto(elsewhere.address.replace("localhost", "127.0.0.1") + "/elsewhere")
    with shown.expect_navigation(url="**/sign-out") as answered:
        shown.evaluate(
            "url => { const f = document.createElement('form'); f.method = 'post';"
            " f.action = url; document.body.append(f); f.submit(); }",
            served.address + "/sign-out",
        )
    assert answered.value.status == 403
    shown.goto("/")
    shown.get_by_role("heading", name="Privacy budgets").wait_for()


def test_it_is_walked_by_keyboard(scene: Serve, page: Open) -> None:
    served = scene(working)
    shown = page(served)
    sign_in(shown, served, "steward")
    shown.keyboard.press("Tab")
    assert shown.evaluate("document.activeElement.className") == "skip"
    assert shown.locator(".skip").bounding_box()["x"] >= 0
    shown.keyboard.press("Enter")
    assert shown.evaluate("document.activeElement.id") == "main"
    shown.keyboard.press("Tab")
    shown.keyboard.press("Enter")
    assert shown.locator("#course-1").get_attribute("open") is not None


def test_a_refresh_keeps_what_was_opened(scene: Serve, page: Open) -> None:
    served = scene(working)
    shown = page(served)
    shown.clock.install()
    sign_in(shown, served, "steward")
    shown.locator("#facts-1 summary").click()
    served.service.runs.ledger.decide(
        StatusSet(dataset="digits", status=DatasetStatus.PAUSED, reason="test")
    )
    shown.clock.run_for(16_000)
    shown.get_by_text("paused").wait_for()
    assert shown.locator("#facts-1").get_attribute("open") is not None
    assert shown.evaluate("document.activeElement.closest('details').id") == "facts-1"
