"""The log is told public numbers, now and then."""

from __future__ import annotations

import logging

import pytest

from curator.divergences.progress import told


def test_how_far_a_preparation_is(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter(range(0, 100, 4))
    monkeypatch.setattr("curator.divergences.progress.time.monotonic", lambda: float(next(clock)))
    with caplog.at_level(logging.INFO):
        assert list(told(range(5, 15))) == list(range(5, 15))
    assert caplog.messages
    assert all(message.endswith("of 10") for message in caplog.messages)
    assert "critics: update 2 of 10" in caplog.messages
