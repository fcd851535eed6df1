"""The command prints a table or JSON and fails when a claim does not stand."""

from __future__ import annotations

import json
from typing import Any

import pytest

from audit import CANARIES, TARGETS, report
from audit.game import Check, Result
from audit.playback import Playback
from audit.same_randomness import Comparison
from curator.cli import ExitCode, main


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Replace the games by answers that a test chooses."""
    chosen: dict[str, Any] = {"lower_bound": 0.5, "same_words": True, "same_replies": True}

    def play(target: Any, pair: Any, rules: Any, **_: Any) -> Result:
        chosen.setdefault("errors", []).append(rules.error)
        return Result(
            mechanism=target.name,
            canary=pair.canary,
            trials=rules.trials,
            checks=tuple(
                Check(delta=delta, claim=4.0, lower_bound=chosen["lower_bound"])
                for delta in rules.deltas
            ),
            confidence=1 - rules.error,
            failed_answers=0,
        )

    def compare(target: Any, pair: Any) -> Comparison:
        return Comparison(
            mechanism=target.name,
            canary=pair.canary,
            same_draws=True,
            same_words=chosen["same_words"],
            same_operations=None,
            same_answers=True,
            same_state=None,
            one_part=None,
            squared_difference=1,
            squared_sensitivity=4,
        )

    def play_back(target: Any, pair: Any) -> Playback:
        return Playback(
            mechanism=target.name,
            canary=pair.canary,
            same_charges=True,
            same_releases=True,
            same_replies=chosen["same_replies"],
            same_budget=True,
            one_part=None,
            num_replies=3,
            squared_difference=1,
            squared_sensitivity=4,
        )

    monkeypatch.setattr(report, "play_back", play_back)
    monkeypatch.setattr(report, "play", play)
    monkeypatch.setattr(report, "compare", compare)
    return chosen


def test_every_canary_of_every_mechanism_by_default(
    played: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["audit"]) == ExitCode.OK
    text = capsys.readouterr().out
    assert text.count("2000+2000") == len(TARGETS) * len(CANARIES) - 7  # shards cannot fail
    assert "add-or-remove-one-record" in text
    assert "4.0000 | 4.0000 | 4.0000  0.5000 | 0.5000 | 0.5000" in text
    assert sum(played["errors"]) == pytest.approx(1e-4)  # jointly, over the whole table


@pytest.mark.parametrize(
    "fault", [{"lower_bound": 4.1}, {"same_words": False}, {"same_replies": False}]
)
def test_a_claim_that_does_not_stand_is_an_exit_code(
    played: dict[str, Any], capsys: pytest.CaptureFixture[str], fault: dict[str, Any]
) -> None:
    played |= fault
    command = ["audit", "--canary", "flip", "--mechanism", "dp-sinkhorn", "--trials", "50"]
    assert main(command) == ExitCode.FAILED
    assert "1 of 3 checks contradict a claim" in capsys.readouterr().err


def test_json(played: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", "--canary", "flip", "empty", "--json"]) == ExitCode.OK
    document = json.loads(capsys.readouterr().out)
    assert len(document["games"]) == len(document["same_randomness"]) == 2 * len(TARGETS)
    assert all(one["holds"] for one in document["played_back"])
    assert document["games"][0]["holds"] is True


@pytest.mark.parametrize(
    "wrong",
    [
        ["--trials", "19"],
        ["--delta", "0"],
        ["--delta", "nan"],
        ["--noise-multiplier", "0"],
        ["--noise-multiplier", "nan"],
    ],
)
def test_numbers_out_of_range_are_refused(
    wrong: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["audit", *wrong]) == ExitCode.FAILED
    error = capsys.readouterr().err
    assert error.startswith("curator: ")
    assert "fault of this program" not in error


def test_a_canary_without_a_meaning_is_refused(
    played: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["audit", "--canary", "failing", "--mechanism", "gs-wgan-mean"]
    assert main(command) == ExitCode.FAILED
    assert "makes sense" in capsys.readouterr().err
    assert not played.get("errors")


@pytest.mark.parametrize("option", ["--canary", "--mechanism"])
def test_unknown_names_are_a_usage_error(option: str) -> None:
    assert main(["audit", option, "nobody"]) == ExitCode.USAGE
