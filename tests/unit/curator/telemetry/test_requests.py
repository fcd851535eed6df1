"""A finished request is logged, counted and traced with one request id."""

from __future__ import annotations

import json
import logging
import math
from typing import Any

import pytest

from curator.errors import LedgerUnavailable
from curator.telemetry import names
from curator.telemetry.log import BUCKET_SECONDS, JsonFormatter
from curator.telemetry.requests import FinishedRequest, Telemetry
from curator.telemetry.traces import ATTRIBUTES, trace_to


def finished(**changes: Any) -> FinishedRequest:
    values: dict[str, Any] = {
        "request_id": "0123456789abcdef",
        "method": "/weir.v1.WeirService/Step",
        "caller": "alice",
        "outcome": "OK",
        "seconds": 0.05,
    }
    return FinishedRequest(**(values | changes))


class Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[dict[str, Any]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(json.loads(JsonFormatter().format(record)))


@pytest.fixture
def lines() -> Lines:
    return Lines()


@pytest.fixture
def logger(lines: Lines) -> logging.Logger:
    made = logging.Logger("curator.test")  # noqa: LOG001 - ends with the test
    made.addHandler(lines)
    return made


def values(telemetry: Telemetry, name: str) -> dict[tuple[tuple[str, str], ...], float]:
    return {one.labels: one.value for one in telemetry.samples() if one.name == name}


def test_refusals_are_counted_by_reason_and_caller(logger: logging.Logger) -> None:
    telemetry = Telemetry()
    telemetry.finished(logger, finished())
    for caller in ("alice", "alice", "bob", ""):
        telemetry.finished(logger, finished(caller=caller, outcome="REFUSED", reason="REFUSED"))
    assert telemetry.refusals() == (
        ("", "REFUSED", 1),
        ("alice", "REFUSED", 2),
        ("bob", "REFUSED", 1),
    )
    assert telemetry.refusals("bob") == (("bob", "REFUSED", 1),)
    assert telemetry.refusals("eve") == ()
    assert values(telemetry, names.REFUSALS) == {(("reason", "REFUSED"),): 4}
    requests = values(telemetry, names.REQUESTS)
    assert sorted(requests.values()) == [1, 4]
    assert "alice" not in str(telemetry.samples())


def test_failures_of_the_ledger_are_counted_from_nothing(logger: logging.Logger) -> None:
    telemetry = Telemetry()
    assert values(telemetry, names.LEDGER_FAILURES) == {(): 0}
    reason = LedgerUnavailable.reason
    telemetry.finished(logger, finished(outcome=reason, reason=reason))
    assert values(telemetry, names.LEDGER_FAILURES) == {(): 1}


@pytest.mark.parametrize("seconds", [0.05, 99.0])
def test_log_and_trace_tell_the_same_and_no_more(
    logger: logging.Logger, lines: Lines, seconds: float
) -> None:
    pytest.importorskip("opentelemetry.sdk", reason="the extra otel is not installed")
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter = InMemorySpanExporter()
    telemetry = Telemetry(trace_to(SimpleSpanProcessor(exporter)))
    telemetry.finished(logger, finished(seconds=seconds))
    (line,), (span,) = lines.lines, exporter.get_finished_spans()
    told = dict(span.attributes or {})
    assert tuple(told) == ATTRIBUTES
    assert told == {name: line[name.removeprefix("weir.")] for name in ATTRIBUTES}
    assert line["request_id"] == "0123456789abcdef"
    assert dict(span.resource.attributes) == {"service.name": "weir-curator"}
    assert span.start_time is not None
    assert span.end_time is not None
    lasted = (span.end_time - span.start_time) / 1e9
    assert any(math.isclose(lasted, bound) for bound in BUCKET_SECONDS)
