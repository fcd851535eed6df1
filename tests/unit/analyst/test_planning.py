"""A plan as it is printed, drawn and handed to programs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from analyst.cli import ExitCode, main
from analyst.facts import Over, PlanQuestion, Share
from analyst.recipes import load_recipe
from analyst.reports.budgets import statement, statement_json, what_is_left
from analyst.reports.plans import PlanReport, make_plan
from analyst.reports.plots import plot_plan
from analyst.screen import table_text
from curator.cli.screen import table_lines
from tests.fakes.barrier import FakeBarrier, FakeDataset
from tests.unit.analyst.test_cli import connect_to

PLAN = ["plan", "--curator", "localhost:1", "--insecure-loopback", "--recipe", "dp-sinkhorn-digits"]


@pytest.fixture
def barrier() -> FakeBarrier:
    return FakeBarrier(FakeDataset(epsilon=6.0))


def report(barrier: FakeBarrier, question: PlanQuestion) -> PlanReport:
    return make_plan(barrier, load_recipe("dp-sinkhorn-digits"), question)


def test_steps_and_an_epsilon_ask_for_the_noise(
    barrier: FakeBarrier, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = [*PLAN, "--for-steps", "4", "--for-epsilon", "2"]
    assert main(argv, connect=connect_to(barrier)) == ExitCode.OK
    text = capsys.readouterr().out
    assert "up to epsilon 2, 4 steps with noise_multiplier 2: epsilon 4.0000" in text
    assert text.splitlines()[6].split() == ["2", "1", "1.0000", "yes"]


def test_what_does_not_fit_is_told_with_the_advice(barrier: FakeBarrier) -> None:
    text = report(barrier, PlanQuestion(num_steps=9)).text()
    assert "does not fit" in text
    assert "note: it would be refused" in text
    assert "alone" not in text
    assert "9.0000 alone" in report(barrier, PlanQuestion(num_steps=9, alone=True)).text()


def test_a_share_is_told_before_the_answer(barrier: FakeBarrier) -> None:
    barrier.share = Share(epsilon=4.0, spent=1.0, reserved=1.5, remaining=2.5)
    line = report(barrier, PlanQuestion(num_steps=2)).text().splitlines()[1]
    assert line == (
        "your share  epsilon 4: 1.0000 spent, 1.5000 with your open runs, 2.5000 left (counted "
        "alone, so not a part of the total)"
    )
    assert line in statement(barrier.budget("digits"))
    assert statement_json(barrier.budget("digits"))["your_share"]["reserved"] == 1.5


@pytest.mark.parametrize("status", ["retired", "erased"])
@pytest.mark.parametrize("name", ["digits", "rehearsal-digits"])
def test_what_is_over_has_nothing_left(status: str, name: str) -> None:
    budget = replace(FakeBarrier(FakeDataset(name=name)).budget(name), status=status)
    text = statement(budget)
    assert "remaining   nothing" in text
    assert f"the data set is {status}" in text
    assert "100.0000" not in text
    assert what_is_left(budget) == status
    paused = replace(budget, status="paused")
    assert "remaining   epsilon 100.0000" in statement(paused)
    assert what_is_left(paused) == "100.0000 left"


def test_a_noise_that_no_row_changes_is_named(barrier: FakeBarrier) -> None:
    recipe = load_recipe("dp-merf-ae-digits", {"mechanism.training_noise_multiplier": 1.75})
    text = make_plan(barrier, recipe, PlanQuestion()).text()
    assert "fixed       training_noise_multiplier 1.75; the noise below is noise_multiplier" in text
    assert "fixed" not in report(barrier, PlanQuestion()).text()


def test_programs_get_one_object_with_the_same_numbers(
    barrier: FakeBarrier, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = [*PLAN, "--for-steps", "9", "--json", "--points", "3"]
    assert main(argv, connect=connect_to(barrier)) == ExitCode.OK
    value = json.loads(capsys.readouterr().out)
    assert (value["num_steps"], value["fits"], value["epsilon_alone"]) == (9, False, None)
    assert value["advice"] == ["it would be refused"]
    assert [row["num_steps"] for row in value["points"]] == [1, 2, 3]
    assert main([*PLAN[:1], *PLAN[1:4], "--recipe", "embedding-digits", "--json"],
                connect=connect_to(barrier)) == ExitCode.OK  # fmt: skip
    assert json.loads(capsys.readouterr().out)["mechanism"] == "mean-embedding"


@pytest.mark.parametrize("over", ["steps", "epsilon", "noise"])
def test_bars_are_as_long_as_the_numbers_are_large(barrier: FakeBarrier, over: Over) -> None:
    question = PlanQuestion(num_steps=6, over=over, points=6)
    text = plot_plan(report(barrier, question), "-")
    bars = [line.count("#") for line in text.splitlines() if "|" in line]
    assert len(bars) == 6
    assert bars == sorted(bars)
    assert bars[-1] == 50


@pytest.mark.parametrize(
    ("name", "start"),
    [("a/plan.png", b"\x89PNG"), ("plan.svg", b"<?xml"), ("plan.pdf", b"%PDF"),
     ("plan.html", b"<!doctype html>")],
)  # fmt: skip
def test_a_plot_in_a_file(
    barrier: FakeBarrier, tmp_path: Path, name: str, start: bytes,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    path = tmp_path / name
    argv = [*PLAN, "--for-steps", "9", "--plot", str(path)]
    assert main(argv, connect=connect_to(barrier)) == ExitCode.OK
    assert f"wrote {path}" in capsys.readouterr().out
    assert path.read_bytes().startswith(start)
    if path.suffix == ".html":
        assert "<svg" in path.read_text()
        assert "does not fit" in path.read_text()


def test_a_plot_of_an_unknown_kind_is_refused_before_anything_is_asked(
    barrier: FakeBarrier, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = [*PLAN, "--plot", "plan.gif"]
    assert main(argv, connect=connect_to(barrier)) == ExitCode.FILES
    assert "ends in .png" in capsys.readouterr().err


def test_a_rehearsal_is_never_shown_as_a_promise() -> None:
    barrier = FakeBarrier(FakeDataset(name="rehearsal-digits", epsilon=1e6))
    budget = barrier.budget("rehearsal-digits")
    text = statement(budget) + report(barrier, PlanQuestion(num_steps=9)).text()
    assert text.count("*** REHEARSAL ***") == 4
    assert "no limit" in text
    assert "differential privacy" not in text
    assert statement_json(budget)["rehearsal"] is True


@pytest.mark.parametrize(
    "argv",
    [
        ["budget", *PLAN[1:4]],
        ["recipes"],
        ["recipes", "embedding-digits"],
    ],
)
def test_json_is_all_that_is_printed(
    barrier: FakeBarrier, capsys: pytest.CaptureFixture[str], argv: list[str]
) -> None:
    assert main([*argv, "--json"], connect=connect_to(barrier)) == ExitCode.OK
    out, err = capsys.readouterr()
    assert json.loads(out)
    assert not err


def test_training_can_be_quiet_and_answer_in_json(
    barrier: FakeBarrier, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small = [
        "--generator-width",
        "8",
        "--mechanism-num-samples",
        "20",
        "--mechanism-num-debias",
        "4",
    ]
    train = ["train", *PLAN[1:], *small, "--out", str(tmp_path / "run"), "--quiet", "--json"]
    assert main(train, connect=connect_to(barrier)) == ExitCode.OK
    out, err = capsys.readouterr()
    value = json.loads(out)
    assert (value["outcome"], value["num_updates"], value["num_steps"]) == ("completed", 6, 6)
    assert not err
    sample = ["sample", "--out-of", str(tmp_path / "run"), "--count", "10"]
    assert main([*sample, "--out", str(tmp_path / "s.npz"), "--json", "--quiet"]) == ExitCode.OK
    out, err = capsys.readouterr()
    assert json.loads(out)["num_images"] == 10
    assert not err


@pytest.mark.parametrize("program", ["analyst", "curator"])
def test_a_table_has_lines_on_a_terminal_and_none_in_a_file(
    program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    heads, rows = ("steps", "fits"), [("12", "yes"), ("1,000", "no")]

    def made() -> list[str]:
        if program == "analyst":
            return table_text(heads, rows).split("\n")
        return table_lines(heads, rows)

    assert made() == ["steps  fits", "   12   yes", "1,000    no"]
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    drawn = "\n".join(made())
    assert "─" in drawn
    assert "1,000" in drawn
