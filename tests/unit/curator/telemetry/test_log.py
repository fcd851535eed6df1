"""The log has an allow-list of fields, coarse durations, and no exception text."""

from __future__ import annotations

import json
import logging

import pytest

from curator.telemetry.log import JsonFormatter, duration_bucket, log_request


class Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.setFormatter(JsonFormatter())

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


@pytest.fixture
def lines() -> Lines:
    return Lines()


def logger(lines: Lines) -> logging.Logger:
    made = logging.Logger("curator.test")  # noqa: LOG001 - not registered, so it ends with the test
    made.addHandler(lines)
    return made


def test_one_line_with_the_allowed_fields(lines: Lines) -> None:
    log_request(
        logger(lines), request_id="r", method="/m", caller="alice", outcome="OK", seconds=0.05
    )
    line = json.loads(lines.lines[0])
    assert line.pop("time")
    assert line == {
        "level": "info",
        "event": "request",
        "request_id": "r",
        "method": "/m",
        "caller": "alice",
        "outcome": "OK",
        "duration": "<=0.1s",
    }


def test_exception_text_and_other_fields_are_dropped(lines: Lines) -> None:
    try:
        int("row 17 has norm 3.21")
    except ValueError:
        logger(lines).exception("failed", extra={"norm": 3.21})
    assert "row 17" not in lines.lines[0]
    assert "3.21" not in lines.lines[0]


@pytest.mark.parametrize(("seconds", "bucket"), [(0, "<=0.01s"), (0.5, "<=1s"), (99, ">10s")])
def test_durations_are_buckets(seconds: float, bucket: str) -> None:
    assert duration_bucket(seconds) == bucket
