"""What a steward mistypes is told in the words of the steward's commands."""

from __future__ import annotations

from pathlib import Path

import pytest

from curator.cli import ExitCode, main
from curator.privacy.budget import MAX_DELTA, MAX_EPSILON, MIN_DELTA
from tests.unit.cli.conftest import ADD


def test_a_share_needs_an_analyst_that_there_is(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    at = ["--dir", str(folder / "weir")]
    assert main(["analyst", "add", "iris", *at, "--role", "auditor"]) == 0
    for name in ("alcie", "iris"):
        assert main(["dataset", "share", "cats", name, *at, "--epsilon", "4"]) != 0
        assert f"there is no analyst '{name}'" in capsys.readouterr().err


def test_a_share_above_the_budget_is_told_with_the_budget(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    at = ["--dir", str(folder / "weir")]
    assert main(["analyst", "add", "nora", *at]) == 0
    assert main(["dataset", "share", "cats", "nora", *at, "--epsilon", "11"]) != 0
    assert "at most the data set's budget of 10" in capsys.readouterr().err


def test_a_plan_needs_an_analyst_that_there_is(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe, at = str(folder / "recipe.toml"), ["--dir", str(folder / "weir")]
    assert main(["plan", "cats", recipe, *at, "--analyst", "alicia"]) == ExitCode.FAILED
    assert "there is no analyst 'alicia'; 'curator analyst list'" in capsys.readouterr().err
    assert main(["analyst", "add", "judy", *at]) == 0
    assert main(["plan", "cats", recipe, *at, "--analyst", "judy", "--for-steps", "3"]) == 0
    assert "asked       3 steps" in capsys.readouterr().out


def test_a_recipe_that_a_data_set_was_not_declared_for_is_changed_in_its_file(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe, at = folder / "greedy.toml", ["--dir", str(folder / "weir")]
    told = (folder / "recipe.toml").read_text()
    recipe.write_text(told.replace("expected_batch_size = 2", "expected_batch_size = 3"))
    assert main(["plan", "cats", str(recipe), *at]) == ExitCode.FAILED
    error = capsys.readouterr().err
    assert "mechanism.expected_batch_size may be at most 2 of 4, and is 3" in error
    assert f"Change the key in {recipe}: --set tries rules of the policy here" in error
    changed = ["--set", "mechanism.expected_batch_size=2"]
    assert main(["plan", "cats", str(recipe), *at, *changed]) == ExitCode.FAILED
    assert "a key of a recipe is changed in its file" in capsys.readouterr().err


@pytest.mark.parametrize(
    "argv",
    [
        ["dataset", "share", "casts", "alice", "--epsilon", "4"],
        ["dataset", "pause", "casts", "--reason", "x"],
        ["dataset", "cap", "casts", "--epsilon", "1", "--reason", "x"],
        ["dataset", "policy", "casts"],
        ["dataset", "policy", "casts", "--set", "max_steps=4"],
        ["plan", "casts", "recipe.toml"],
    ],
    ids=" ".join,
)
def test_a_data_set_that_there_is_not_is_told_to_a_steward(
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    argv: list[str],
) -> None:
    monkeypatch.chdir(folder)
    assert main([*argv, "--dir", "weir"]) == ExitCode.FAILED
    words = "curator: there is no data set 'casts'; 'curator dataset list' shows them\n"
    assert capsys.readouterr().err == words


@pytest.mark.parametrize(
    ("rest", "words"),
    [
        (["share", "cats", "Al Ice", "--epsilon", "1"], "analyst: a name has 1 to 64 lower-case"),
        (["pause", "Cats", "--reason", "x"], "dataset: a name has 1 to 64 lower-case letters,"),
        (["pause", "cats", "--reason", ""], "reason: must not be empty"),
        (["cap", "cats", "--epsilon", "11", "--reason", "x"], "only falls: it is 10 now"),
        (["share", "cats", "alice", "--epsilon", "inf"], "epsilon: must be a finite number"),
        (["policy", "cats", "--set", "max_steps=-5"], "max_steps: must be at least 1"),
        (["policy", "cats", "--set", "max_steps=2.5"], "max_steps: must be a whole number"),
        (["policy", "cats", "--set", "max_sampling_rate=2"], "max_sampling_rate: must be at most"),
        (["policy", "cats", "--set", "max_epsilon_per_run=0"], "max_epsilon_per_run: must be abov"),
    ],
)
def test_what_is_not_valid_is_told_in_plain_words(
    folder: Path, capsys: pytest.CaptureFixture[str], rest: list[str], words: str
) -> None:
    assert main(["dataset", *rest, "--dir", str(folder / "weir")]) == ExitCode.FAILED
    error = capsys.readouterr().err
    assert words in error
    assert "should" not in error


def test_a_misspelt_part_of_a_rule_is_no_rule(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    at = ["--dir", str(folder / "weir")]
    assert main(["dataset", "policy", "cats", *at, "--set", "noise_multiplier=1"]) != 0
    assert "no such rule; there are mechanisms," in capsys.readouterr().err
    for mistyped in (["--set", "max_epsilon_per_rn=2"], ["--clear", "max_epsilon_per_rn"]):
        assert main(["dataset", "policy", "cats", *at, *mistyped]) != 0
        assert "; did you mean max_epsilon_per_run?" in capsys.readouterr().err


def test_a_name_that_is_taken_says_so_first_and_how_to_go_on(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    at = ["--dir", str(folder / "weir")]
    out = tmp_path / "kate.json"
    assert main(["analyst", "add", "kate", *at, "--out", str(out)]) == 0
    capsys.readouterr()
    assert main(["analyst", "add", "kate", *at, "--out", str(out)]) == ExitCode.FAILED
    error = capsys.readouterr().err
    assert "'kate' exists already, as analyst: 'curator analyst rotate kate' replaces" in error
    assert main(["analyst", "revoke", "kate", *at]) == 0
    assert "no longer valid" in capsys.readouterr().out
    assert main(["analyst", "add", "kate", *at]) == ExitCode.FAILED
    error = capsys.readouterr().err
    assert "'kate' was revoked, and the name stays with its runs: " in error
    assert "'curator analyst rotate kate' lets it in again" in error
    assert main(["analyst", "rotate", "kat", *at, "--out", str(out)]) == ExitCode.FAILED
    assert "there is no caller 'kat'" in capsys.readouterr().err


def test_what_the_doctor_finds_is_what_lies_in_the_folder(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    at = ["--dir", str(folder / "weir")]
    assert main(["analyst", "add", "mia", *at]) == 0
    assert "'curator doctor' finds it here until then" in capsys.readouterr().out
    elsewhere = ["--out", str(tmp_path / "mia.json")]
    assert main(["analyst", "rotate", "mia", *at, *elsewhere]) == 0
    assert "'curator doctor' looks in the curator's folder only" in capsys.readouterr().out


def test_the_help_states_what_a_budget_may_be(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dataset", "add", "--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert f"above 0, at most {MAX_EPSILON:g}." in text
    assert f"Above {MIN_DELTA:g}, at most {MAX_DELTA:g}, and far below 1 / number" in text


UNREAD = "患者".encode().decode("ascii", "surrogateescape")  # as a C locale reads an argument


@pytest.mark.parametrize(
    "argv",
    [
        ["dataset", "check", "set.npz", "--classes", f"{UNREAD},x"],
        ["dataset", "add", "dogs", "set.npz", "--dir", "weir", *ADD, "--classes", f"{UNREAD},x,y"],
        ["dataset", "pause", "cats", "--dir", "weir", "--reason", UNREAD],
    ],
    ids=lambda argv: argv[1],
)
def test_letters_that_the_locale_cannot_read_get_words(
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    argv: list[str],
) -> None:
    monkeypatch.chdir(folder)
    assert main(argv) == ExitCode.FAILED
    error = capsys.readouterr().err
    assert "letters that are no text in this locale: set LC_ALL=C.UTF-8" in error
    assert "Input should" not in error


def test_a_second_revoke_changes_and_records_nothing(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    at = ["--dir", str(folder / "weir")]
    assert main(["analyst", "add", "liam", *at]) == 0
    assert main(["analyst", "revoke", "liam", *at]) == 0
    capsys.readouterr()
    assert main(["analyst", "log", *at]) == 0
    recorded = capsys.readouterr().out
    assert "revoke liam" in recorded
    assert main(["analyst", "revoke", "liam", *at]) == 0
    assert capsys.readouterr().out == "liam was revoked before: nothing was changed\n"
    assert main(["analyst", "log", *at]) == 0
    assert capsys.readouterr().out == recorded


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["dataset", "add", "--dir"], "curator dataset add"),
        (["accountant", "explain", "x", "--favour"], "curator accountant explain"),
        (["--dir"], "curator"),
    ],
)
def test_an_option_without_its_argument_names_the_command_s_help(
    capsys: pytest.CaptureFixture[str], argv: list[str], words: str
) -> None:
    assert main(argv) == ExitCode.USAGE
    assert f"read '{words} --help', then type it again" in capsys.readouterr().err
