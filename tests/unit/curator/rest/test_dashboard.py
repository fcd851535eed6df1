"""Whoever asks sees what is theirs, in every way of asking, and hostile texts stay texts."""

from __future__ import annotations

import json
from html.parser import HTMLParser

import pytest

from curator.accounting.events.none import NoEvent
from curator.divergences.backend import Backend, Choice, Verdict
from curator.errors import LedgerUnavailable
from curator.identity.tokens import TokenTable
from curator.ledger.entries import ShareSet, StatusSet
from curator.ledger.ledger import DatasetRegistration, DatasetStatus
from curator.rest.pages import SCRIPT, STYLE
from curator.service.caller import Role
from curator.service.releases_in_progress import InProgress
from curator.service.served_datasets import ServedDataset
from tests.browser.scenes import Scene, rehearsing
from tests.contract.ledger_values import SETUP, opening
from tests.fakes.facts import small_facts
from tests.fakes.http import ask
from tests.unit.curator.rest.conftest import Desk, Signer

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>{{9**9}}</title>"
HTML = {"Accept": "text/html"}


class Tags(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


@pytest.mark.parametrize("path", ["/", "/dashboard"])
@pytest.mark.parametrize(
    ("who", "seen", "hidden"),
    [
        ("alice", ["open_run"], ["closed_run", "bob", "BOBS_REASON"]),
        ("bob", ["closed_run", "BOBS_REASON"], ["open_run", "alice"]),
        ("steward", ["open_run", "closed_run", "BOBS_REASON", "alice", "bob"], []),
        ("auditor", ["open_run", "closed_run", "BOBS_REASON", "alice", "bob"], []),
    ],
)
def test_an_analyst_sees_nothing_of_others(
    desk: Desk, path: str, who: str, seen: list[str], hidden: list[str]
) -> None:
    desk.scene.ledger.decide(ShareSet(dataset="digits", analyst="alice", epsilon=5.0))
    desk.scene.ledger.decide(ShareSet(dataset="digits", analyst="bob", epsilon=4.0))
    reason = type("Bobs", (LedgerUnavailable,), {"reason": "BOBS_REASON"})
    desk.scene.refuse("bob", reason, 1)
    answer = ask(desk.app, path, token=desk.token[who])
    text = answer.text.replace(STYLE, "").replace(SCRIPT, "")
    assert answer.status_code == 200
    for word in seen:
        assert getattr(desk, word, word)[:12] in text
    for word in hidden:
        assert getattr(desk, word, word)[:12] not in text
    digest = desk.scene.ledger.head()[1]
    assert (digest in text) == (who in {"steward", "auditor"})
    total = desk.scene.ledger.statement("digits").spent_epsilon
    assert f"{total:.4f}" in text


@pytest.mark.parametrize(
    ("who", "sees_tenths"), [("alice", False), ("auditor", False), ("steward", True)]
)
def test_a_release_that_is_being_made_shows_time_and_to_the_steward_how_far_it_is(
    desk: Desk, who: str, sees_tenths: bool
) -> None:
    pages = []
    for tenths in (0, 3):
        desk.scene.making[desk.open_run] = InProgress(seconds=83.4, tenths=tenths)
        text = ask(desk.app, "/", token=desk.token[who]).text
        assert "its release has been made for 1 min 23 s" in text
        assert (f"{tenths} of 10 parts" in text) == sees_tenths
        pages.append(text.partition('id="runs"')[2].partition("</section>")[0])
    assert (pages[0] == pages[1]) != sees_tenths  # not a byte of it for anybody else
    assert "its release" not in ask(desk.app, "/", token=desk.token["bob"]).text
    desk.scene.making.clear()
    assert "its release" not in ask(desk.app, "/", token=desk.token[who]).text


@pytest.mark.parametrize(
    ("who", "run", "status"),
    [
        ("bob", "closed_run", 200),
        ("steward", "closed_run", 200),
        ("auditor", "closed_run", 200),
        ("alice", "closed_run", 404),
        ("bob", "open_run", 404),
        ("alice", "open_run", 422),
    ],
)
def test_a_certificate_is_for_those_who_see_the_run(
    desk: Desk, who: str, run: str, status: int
) -> None:
    run_id = getattr(desk, run)
    answer = ask(desk.app, f"/certificates/{run_id}", token=desk.token[who])
    assert answer.status_code == status
    if status == 200:
        assert json.loads(answer.text)["statement"]["run"]["id"] == run_id
        expected = f'attachment; filename="certificate-{run_id}.json"'
        assert answer.headers["Content-Disposition"] == expected
    if status == 404:
        unknown = ask(desk.app, f"/certificates/{'0' * 32}", token=desk.token[who])
        rest = ask(desk.app, f"/v1/runs/{run_id}", token=desk.token[who])
        bodies = [one.json() | {"instance": ""} for one in (answer, unknown, rest)]
        assert bodies[0] == bodies[1] == bodies[2]


def test_a_data_set_that_is_over_has_nothing_left(desk: Desk) -> None:
    left = f"{desk.scene.ledger.statement('digits').remaining_epsilon:.4f}"
    assert f"<dt>Left ε</dt><dd>{left}</dd>" in ask(desk.app, "/", token=desk.token["alice"]).text
    desk.scene.ledger.decide(
        StatusSet(dataset="digits", status=DatasetStatus.ERASED, reason="test")
    )
    assert (
        "<dt>Left ε</dt><dd>none: erased</dd>" in ask(desk.app, "/", token=desk.token["alice"]).text
    )


@pytest.mark.parametrize("is_open", [True, False])
def test_one_release_is_not_counted_in_steps(desk: Desk, is_open: bool) -> None:
    desk.scene.ledger.open_run(
        opening("made", 777, dataset="digits", setup=SETUP, step=NoEvent()), "h"
    )
    desk.scene.ledger.begin_setup("made", "h", 1)
    if not is_open:
        desk.scene.ledger.close_run("made", "h", 1, 0, "done")
    text = ask(desk.app, "/", token=desk.token["steward"]).text
    assert text.count(">one release<") == 1
    assert "of 777" not in text


def test_hostile_texts_of_the_ledger_stay_texts(desk: Desk) -> None:
    name = HOSTILE[:60]
    facts = small_facts(classes=(HOSTILE[:64], "b", "c")).model_copy(update={"name": name})
    desk.scene.ledger.register_dataset(
        DatasetRegistration(
            name=name,
            budget=facts.budget,
            adjacency=facts.adjacency,
            facts_json=facts.model_dump_json(),
        )
    )
    desk.scene.service.runs.datasets.add(ServedDataset(facts=facts, records=None))
    desk.scene.ledger.decide(ShareSet(dataset=name, analyst=HOSTILE, epsilon=1.0))
    desk.scene.open(name, HOSTILE, 10)
    desk.scene.close(desk.scene.open(name, HOSTILE, 10), HOSTILE)
    desk.scene.refuse(HOSTILE, LedgerUnavailable, 1)
    answer = ask(desk.app, "/", token=desk.token["steward"])
    tags = Tags(answer.text).tags
    assert [tag for tag, _ in tags].count("script") == 1
    assert "img" not in dict(tags)
    assert not [name for _, attributes in tags for name in attributes if name.startswith("on")]
    assert str(9**9) not in answer.text
    assert answer.text.count("&lt;script&gt;alert(1)") >= 6
    metrics = ask(desk.app, "/metrics", token=desk.token["steward"]).text
    assert "alert" not in metrics
    assert 'weir_open_runs{dataset="other"} 1.0' in metrics


def test_nothing_is_loaded_from_anywhere_or_styled_inline(desk: Desk) -> None:
    tags = Tags(ask(desk.app, "/", token=desk.token["steward"]).text).tags
    for _, attributes in tags:
        assert "style" not in attributes
        assert "src" not in attributes
        for name in ("href", "action"):
            assert (attributes.get(name) or "/").startswith(("/", "#", "data:,"))


def test_a_ledger_that_cannot_be_read_is_said_in_words(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        text = "disk /secret/path is full"
        raise LedgerUnavailable(text)

    monkeypatch.setattr(desk.scene.ledger, "entries", fail)
    monkeypatch.setattr(desk.scene.ledger, "datasets", fail)
    answer = ask(desk.app, "/", token=desk.token["alice"], headers=HTML)
    assert answer.status_code == 503
    assert LedgerUnavailable.public_message in answer.text
    assert "secret" not in answer.text
    assert ask(desk.app, "/", token=desk.token["alice"]).json()["reason"] == "LEDGER_UNAVAILABLE"
    metrics = ask(desk.app, "/metrics", token=desk.token["steward"]).text
    assert "weir_ledger_readable 0.0\n" in metrics
    assert "weir_ledger_failures_total 2.0\n" in metrics
    assert "weir_dataset_epsilon_spent" not in metrics


def test_metrics_are_the_ledger_s_numbers(desk: Desk) -> None:
    answer = ask(desk.app, "/metrics", token=desk.token["auditor"])
    statement = desk.scene.ledger.statement("digits")
    for line in (
        f'weir_dataset_epsilon_spent{{dataset="digits"}} {statement.spent_epsilon!r}',
        f'weir_dataset_epsilon_reserved{{dataset="digits"}} {statement.reserved_epsilon!r}',
        'weir_dataset_epsilon_cap{dataset="digits"} 10.0',
        'weir_open_runs{dataset="digits"} 1.0',
        "weir_ready 1.0",
        f"weir_ledger_entries_total {desk.scene.ledger.head()[0]}.0",
    ):
        assert f"\n{line}\n" in answer.text
    for name in ("alice", "bob", desk.open_run):
        assert name not in answer.text


@pytest.mark.parametrize("who", ["alice", "nobody"])
def test_metrics_are_not_for_analysts(desk: Desk, who: str) -> None:
    answer = ask(desk.app, "/metrics", token=desk.token.get(who))
    assert answer.status_code == (403 if who == "alice" else 401)


def test_paths_and_methods_from_outside_are_not_counted_by_name(desk: Desk) -> None:
    for path in ("/one/<b>", "/two", "/v1/runs/" + "f" * 32):
        ask(desk.app, path, token=desk.token["alice"])
    ask(desk.app, "/", method="ODDITY")
    text = ask(desk.app, "/metrics", token=desk.token["steward"]).text
    assert 'weir_requests_total{method="REST GET other",outcome="404"} 2.0' in text
    assert 'weir_requests_total{method="REST GET /v1/runs/{run_id}",outcome="404"} 1.0' in text
    assert "ODDITY" not in text


@pytest.mark.parametrize("path", ["/docs", "/redoc"])
def test_no_page_of_this_origin_runs_scripts_from_elsewhere(desk: Desk, path: str) -> None:
    assert ask(desk.app, path).status_code == 404


def test_a_rehearsal_is_marked_and_shows_no_limit(table: TokenTable) -> None:
    scene = rehearsing()
    app = scene.app(table, Signer())
    token = table.add("steward", Role.STEWARD)
    page = ask(app, "/dashboard", token=token, headers={"Accept": "text/html"}).text
    assert "<strong>Rehearsal.</strong>" in page
    assert page.count("no limit") == 3
    assert 'role="meter"' not in page
    assert "1000000" not in page
    facts = ask(app, "/v1/datasets/rehearsal-digits", token=token).json()
    assert facts["rehearsal"] is True
    assert ask(app, "/v1/datasets/rehearsal-digits/budget", token=token).json()["rehearsal"] is True


def test_private_data_are_no_rehearsal(desk: Desk) -> None:
    page = ask(desk.app, "/dashboard", token=desk.token["steward"]).text
    assert "ehearsal" not in page.partition("</style>")[2]


@pytest.mark.parametrize("who", ["alice", "steward", "auditor"])
def test_a_refused_body_stands_in_the_health_card(table: TokenTable, who: str) -> None:
    cause = "OSError: /home/steward: a path for the terminal alone"
    refusal = Verdict(error=0.02, allowed=1e-3, reason="its gradients differ", cause=cause)
    choice = Choice(
        body=Backend.TORCH,
        verdict=Verdict(error=4e-5, allowed=1e-3),
        refused=Backend.NUMBA,
        refusal=refusal,
    )
    app = Scene("digits").app(table, Signer(), choice)
    role = {"alice": Role.ANALYST, "steward": Role.STEWARD, "auditor": Role.AUDITOR}[who]
    text = ask(app, "/", token=table.add(who, role)).text
    assert "torch (error 4.0e-05; numba is not used: its gradients differ)" in text
    assert "look at it" in text
    assert "/home" not in text


def test_a_body_that_serves_stands_in_the_health_card(table: TokenTable) -> None:
    choice = Choice(body=Backend.NUMBA, verdict=Verdict(error=7e-5, allowed=1e-3))
    app = Scene("digits").app(table, Signer(), choice)
    text = ask(app, "/", token=table.add("alice", Role.ANALYST)).text
    assert "numba (error 7.0e-05)" in text
    assert "look at it" not in text
