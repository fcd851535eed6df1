"""The steward's commands for programs and for people: `--json`, `--quiet`, plans under a policy."""

from __future__ import annotations

import json
import re
import stat
from pathlib import Path
from shutil import copytree
from typing import Any

import numpy as np
import pytest

from curator.cli import ExitCode, main
from curator.folder import CuratorFolder
from curator.identity.certificates import fingerprint_of


def answer(capsys: pytest.CaptureFixture[str], *argv: str, code: int = 0) -> Any:
    """Run a command with --json; return the one value that it prints."""
    capsys.readouterr()
    assert main([*argv, "--json"]) == code
    return json.loads(capsys.readouterr().out)


def test_every_decision_answers_in_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    at = ["--dir", str(folder / "weir")]
    why = [*at, "--reason", "a test"]
    answer(capsys, "analyst", "add", "alice", *at)
    for argv in (
        ["dataset", "pause", "cats", *why],
        ["dataset", "resume", "cats", *why],
        ["dataset", "cap", "cats", *why, "--epsilon", "9"],
        ["dataset", "share", "cats", "alice", *at, "--epsilon", "4"],
        ["dataset", "policy", "cats", *at, "--set", "max_images=64"],
    ):
        told = answer(capsys, *argv)
        assert (told["dataset"], told["done"]) == ("cats", argv[1])
        assert told["told"]
    assert answer(capsys, "dataset", "policy", "cats", *at) == {"max_images": 64}
    (listed,) = answer(capsys, "dataset", "list", *at)
    assert (listed["dataset"], listed["rehearsal"]) == ("cats", False)
    (budget,) = answer(capsys, "budget", *at)
    assert budget["epsilon"]["budget"] == 9.0
    shown = answer(capsys, "ledger", "show", *at)
    assert shown["head"]["sequence"] > 0
    assert any("cap lowered" in line for line in shown["datasets"][0]["decisions"])


def test_evidence_and_copies_answer_in_json(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    at = ["--dir", str(folder / "weir")]
    export = answer(capsys, "ledger", "export", *at, "--out", str(tmp_path / "l.jsonl"))
    assert export["lines"] == len((tmp_path / "l.jsonl").read_text().splitlines())
    again = tmp_path / "a copy.jsonl"
    assert main(["ledger", "export", *at, "--out", str(again)]) == 0
    told = capsys.readouterr().out.splitlines()
    head = export["head"]
    assert told == [
        f"{again} holds all {export['lines'] - 2} entries of the ledger",
        f"head: entry {head['sequence']}, {head['digest']}",
        f"next, on any machine: curator ledger verify '{again}'",
    ]
    assert head["sequence"] == export["lines"] - 2
    (verified,) = answer(capsys, "ledger", "verify", str(tmp_path / "l.jsonl"))
    assert (verified["dataset"], verified["rehearsal"]) == ("cats", False)
    head = answer(capsys, "ledger", "show", *at)["head"]
    assert verified["head"] == head
    assert main(["ledger", "verify", str(tmp_path / "l.jsonl")]) == 0
    assert f"head: entry {head['sequence']}, {head['digest']}\n" in capsys.readouterr().out
    copy = answer(capsys, "ledger", "backup", *at, "--out", str(tmp_path / "copy.sqlite"))
    assert Path(copy["out"]).exists()
    capsys.readouterr()
    assert main(["ledger", "export", *at, "--json"]) == 0
    assert all(json.loads(line) for line in capsys.readouterr().out.splitlines())


def test_callers_and_the_key_answer_in_json(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    at = ["--dir", str(folder / "weir")]
    made = answer(capsys, "analyst", "add", "carol", *at, "--expires-days", "3")
    assert Path(made["credentials"]).exists()
    rotated = answer(capsys, "analyst", "rotate", "carol", *at)
    assert rotated["name"] == "carol"
    for changed in (True, False):
        told = answer(capsys, "analyst", "revoke", "carol", *at)
        assert told == {"revoked": "carol", "changed": changed}
    listed = {one["name"]: one for one in answer(capsys, "analyst", "list", *at)}
    assert listed["carol"]["proof"] is None
    assert listed["steward"]["role"] == "steward"
    key = CuratorFolder(folder / "weir").signing_key.public_key()
    assert answer(capsys, "key", *at) == {"fingerprint": fingerprint_of(key)}


def test_quiet_says_nothing_when_all_is_well(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    at = ["--dir", str(folder / "weir")]
    for argv in (
        ["init", str(folder / "weir")],
        ["dataset", "check", str(folder / "set.npz")],
        ["analyst", "add", "dave", *at],
        ["dataset", "share", "cats", "dave", *at, "--epsilon", "4"],
    ):
        assert main([*argv, "--quiet"]) == 0
        assert capsys.readouterr().out == ""
    assert main(["budget", *at, "--quiet"]) == 0
    assert "cats: epsilon" in capsys.readouterr().out  # that is what was asked


def test_a_folder_of_any_name_holds_its_own_ledger(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    weir = tmp_path / "we?ir #1%41"
    assert main(["init", str(weir)]) == 0
    images, labels = np.zeros((6, 2, 2), np.uint8), np.arange(6) % 2
    np.savez(tmp_path / "cats.npz", images=images, labels=labels)
    assert main([
        "dataset", "add", "cats", str(tmp_path / "cats.npz"), "--dir", str(weir),
        "--epsilon", "5", "--delta", "1e-5", "--adjacency", "add-or-remove-one-record",
        "--classes", "0,1", "--image-shape", "1x2x2", "--nominal-size", "6", "--max-size", "9",
        "--sampling-rate", "1/2", "--capacity", "8",
    ]) == 0  # fmt: skip
    assert (
        main(["ledger", "backup", "--dir", str(weir), "--out", str(tmp_path / "b ?.sqlite")]) == 0
    )
    assert stat.S_IMODE((weir / "ledger.sqlite").stat().st_mode) == 0o600
    assert {path.name for path in tmp_path.iterdir()} == {"we?ir #1%41", "cats.npz", "b ?.sqlite"}


def test_a_folder_with_a_blank_can_be_typed_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["init", str(tmp_path / "my weir")]) == 0
    assert f" --dir '{tmp_path / 'my weir'}' --epsilon" in capsys.readouterr().out
    assert main(["budget", "--dir", str(tmp_path / "no weir")]) == ExitCode.FAILED
    assert f"first run: curator init '{tmp_path / 'no weir'}'" in capsys.readouterr().err


def test_a_mistyped_option_is_told_from_its_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["dataset", "pause", "cats", "--dir", "weir", "--reason", "x", "--dier", "weir"]
    assert main(argv) == ExitCode.USAGE
    error = capsys.readouterr().err
    assert "No such option: --dier (Possible options: --debug, --dir, --quiet)" in error
    assert "read 'curator dataset pause --help', then type it again" in error


def test_the_page_says_which_commands_print_an_array(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = Path(__file__).parents[3] / "docs" / "reference" / "exit-codes.md"
    (line,) = [line for line in page.read_text().splitlines() if "which are arrays" in line]
    arrays = set(re.findall("`curator ([a-z ]+)`", line))
    at, export = ["--dir", str(folder / "weir")], tmp_path / "l.jsonl"
    told = {"ledger export": answer(capsys, "ledger", "export", *at, "--out", str(export))}
    told["ledger verify"] = answer(capsys, "ledger", "verify", str(export))
    for name in ("budget", "dataset list", "analyst list", "analyst log", "ledger show", "key"):
        told[name] = answer(capsys, *name.split(), *at)
    told["plan"] = answer(capsys, "plan", "cats", str(folder / "recipe.toml"), *at)
    assert {name for name, value in told.items() if isinstance(value, list)} == arrays
    assert len(arrays) == 5


def test_a_certificate_where_an_export_is_wanted_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "certificate.json"
    for indent in (None, 1):  # as it was written, and as an editor left it
        path.write_text(
            json.dumps({"statement": {}, "public_key": "", "signature": ""}, indent=indent)
        )
        assert main(["ledger", "verify", str(path)]) == ExitCode.FAILED
        error = capsys.readouterr().err
        assert "is a privacy certificate, not a ledger export" in error
        assert "analyst certificate verify FILE" in error


def test_what_the_program_says_itself_is_no_fault(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    weir = folder / "weir"
    argv = ["serve", "--dir", str(weir), "--insecure-loopback", "--grpc-host", "192.0.2.1"]
    assert main([*argv, "--grpc-port", "0", "--rest-port", "0"]) == ExitCode.FAILED
    error = capsys.readouterr().err
    assert "--insecure-loopback serves 127.0.0.1 or ::1 only" in error
    assert "fault of this program" not in error


def test_a_fault_is_one_line_and_a_traceback_with_debug(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        msg = "a bug"
        raise KeyError(msg)

    monkeypatch.setattr("curator.cli.ledger.reader", broken)
    argv = ["budget", "--dir", str(folder / "weir")]
    assert main(argv) == 1
    error = capsys.readouterr().err
    assert "a fault of this program: KeyError" in error
    assert "--debug" in error
    with pytest.raises(KeyError):
        main([*argv, "--debug"])


class TestPlan:
    def ask(self, folder: Path, capsys: pytest.CaptureFixture[str], *options: str) -> Any:
        recipe, at = str(folder / "recipe.toml"), ["--dir", str(folder / "weir")]
        return answer(capsys, "plan", "cats", recipe, *at, *options)

    def test_three_questions(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        cost = self.ask(folder, capsys, "--for-steps", "20")
        assert (cost["num_steps"], cost["fits"], cost["mechanism"]) == (20, True, "dp-sinkhorn")
        bought = self.ask(folder, capsys, "--for-epsilon", "3")
        assert bought["epsilon_after"] <= 3.0
        noise = self.ask(folder, capsys, "--for-steps", "20", "--for-epsilon", "3")
        assert noise["epsilon_after"] <= 3.0
        assert noise["noise_multiplier"] != 4.0
        assert len(noise["points"]) == 8

    def test_a_policy_is_tried_and_not_set(
        self, folder: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        tried = self.ask(folder, capsys, "--set", "max_steps=7", "--set", "max_images=32")
        assert tried["affordable_steps"] == 7
        assert tried["policy"]["max_steps"] == "7"
        after = answer(capsys, "dataset", "policy", "cats", "--dir", str(folder / "weir"))
        assert "max_steps" not in after
        assert self.ask(folder, capsys)["affordable_steps"] > 7

    def test_people_read_the_same(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        recipe, at = str(folder / "recipe.toml"), ["--dir", str(folder / "weir")]
        argv = ["plan", "cats", recipe, *at, "--for-steps", "20", "--set", "max_steps=30"]
        assert main(argv) == 0
        text = capsys.readouterr().out
        assert "max_steps 30" in text
        assert "(as tried here)" in text
        assert "asked       20 steps with noise_multiplier 4: epsilon" in text
        assert text.count(" yes") >= 7

    @pytest.mark.parametrize(
        ("change", "words"),
        [
            (["nowhere.toml"], "cannot read recipe"),
            (["recipe.toml", "--set", "max_steps"], "RULE=VALUE"),
            (["recipe.toml", "--set", "max_color=1"], "no such rule"),
            (["recipe.toml", "--set", "min_noise_multiplier=5"], "policy"),
            (["recipe.toml", "--for-steps", "0"], "field of the request"),
            (["set.npz"], "recipe"),
        ],
    )
    def test_mistakes_are_one_message(
        self, folder: Path, capsys: pytest.CaptureFixture[str], change: list[str], words: str
    ) -> None:
        at = ["--dir", str(folder / "weir")]
        argv = ["plan", "cats", str(folder / change[0]), *change[1:], *at]
        assert main(argv) == ExitCode.FAILED
        error = capsys.readouterr().err
        assert words in error
        assert "Traceback" not in error

    def test_a_step_beyond_the_folder_s_limits_does_not_fit(
        self, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        weir = CuratorFolder(tmp_path / "weir")
        copytree(folder / "weir", weir.root)
        config = weir.config.read_text()
        assert "max_samples = 4096" in config
        weir.config.write_text(config.replace("max_samples = 4096", "max_samples = 2"))
        argv = ["plan", "cats", str(folder / "recipe.toml"), "--dir", str(weir.root)]
        assert main([*argv, "--for-steps", "20"]) == ExitCode.FAILED
        assert "at most 2 fit; send fewer" in capsys.readouterr().err
