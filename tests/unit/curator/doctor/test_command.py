"""What the command prints, and how it ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from curator.cli import ExitCode, main
from curator.doctor import examine as examination
from curator.doctor.examine import Check
from curator.doctor.finding import Finding, attention, fault, well

WELL = Check(name="first", look=lambda _: well("good", number=1))
ILL = {
    "attention": Check(name="second", look=lambda _: attention("so so", "mend it")),
    "fault": Check(name="second", look=lambda _: fault("bad", "mend it", path="x")),
}


def use(monkeypatch: pytest.MonkeyPatch, *checks: Check) -> None:
    monkeypatch.setattr(examination, "CHECKS", checks)


def test_all_well_is_exit_code_0(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    use(monkeypatch, WELL)
    assert main(["doctor"]) == ExitCode.OK
    assert capsys.readouterr().out == "ok         first: good\n"


@pytest.mark.parametrize("state", ILL)
def test_what_is_not_well_is_exit_code_5(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], state: str
) -> None:
    use(monkeypatch, WELL, ILL[state])
    assert main(["doctor"]) == ExitCode.ATTENTION
    assert int(ExitCode.ATTENTION) == 5
    printed = capsys.readouterr()
    lines = printed.out.splitlines()
    assert lines[0] == "ok         first: good"
    assert lines[1].startswith(f"{state} ")
    assert lines[2].endswith("next: mend it")
    assert "look at second: what to do stands above, under each" in printed.err
    assert main(["doctor", "--quiet"]) == ExitCode.ATTENTION
    assert capsys.readouterr().out.splitlines() == lines[1:]


@pytest.mark.parametrize("state", ILL)
def test_json_is_one_object(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], state: str
) -> None:
    use(monkeypatch, WELL, ILL[state])
    assert main(["doctor", "--json"]) == ExitCode.ATTENTION
    value = json.loads(capsys.readouterr().out)
    assert value["well"] is False
    assert [one["state"] for one in value["checks"]] == ["ok", state]
    assert value["checks"][0] == {
        "check": "first",
        "state": "ok",
        "words": "good",
        "next": "",
        "facts": {"number": 1},
    }


def test_the_folder_reaches_the_checks(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def look(subject: object) -> Finding:
        return well(str(getattr(subject, "folder", None)))

    use(monkeypatch, Check(name="folder", look=look, of_folder=True))
    assert main(["doctor", "--dir", str(tmp_path)]) == ExitCode.OK
    assert str(tmp_path) in capsys.readouterr().out
    assert main(["doctor"]) == ExitCode.OK
    assert capsys.readouterr().out == ""


def test_everything_that_is_found_can_be_printed_as_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["doctor", "--dir", str(tmp_path / "nowhere"), "--json"])
    value = json.loads(capsys.readouterr().out)
    assert [one["check"] for one in value["checks"]] == [one.name for one in examination.CHECKS]
