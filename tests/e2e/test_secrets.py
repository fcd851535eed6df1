"""An exception planted at any layer never reaches the client, REST or the log."""

from __future__ import annotations

import json
import logging
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

import curator.mechanisms.dp_sinkhorn as dp_sinkhorn
import curator.rest.app as rest_app
import curator.rpc.codec as codec
import curator.rpc.servicer as servicer
import curator.sanitizer.clipped as clipped
import curator.service.answer_step as release_gradient
from analyst.errors import AnalystError
from curator.data.sampling import PrivateRecords
from curator.ledger.sql_ledger import SqlLedger
from curator.sanitizer.entropy import OsEntropy
from curator.sanitizer.prefetched import PrefetchedNoise
from curator.telemetry.log import JsonFormatter
from tests.e2e.conftest import OVER_BOTH_WIRES, SINKHORN, Local, batch, token

pytestmark = pytest.mark.e2e

SECRET = "patient-17-has-norm-3.21"


def planted(*_: Any, **__: Any) -> Any:
    raise RuntimeError(SECRET)


class Capture(logging.Handler):
    """Everything that any logger says, as the production formatter writes it."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.text = ""
        self.setFormatter(JsonFormatter())

    def emit(self, record: logging.LogRecord) -> None:
        self.text += self.format(record) + "\n"


@pytest.fixture
def log() -> Iterator[Capture]:
    capture = Capture()
    root = logging.getLogger()
    before = root.level
    root.addHandler(capture)
    root.setLevel(logging.INFO)
    yield capture
    root.removeHandler(capture)
    root.setLevel(before)


# (where, what, whether a step is still an ordinary answer)
STEP_PLANTS = [
    (PrivateRecords, "_gather", True),  # after sampling: an empty batch
    (clipped, "truncate", True),  # between sampling and noise: the zero vector
    (clipped, "clip_to_ball", True),
    (PrivateRecords, "poisson_batch", False),
    (dp_sinkhorn.DpSinkhorn, "gradient", False),
    (clipped, "lattice_radius", False),
    (PrefetchedNoise, "discrete_gaussian", False),
    (OsEntropy, "discrete_gaussian", True),  # there is noise that was drawn ahead
    (SqlLedger, "advance_mark", False),
    (codec, "encode_answer", False),
    (codec, "decode_step", False),
    (release_gradient, "_check_order", False),
    (servicer, "release_gradient", False),
    (servicer, "facts_of_run", False),
]


@OVER_BOTH_WIRES
@pytest.mark.parametrize(
    ("where", "name", "answers"), STEP_PLANTS, ids=[name for _, name, _ in STEP_PLANTS]
)
def test_a_step(
    local: Local,
    log: Capture,
    monkeypatch: pytest.MonkeyPatch,
    where: Any,
    name: str,
    answers: bool,
) -> None:
    with local.connect() as barrier:
        run = barrier.open_run("digits", "dp-sinkhorn", SINKHORN, num_steps=5)
        monkeypatch.setattr(where, name, planted)
        if answers:
            assert run.gradient(*batch())[:10].std() > 0.1
        else:
            with pytest.raises(AnalystError) as caught:
                run.gradient(*batch())
            words = f"{caught.value!s}{caught.value!r}{caught.value.__dict__}"
            assert SECRET not in words
            assert "could not be served" in words
        monkeypatch.undo()
    assert SECRET not in log.text


@pytest.mark.parametrize("name", ["open_run", "Planner.plan", "report_budget", "list_datasets"])
def test_other_calls(
    local: Local, log: Capture, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(f"curator.rpc.servicer.{name}", planted)
    with local.connect() as barrier:
        calls = {
            "open_run": lambda: barrier.open_run("digits", "dp-sinkhorn", SINKHORN, num_steps=1),
            "Planner.plan": lambda: barrier.plan("digits", "dp-sinkhorn", SINKHORN, num_steps=1),
            "report_budget": lambda: barrier.budget("digits"),
            "list_datasets": barrier.datasets,
        }
        with pytest.raises(AnalystError) as caught:
            calls[name]()
    assert SECRET not in str(caught.value) + log.text


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("report_budget", "/v1/datasets/digits/budget"),
        ("list_datasets", "/v1/datasets"),
        ("page_of_runs", "/v1/runs"),
    ],
)
def test_rest(
    local: Local, log: Capture, monkeypatch: pytest.MonkeyPatch, name: str, path: str
) -> None:
    monkeypatch.setattr(rest_app, name, planted)
    status, body = get(local, path)
    assert status == 500
    assert json.loads(body)["reason"] == "INTERNAL"
    assert SECRET not in body + log.text


def get(local: Local, path: str, *, name: str | None = "alice") -> tuple[int, str]:
    """Ask the REST API over TLS."""
    request = urllib.request.Request(f"https://localhost:{local.curator.rest.port}{path}")
    if name is not None:
        request.add_header("Authorization", f"Bearer {token(local.folder, name)}")
    tls = ssl.create_default_context(cafile=str(local.folder.identity / "ca.pem"))
    try:
        with urllib.request.urlopen(request, context=tls, timeout=20) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


class TestRest:
    def test_the_budget_before_and_after(self, local: Local) -> None:
        status, body = get(local, "/v1/datasets/digits/budget")
        assert status == 200
        answer = json.loads(body)
        assert answer["adjacency"] == "add-or-remove-one-record"
        assert answer["unit"] == "record"
        assert answer["epsilon"] == {
            "registered": 10.0,
            "budget": 10.0,
            "spent": 0.0,
            "reserved": 0.0,
            "remaining": 10.0,
        }
        assert answer["delta"] == {"budget": 1e-4, "spent": 0.0, "remaining": 1e-4}
        assert answer["open_runs"] == []
        with local.connect() as barrier:
            run = barrier.open_run("digits", "dp-sinkhorn", SINKHORN, num_steps=40)
            run.gradient(*batch())
            answer = json.loads(get(local, "/v1/datasets/digits/budget")[1])
            spent, reserved = answer["epsilon"]["spent"], answer["epsilon"]["reserved"]
            assert 0 < spent < reserved < 10
            (shown,) = answer["open_runs"]
            assert shown["run_id"] == run.run_id
            assert 1 <= shown["steps_used"] <= 8
            assert shown["steps_reserved"] == 40
            run.close()
        answer = json.loads(get(local, "/v1/datasets/digits/budget")[1])
        assert answer["epsilon"]["reserved"] == answer["epsilon"]["spent"] < reserved
        assert answer["open_runs"] == []

    def test_runs_are_shown_to_their_owner_and_the_steward(self, local: Local) -> None:
        with local.connect() as barrier:
            run = barrier.open_run("digits", "dp-sinkhorn", SINKHORN, num_steps=2)
        assert [one["run_id"] for one in json.loads(get(local, "/v1/runs")[1])] == [run.run_id]
        assert get(local, "/v1/runs", name="bob") == (200, "[]")
        assert get(local, f"/v1/runs/{run.run_id}")[0] == 200
        hidden = get(local, f"/v1/runs/{run.run_id}", name="bob")
        missing = get(local, "/v1/runs/" + "0" * 32, name="bob")
        assert hidden[0] == missing[0] == 404
        words = [json.loads(body) | {"instance": ""} for _, body in (hidden, missing)]
        assert words[0] == words[1]

    @pytest.mark.parametrize("path", ["/v1/datasets", "/v1/runs", "/v1/datasets/x/budget"])
    def test_nobody_asks_without_a_token(self, local: Local, path: str) -> None:
        status, body = get(local, path, name=None)
        assert status == 401
        assert "credentials" in body

    def test_unknown_things_and_health(self, local: Local) -> None:
        assert get(local, "/v1/datasets/nothing/budget")[0] == 404
        assert get(local, "/nothing")[0] == 404
        assert get(local, "/healthz", name=None)[0] == 200
        assert get(local, "/readyz", name=None)[0] == 200
        schema = json.loads(get(local, "/openapi.json", name=None)[1])
        assert {"/v1/datasets", "/v1/runs/{run_id}"} <= set(schema["paths"])
