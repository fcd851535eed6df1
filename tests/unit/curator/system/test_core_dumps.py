"""Every command switches core dumps off before it does anything, and says so if it cannot."""

from __future__ import annotations

import resource
import subprocess
import sys

import pytest

from curator.system import core_dumps

LOOK = """
import subprocess, sys
from curator import cli
from curator.folder import CuratorFolder
from curator.system.core_dumps import are_core_dumps_off

print(are_core_dumps_off())
child = "import resource; print(resource.getrlimit(resource.RLIMIT_CORE))"


def look(folder):  # what a command does first
    print(are_core_dumps_off(), flush=True)
    subprocess.run([sys.executable, "-c", child], check=True)
    raise SystemExit(0)


CuratorFolder.require = look
sys.exit(cli.main(["key", "--dir", "nowhere"]))
"""


def test_a_command_switches_core_dumps_off_for_itself_and_what_it_starts() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOOK], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stdout.splitlines() == ["False", "True", "(0, 0)"], done.stderr
    assert done.stderr == ""


@pytest.mark.parametrize("refused", ["", "limit", "dumpable", "both"])
def test_a_system_that_refuses_is_told_of_in_words_and_the_other_setting_is_made(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, refused: str
) -> None:
    system: dict[str, object] = {"limit": (-1, -1), "dumpable": 1}

    def change(what: str, value: object) -> None:
        if refused in {what, "both"}:
            raise OSError(1, "not permitted")
        system[what] = value

    def prctl(option: int, value: int) -> object:
        if option == core_dumps._SET_DUMPABLE:
            change("dumpable", value)
        return system["dumpable"]

    monkeypatch.setattr(core_dumps, "_prctl", prctl)
    monkeypatch.setattr(resource, "setrlimit", lambda _, value: change("limit", value))
    monkeypatch.setattr(resource, "getrlimit", lambda _: system["limit"])
    monkeypatch.setattr(sys, "platform", "linux")
    core_dumps.forbid_core_dumps()
    assert (system["limit"] == (0, 0)) == (refused in {"", "dumpable"})
    assert (system["dumpable"] == 0) == (refused in {"", "limit"})
    assert ("core dumps could not be switched off" in caplog.text) == bool(refused)
    assert ("ulimit -c 0" in caplog.text) == bool(refused)


@pytest.mark.parametrize(
    ("limit", "dumpable", "platform", "off"),
    [
        ((0, 0), 0, "linux", True),
        ((0, 0), 1, "linux", False),
        ((0, 1), 0, "linux", False),
        ((-1, -1), 0, "linux", False),
        ((0, 0), 1, "darwin", True),
    ],
)
def test_both_settings_count(
    monkeypatch: pytest.MonkeyPatch,
    limit: tuple[int, int],
    dumpable: int,
    platform: str,
    *,
    off: bool,
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: limit)
    monkeypatch.setattr(core_dumps, "_prctl", lambda *_: dumpable)
    monkeypatch.setattr(sys, "platform", platform)
    assert core_dumps.are_core_dumps_off() is off
