"""Lists of runs and of data sets, as the analyst reads them."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from analyst.cli import ExitCode, main
from analyst.training.run_list import runs_text
from tests.fakes.barrier import FakeBarrier, FakeRunList, FakeRunSummary
from tests.unit.analyst.test_cli import connect_to


def test_one_release_is_not_counted_in_steps() -> None:
    run = FakeRunSummary(run_id="r", is_open=False, num_steps=100, used_steps=100)
    assert "100 of 100 steps" in runs_text(FakeRunList(runs=(run,)))
    text = runs_text(FakeRunList(runs=(replace(run, one_release=True),)))
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
