"""Lists of runs and of data sets, as the analyst reads them."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from analyst.cli import ExitCode, main
from analyst.facts import RunList, RunSummary
from analyst.reports.runs import runs_text
from tests.fakes.barrier import FakeBarrier
from tests.unit.analyst.test_cli import connect_to


def test_one_release_is_not_counted_in_steps() -> None:
    run = RunSummary(
        run_id="r",
        dataset="digits",
        analyst="alice",
        mechanism="counting",
        is_open=False,
        num_steps=100,
        used_steps=100,
        close_reason="closed by the analyst",
        opened_at="2026-01-02T03:04:05.678901+00:00",
        closed_at="2026-01-02T03:04:05.678901+00:00",
    )
    assert "100 of 100 steps" in runs_text(RunList(runs=(run,), num_left_out=0))
    text = runs_text(RunList(runs=(replace(run, one_release=True),), num_left_out=0))
    assert "one release" in text
    assert "100" not in text


def test_a_curator_without_data_sets_says_so_in_words(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    barrier = FakeBarrier()
    monkeypatch.setattr(barrier, "datasets", list)
    argv = ["budget", "--curator", "localhost:1", "--insecure-loopback"]
    assert main(argv, connect=connect_to(barrier)) == ExitCode.OK
    assert capsys.readouterr().out.startswith("no data sets: ")
    assert main([*argv, "--json"], connect=connect_to(barrier)) == ExitCode.OK
    assert json.loads(capsys.readouterr().out) == []
