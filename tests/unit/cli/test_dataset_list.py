"""What a list of data sets says of each, and what can still be decided about one that is gone."""

from __future__ import annotations

import json
from pathlib import Path
from shutil import copytree

import pytest

from curator.cli import ExitCode, main


@pytest.fixture
def weir(folder: Path, tmp_path: Path) -> Path:
    return Path(copytree(folder / "weir", tmp_path / "weir"))


def listed(weir: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    capsys.readouterr()
    assert main(["dataset", "list", "--dir", str(weir)]) == 0
    return capsys.readouterr().out.splitlines()


def decide(weir: Path, *command: str) -> int:
    return main(["dataset", *command, "--dir", str(weir), "--quiet"])


def test_each_data_set_is_listed_with_its_state(
    weir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = listed(weir, capsys)
    assert lines[0] == "cats: in service"
    assert lines[1:] == [
        "  guarantee  budget (10, 1e-05), add-or-remove-one-record",
        "  images     1x8x8, 3 classes: 0, 1, 2",
        "  sampling   rate at most 0.5 of nominally 4, capacity 8",
        "  policy     no rules",
    ]
    why = ["--reason", "a test"]
    assert decide(weir, "pause", "cats", *why) == 0
    assert listed(weir, capsys)[0].startswith("cats: paused: runs stay open")
    assert decide(weir, "resume", "cats", *why) == 0
    (weir / "datasets" / "cats" / "levels.npy").unlink()
    gone = listed(weir, capsys)[0]
    assert gone.startswith("cats: out of service: ")
    assert gone.endswith("restore it from a backup")
    assert decide(weir, "retire", "cats", *why, "--confirm", "cats") == 0
    assert listed(weir, capsys)[0].startswith("cats: retired: ")
    assert decide(weir, "erase", "cats", *why, "--confirm", "cats") == 0
    assert listed(weir, capsys)[0] == "cats: erased: the images are gone, and the ledger stays"
    assert main(["dataset", "list", "--dir", str(weir), "--json"]) == 0
    (told,) = json.loads(capsys.readouterr().out)
    assert (told["status"], told["in_service"]) == ("erased", False)
    assert (told["dataset"], told["classes"]) == ("cats", ["0", "1", "2"])


def test_an_empty_list_says_how_it_is_filled(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["init", str(tmp_path / "weir"), "--quiet"]) == 0
    (line,) = listed(tmp_path / "weir", capsys)
    assert line == "no data set yet: curator dataset add NAME SOURCE ..."


@pytest.mark.parametrize("end", ["retire", "erase"])
@pytest.mark.parametrize(
    "command",
    [
        ["share", "cats", "alice", "--epsilon", "1"],
        ["cap", "cats", "--epsilon", "1", "--reason", "a test"],
        ["policy", "cats", "--set", "max_steps=3"],
    ],
    ids=lambda command: command[0],
)
def test_nothing_is_allowed_on_a_data_set_that_is_gone(
    weir: Path, capsys: pytest.CaptureFixture[str], end: str, command: list[str]
) -> None:
    assert main(["analyst", "add", "alice", "--dir", str(weir), "--quiet"]) == 0
    assert decide(weir, end, "cats", "--reason", "a test", "--confirm", "cats") == 0
    assert main(["ledger", "show", "--dir", str(weir), "--json"]) == 0
    before = json.loads(capsys.readouterr().out)["head"]
    assert decide(weir, *command) == ExitCode.FAILED
    words = f"'cats' is {end.rstrip('e')}ed for ever: nothing can be allowed or forbidden on it"
    assert words in capsys.readouterr().err
    assert main(["ledger", "show", "--dir", str(weir), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["head"] == before


@pytest.mark.parametrize("command", ["erase", "retire"])
def test_what_is_to_be_typed_again_is_said(
    weir: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    assert decide(weir, command, "cats", "--reason", "a test", "--confirm", "cat") != 0
    error = capsys.readouterr().err
    assert "add --confirm cats; 'cat' is not the name of the data set again" in error
    assert listed(weir, capsys)[0] == "cats: in service"


@pytest.mark.parametrize(
    "command",
    ["dataset list", "dataset policy cats", "budget", "ledger show", "analyst list", "analyst log",
     "key", "dataset check SET", "plan cats RECIPE"],
)  # fmt: skip
def test_people_read_no_json(
    folder: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    words = command.replace("SET", str(folder / "set.npz"))
    argv = words.replace("RECIPE", str(folder / "recipe.toml")).split()
    at = [] if "check" in argv else ["--dir", str(folder / "weir")]
    assert main([*argv, *at]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines
    assert not [line for line in lines if line.lstrip().startswith(("{", "["))]
