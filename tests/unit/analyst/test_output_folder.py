"""Two trainers never write checkpoints to one directory; a dead one is in nobody's way."""

from __future__ import annotations

import fcntl
import subprocess
import sys
from pathlib import Path

import pytest

from analyst.cli import ExitCode, main
from analyst.errors import CheckpointError
from analyst.training.output_lock import only_trainer

HOLD = """
import sys
from pathlib import Path
from analyst.training.output_lock import only_trainer
with only_trainer(Path(sys.argv[1]), is_new=True):
    print("held", flush=True)
    sys.stdin.read()
"""
ACCESS = ("--curator", "localhost:1", "--insecure-loopback", "--timeout", "0.1")
COMMANDS = [
    ("train", *ACCESS, "--recipe", "dp-sinkhorn-digits"),
    ("train", *ACCESS, "--curator", "localhost:2", "--recipe", "dp-sinkhorn-digits"),
    ("train", *ACCESS, "--resume"),
    ("adapt", "train", *ACCESS, "--recipe", "mnist-to-usps", "--source", "mnist.npz"),
    ("embedding", "train", "x.safetensors", "--recipe", "embedding-digits"),
]


def test_a_second_process_is_refused_until_the_first_is_dead(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    program = [sys.executable, "-c", HOLD, str(out)]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as one:
        assert one.stdout is not None
        assert one.stdout.readline() == "held\n"
        for command in COMMANDS:
            assert main([*command, "--out", str(out)]) == ExitCode.FILES
            assert f"process {one.pid} trains in {out}" in capsys.readouterr().err
        one.kill()
    with only_trainer(out, is_new=False):
        assert (out / "lock").exists()


def test_a_chain_is_gone_on_with_and_nothing_else_is_trained_in_its_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "chain.json").write_text("{}")
    for recipe in ("two-stage-digits", "embedding-digits"):
        command = ["train", *ACCESS, "--recipe", recipe, "--out", str(tmp_path)]
        assert main(command) == ExitCode.FILES
        said = capsys.readouterr().err.replace("\n", " ")
        assert "already holds a chain. " in said
        assert "Add --resume" in said
    with only_trainer(tmp_path, is_new=False):
        pass


def test_the_lock_is_given_back_after_an_error(tmp_path: Path) -> None:
    for _ in range(2):
        with pytest.raises(KeyError), only_trainer(tmp_path, is_new=True):
            raise KeyError


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("kept")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "lock").symlink_to(tmp_path / "precious")
    with (
        pytest.raises(CheckpointError, match="cannot write to"),
        only_trainer(tmp_path / "run", is_new=True),
    ):
        pass
    assert (tmp_path / "precious").read_text() == "kept"


def test_resuming_nothing_makes_no_directory(tmp_path: Path) -> None:
    with only_trainer(tmp_path / "run", is_new=False):
        assert not (tmp_path / "run").exists()


def test_what_was_made_for_nothing_is_removed(tmp_path: Path) -> None:
    with pytest.raises(KeyError), only_trainer(tmp_path / "runs" / "run", is_new=True):
        raise KeyError
    assert not list(tmp_path.iterdir())


def test_what_is_not_empty_or_was_there_before_stays(tmp_path: Path) -> None:
    with only_trainer(tmp_path / "runs" / "full", is_new=True):
        (tmp_path / "runs" / "full" / "metrics.jsonl").write_text("kept")
    (tmp_path / "mine").mkdir()
    with only_trainer(tmp_path / "mine", is_new=True):
        pass
    assert (tmp_path / "runs" / "full" / "metrics.jsonl").exists()
    assert (tmp_path / "mine").exists()


def test_a_lock_that_its_holder_just_removed_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lock without a name would not keep a third trainer out."""
    path, flock = tmp_path / "lock", fcntl.flock
    times: list[int] = []

    def take(descriptor: int, operation: int) -> None:
        if not times:
            path.unlink()
        times.append(operation)
        flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", take)
    with only_trainer(tmp_path, is_new=True):
        assert path.exists()
        assert len(times) == 2


def test_a_place_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(CheckpointError, match="cannot write to"),
        only_trainer(tmp_path / "file" / "run", is_new=True),
    ):
        pass
