"""What a command did is told by its exit code, whatever becomes of what it prints."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import typer

import analyst.output
import curator.system.output
from curator.cli import ExitCode, main
from curator.cli.command import Task, command
from tests.fakes.awkward import encoded, grey
from tests.unit.cli.conftest import ADD

OUTPUTS = [curator.system.output, analyst.output]
NAME = "\u60a3\u8005"  # patient


class Lost:
    """A stream that takes nothing, for one reason."""

    encoding = "utf-8"

    def __init__(self, number: int = errno.ENOSPC) -> None:
        self.number, self.tries = number, 0

    def write(self, _: str) -> int:
        self.tries += 1
        raise OSError(self.number, os.strerror(self.number))

    def flush(self) -> None:
        raise OSError(self.number, os.strerror(self.number))


def photos(root: Path) -> Path:
    for label, seed in (("0", 1), ("1", 2), ("2", 3), (NAME, 4)):
        folder = root / NAME / label
        folder.mkdir(parents=True)
        (folder / "1.png").write_bytes(encoded(grey(seed)))
    return root / NAME


def started(argv: list[str], stdout: int, **environment: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "curator.cli", *argv],
        check=False,
        stdout=stdout,
        stderr=subprocess.PIPE,
        env={**os.environ, **environment},
        timeout=300,
    )


def initialised(tmp_path: Path) -> str:
    weir = str(tmp_path / "weir")
    assert main(["init", weir, "--quiet"]) == ExitCode.OK
    return weir


def has_erin(folder: Path, capsys: pytest.CaptureFixture[str]) -> bool:
    capsys.readouterr()
    assert main(["analyst", "list", "--dir", str(folder / "weir")]) == ExitCode.OK
    return "erin" in capsys.readouterr().out


def test_a_terminal_of_few_letters_gets_escapes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [f"0,1,2,{NAME}" if word == "0,1,2" else word for word in ADD]
    argv = ["dataset", "add", "cats", str(photos(tmp_path)), "--dir", initialised(tmp_path), *words]
    done = started(argv, subprocess.PIPE, PYTHONIOENCODING="ascii", PYTHONUTF8="1")
    assert done.returncode == ExitCode.OK, done.stderr
    assert rb"\u60a3\u8005 1" in done.stdout
    capsys.readouterr()
    assert main(["budget", "--dir", str(tmp_path / "weir")]) == ExitCode.OK
    assert "cats: epsilon" in capsys.readouterr().out


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_command_that_commits_is_done_on_a_full_disk(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str]
) -> None:
    if not Path("/dev/full").is_char_device():
        pytest.skip("this system has no /dev/full")
    argv = ["analyst", "add", "erin", "--dir", initialised(tmp_path), *options]
    with Path("/dev/full").open("wb") as full:
        done = started(argv, full.fileno())
    assert done.returncode == ExitCode.OUTPUT_LOST, done.stderr
    assert b"'analyst add' of erin is done and stays done" in done.stderr
    assert b"do not run it again" in done.stderr
    assert b"Exception ignored" not in done.stderr
    assert has_erin(tmp_path, capsys)


def test_a_command_that_commits_is_done_where_nobody_reads(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["analyst", "add", "erin", "--dir", initialised(tmp_path)]
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = started(argv, writer)
        assert done.returncode == ExitCode.OUTPUT_LOST, done.stderr
        assert b"is done and stays done" in done.stderr
        assert has_erin(tmp_path, capsys)
        seen = started(["budget", "--dir", str(tmp_path / "weir")], writer)  # as with 'head'
        assert (seen.returncode, seen.stderr) == (ExitCode.OK, b"")
    finally:
        os.close(writer)


COMMITS = [
    ["analyst", "add", "erin"],
    ["analyst", "rotate", "erin"],
    ["dataset", "share", "cats", "erin", "--epsilon", "1"],
    ["analyst", "revoke", "erin"],
    ["dataset", "policy", "cats", "--set", "max_images=64"],
    ["dataset", "cap", "cats", "--epsilon", "9", "--reason", "x"],
    ["dataset", "pause", "cats", "--reason", "x"],
    ["dataset", "resume", "cats", "--reason", "x"],
    ["dataset", "retire", "cats", "--reason", "x", "--confirm", "cats"],
    ["dataset", "erase", "cats", "--reason", "x", "--confirm", "cats"],
]


def test_every_decision_is_told_by_its_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    weir = str(tmp_path / "weir")
    np.savez(tmp_path / "a.npz", images=np.zeros((3, 8, 8), np.uint8), labels=np.arange(3))
    with monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", Lost())
        assert main(["init", weir]) == ExitCode.OUTPUT_LOST
        argv = ["dataset", "add", "cats", str(tmp_path / "a.npz"), "--dir", weir, *ADD]
        assert main(argv) == ExitCode.OUTPUT_LOST
        for argv in COMMITS:
            capsys.readouterr()
            assert main([*argv, "--dir", weir]) == ExitCode.OUTPUT_LOST
            said = capsys.readouterr().err
            assert f"'{' '.join(argv[:2])}' of {argv[2]} is done and stays done" in said
        assert main(["dataset", "erase", "cats", *COMMITS[-1][3:], "--dir", weir]) == 1
        patched.setattr(sys, "stdout", None)
        assert main(["analyst", "add", "frank", "--dir", weir]) == ExitCode.OUTPUT_LOST
    capsys.readouterr()
    assert main(["ledger", "show", "--dir", weir]) == ExitCode.OK
    assert "erased" in capsys.readouterr().out


def test_a_command_that_reads_stops_at_the_first_line(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, code in ((errno.ENOSPC, ExitCode.FAILED), (errno.EPIPE, ExitCode.OK)):
        for words in (["ledger", "export"], ["ledger", "show"], ["dataset", "policy", "cats"]):
            lost = Lost(number)
            with monkeypatch.context() as patched:
                patched.setattr(sys, "stdout", lost)
                assert main([*words, "--dir", str(folder / "weir")]) == code
            assert lost.tries == 1
            assert ("cannot be written" in capsys.readouterr().err) == (code is ExitCode.FAILED)


def test_standard_error_that_takes_nothing_ends_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stderr", Lost())
    assert main(["analyst", "add", "gina", "--dir", str(folder / "weir")]) == ExitCode.OK
    assert main(["analyst", "add", "gina", "--dir", str(folder / "weir")]) == ExitCode.FAILED


def test_a_command_that_is_not_told_to_read_counts_as_one_that_commits(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    app = typer.Typer(rich_markup_mode=None)
    done = []

    @app.callback()
    def group() -> None:
        """A program."""

    @command(app, "explode")
    def explode(task: Task) -> None:
        """Change something, and say so."""
        task.screen.show("done")
        done.append(task.screen)

    monkeypatch.setattr("curator.cli.app.app", app)
    monkeypatch.setattr(sys, "stdout", Lost())
    assert main(["explode"]) == ExitCode.OUTPUT_LOST
    assert done
    assert "'explode' of  is done" in capsys.readouterr().err


@pytest.mark.parametrize("module", OUTPUTS, ids=lambda module: module.__name__)
def test_a_stream_notes_its_first_failure_and_drops_the_rest(module: ModuleType) -> None:
    lost = Lost()
    output = module.Output(lost)
    assert output.write("a") == 1
    output.write("b")
    output.flush()
    assert lost.tries == 1
    assert output.why_lost == os.strerror(errno.ENOSPC)
    assert output.encoding == "utf-8"
    with Path(os.devnull).open("w") as closed:
        pass
    for stream in (closed, None):
        output = module.Output(stream)
        output.flush()
        assert output.failure is not None
    output = module.Output(Lost(errno.EPIPE))
    output.stops = True
    with pytest.raises(module.OutputLost) as caught:
        output.write("a")
    assert isinstance(caught.value.__cause__, BrokenPipeError)


@pytest.mark.parametrize("module", OUTPUTS, ids=lambda module: module.__name__)
def test_a_log_goes_on_once_there_is_room_again(module: ModuleType) -> None:
    lost = Lost()
    output = module.Output(lost, tries_again=True)
    output.write("a")
    output.write("b")
    assert (lost.tries, output.failure) == (2, None)


def test_standard_error_that_nobody_reads_changes_no_exit_code(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        argv = [sys.executable, "-m", "curator.cli", "analyst", "list", "--dir", str(tmp_path)]
        done = subprocess.run(argv, check=False, stderr=writer, capture_output=False, timeout=300)
        assert done.returncode == ExitCode.FAILED  # and not what Python returns of itself
    finally:
        os.close(writer)


def test_both_programs_print_alike() -> None:
    ours, theirs = (Path(str(module.__file__)).read_text() for module in OUTPUTS)
    assert ours == theirs
