"""The command as a user meets it: exit codes, messages, no traceback."""

from __future__ import annotations

import errno
import json
import os
import shlex
import signal
from pathlib import Path

import numpy as np
import pytest

from analyst.cli import Connect, ConnectionConfig, ExitCode, main
from analyst.errors import CuratorUnreachable
from tests.commands import understood
from tests.fakes.adaptation import table, toml
from tests.fakes.barrier import FakeBarrier, FakeDataset, FakeRun, make_error

TRAIN = ["train", "--curator", "localhost:1", "--insecure-loopback"]
SMALL = [
    "--recipe", "dp-sinkhorn-digits", "--generator-width", "8", "--sample-every", "99",
    "--mechanism-num-samples", "20", "--mechanism-num-debias", "4",
]  # fmt: skip


def connect_to(barrier: FakeBarrier) -> Connect:
    def connect(config: ConnectionConfig) -> FakeBarrier:
        return barrier

    return connect


@pytest.fixture
def barrier() -> FakeBarrier:
    return FakeBarrier(FakeDataset(epsilon=6.0))


def _train(barrier: FakeBarrier, out: Path, *options: str) -> int:
    return main([*TRAIN, "--out", str(out), *options], connect=connect_to(barrier))


def test_train_until_refused_then_sample_and_evaluate(
    barrier: FakeBarrier, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    assert _train(barrier, out, *SMALL, "--show-refusal") == ExitCode.OK
    text = capsys.readouterr().out
    assert "Asked for one more step." in text
    assert "spent      epsilon 6.0000" in text
    assert "bring the total to epsilon 7.0000" in text

    assert _train(barrier, tmp_path / "more", *SMALL) == ExitCode.BUDGET_EXHAUSTED
    error = capsys.readouterr().err
    assert "does not refill" in error
    assert "Traceback" not in error

    for name in ("s.npz", "s.png"):
        argv = ["sample", "--out-of", str(out), "--count", "40", "--out", str(tmp_path / name)]
        assert main(argv) == ExitCode.OK
        assert main(argv) == ExitCode.FILES
        error = capsys.readouterr().err
        assert f"error: {tmp_path / name} exists already" in error
        assert "Choose another --out, or add --force." in error
        assert main([*argv, "--force"]) == ExitCode.OK
    with np.load(tmp_path / "s.npz", allow_pickle=False) as archive:
        assert archive["images"].shape == (40, 8, 8)
        assert np.bincount(archive["labels"]).tolist() == [4] * 10
        assert archive["classes"].tolist() == list("0123456789")
        assert str(archive["run_id"]) == "run-0"
    argv = ["evaluate", str(tmp_path / "s.npz"), "--classifier", "logistic", "--test"]
    assert main([*argv, str(tmp_path / "s.npz")]) == ExitCode.FILES  # says nothing of it
    assert "those of --test are the same" in capsys.readouterr().err
    other = ["sample", "--out-of", str(out), "--count", "30", "--out", str(tmp_path / "t.npz")]
    assert main(other) == ExitCode.OK
    assert main([*argv, str(tmp_path / "t.npz")]) == ExitCode.OK
    assert "logistic: accuracy" in capsys.readouterr().out


def test_show_refusal_asks_nothing_when_a_step_is_left(
    barrier: FakeBarrier, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _train(barrier, tmp_path, *SMALL, "--steps", "2", "--show-refusal") == ExitCode.OK
    assert "would not be refused" in capsys.readouterr().out
    assert len(barrier.opened) == 1


def test_a_lost_curator_says_how_to_go_on(
    barrier: FakeBarrier,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(run: FakeRun) -> None:
        if run.next_step == 4:
            raise make_error(CuratorUnreachable)

    barrier.before_gradient = fail
    code = _train(barrier, tmp_path, *SMALL, "--retry-for-s", "0")
    assert code == ExitCode.UNREACHABLE
    assert f"analyst train --resume --out {tmp_path}" in capsys.readouterr().err
    barrier.before_gradient = lambda run: None
    assert _train(barrier, tmp_path, "--resume") == ExitCode.OK
    assert barrier.accounts["run-0"].used == 6


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_after_the_step(
    barrier: FakeBarrier, tmp_path: Path, capsys: pytest.CaptureFixture[str], number: int
) -> None:
    def interrupt(run: FakeRun) -> None:
        if run.next_step == 3:
            os.kill(os.getpid(), number)

    barrier.before_gradient = interrupt
    assert _train(barrier, tmp_path, *SMALL) == ExitCode.INTERRUPTED
    assert "stopped after 3 updates" in capsys.readouterr().err
    barrier.before_gradient = lambda run: None
    assert _train(barrier, tmp_path, "--resume") == ExitCode.OK
    assert [step for step, _ in barrier.asked] == [1, 2, 3, 4, 5, 6]


def test_a_forgotten_run_is_found_and_closed(
    barrier: FakeBarrier, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    access = ["--curator", "localhost:1", "--insecure-loopback"]
    assert main(["runs", *access], connect=connect_to(barrier)) == ExitCode.OK
    assert capsys.readouterr().out == "no runs\n"
    assert _train(barrier, tmp_path, *SMALL, "--steps", "2") == ExitCode.OK
    forgotten = barrier.open_run("digits", "dp-sinkhorn", {}, num_steps=3).run_id
    assert main(["runs", *access], connect=connect_to(barrier)) == ExitCode.OK
    text = capsys.readouterr().out
    assert text.index("0 of 3") < text.index("2 of 2")  # the latest first
    assert "closed by the analyst" in text
    assert "closed: closed" not in text
    assert "'analyst close RUN'" in text

    assert main(["runs", "--open", "--json", *access], connect=connect_to(barrier)) == ExitCode.OK
    found = json.loads(capsys.readouterr().out)["runs"]
    assert [one["run_id"] for one in found] == [forgotten]
    assert (found[0]["steps"], found[0]["steps_charged"]) == (3, 0)
    assert main(["close", forgotten, *access], connect=connect_to(barrier)) == ExitCode.OK
    assert f"run {forgotten} is closed; what it did not use" in capsys.readouterr().err
    assert main(["close", forgotten, *access], connect=connect_to(barrier)) == ExitCode.OK
    again = capsys.readouterr().err
    assert again == (
        f"run {forgotten} was closed already, 2026-01-02 03:04:05 UTC (by the analyst): nothing "
        "was changed\n"
    )
    argv = ["close", forgotten, *access, "--json"]
    assert main(argv, connect=connect_to(barrier)) == ExitCode.OK
    assert json.loads(capsys.readouterr().out) == {
        "closed": [forgotten],
        "was_closed_already": True,
    }
    assert main(["runs", "--open", *access], connect=connect_to(barrier)) == ExitCode.OK
    assert capsys.readouterr().out == "no runs\n"


def test_plan_and_budget_charge_nothing(
    barrier: FakeBarrier, capsys: pytest.CaptureFixture[str]
) -> None:
    access = ["--curator", "localhost:1", "--insecure-loopback"]
    for question in (["--for-steps", "3"], ["--for-epsilon", "2"], []):
        argv = ["plan", *access, "--recipe", "dp-sinkhorn-digits", *question]
        assert main(argv, connect=connect_to(barrier)) == ExitCode.OK
    text = capsys.readouterr().out
    assert "affordable  6 steps" in text
    assert "3 steps: epsilon 3.0000 in total afterwards; fits" in text
    assert "up to epsilon 2, 2 steps" in text
    argv = ["plan", *access, "--recipe", "embedding-digits"]
    assert main(argv, connect=connect_to(barrier)) == ExitCode.OK
    assert "the release" in capsys.readouterr().out
    assert main(["budget", *access], connect=connect_to(barrier)) == ExitCode.OK
    text = capsys.readouterr().out
    assert "(6, 1e-05)-differential privacy" in text
    assert "images      1x8x8, 10 classes: 0, 1, 2," in text
    assert "policy      min_noise_multiplier 0.5" in text
    assert not barrier.opened


@pytest.mark.parametrize(
    ("options", "code", "text"),
    [
        (["--recipe", "nothing"], ExitCode.RECIPE, "no recipe 'nothing'"),
        ([*SMALL, "--set", "a.b=1"], ExitCode.RECIPE, "a: unknown section"),
        (["--resume"], ExitCode.FILES, "no checkpoint"),
        ([*SMALL, "--start-from", "nowhere"], ExitCode.FILES, "there is no run in nowhere"),
        ([*SMALL, "--device", "no-such"], ExitCode.RECIPE, "cannot use the device 'no-such'"),
    ],
)
def test_mistakes_are_one_message_with_a_remedy(
    barrier: FakeBarrier,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    code: ExitCode,
    text: str,
) -> None:
    out = tmp_path / "new" / "run"
    assert _train(barrier, out, *options) == code
    assert not barrier.opened
    assert not list(tmp_path.iterdir())  # no lock is left behind
    error = capsys.readouterr().err
    assert text in error
    assert "what to do: " in error
    assert "Traceback" not in error


def test_a_fault_is_hidden_behind_debug(
    barrier: FakeBarrier, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def break_it(run: FakeRun) -> None:
        msg = "a bug"
        raise RuntimeError(msg)

    barrier.before_gradient = break_it
    assert _train(barrier, tmp_path / "a", *SMALL, "--steps", "2") == ExitCode.FAILED
    assert "--debug" in capsys.readouterr().err
    with pytest.raises(RuntimeError, match="a bug"):
        _train(barrier, tmp_path / "b", *SMALL, "--steps", "2", "--debug")


def test_a_full_disk_is_no_fault_of_the_program(
    barrier: FakeBarrier, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def break_it(run: FakeRun) -> None:
        raise OSError(28, "No space left on device", "checkpoint")

    barrier.before_gradient = break_it
    assert _train(barrier, tmp_path / "a", *SMALL, "--steps", "2") == ExitCode.FILES
    error = capsys.readouterr().err
    assert "error: checkpoint: its disk is full" in error
    assert "what to do: Make room there" in error
    assert "to go on: analyst train --resume" in error
    assert "fault of this program" not in error


def test_recipes_are_listed_and_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["recipes"]) == ExitCode.OK
    train, adapt = capsys.readouterr().out.split("for 'analyst adapt train':")
    assert "dp-merf-mnist" in train
    assert "mnist-to-usps" in adapt
    for name in ("dp-merf-mnist", "usps-to-mnist"):
        assert main(["recipes", name]) == ExitCode.OK
        assert "[mechanism]" in capsys.readouterr().out
    assert main(["recipes", "--json"]) == ExitCode.OK
    listed = {one["name"]: one["command"] for one in json.loads(capsys.readouterr().out)}
    assert listed["dp-merf-mnist"] == "train"
    assert listed["usps-to-mnist"] == "adapt train"


def test_an_adaptation_is_planned_like_a_training(
    barrier: FakeBarrier, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(toml(table(training__steps=4)))
    access = ["--curator", "localhost:1", "--insecure-loopback"]
    for recipe, steps in (("mnist-to-usps", 800), (str(file), 4)):
        argv = ["plan", *access, "--recipe", recipe, "--mechanism-sampling-rate", "0.1"]
        assert main(argv, connect=connect_to(barrier)) == ExitCode.OK
        text = capsys.readouterr().out
        assert "mechanism   dp-swd-features: every step reads a fresh private sample" in text
        assert f"{steps:,} steps: epsilon {steps}.0000 in total afterwards" in text
    both = [*access, "--curator", "localhost:2"]
    assert main(["plan", *both, "--recipe", str(file)], connect=connect_to(barrier)) == ExitCode.OK
    assert capsys.readouterr().out.count("mechanism   dp-swd-features") == 2
    assert not barrier.opened


def test_a_certificate_is_fetched_again(
    barrier: FakeBarrier,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    barrier.open_run("digits", "dp-sinkhorn", {}, num_steps=1)
    access = ["--curator", "localhost:1", "--insecure-loopback"]
    out = tmp_path / "new" / "certificate.json"
    fetch = ["certificate", "fetch", "run-0", *access, "--out", str(out)]
    assert main(fetch, connect=connect_to(barrier)) == ExitCode.FAILED
    assert "run run-0 is open still" in capsys.readouterr().err
    assert not out.exists()
    monkeypatch.setattr(FakeRun, "certificate", '{"signed": 1}', raising=False)
    assert main(fetch, connect=connect_to(barrier)) == ExitCode.OK
    assert json.loads(out.read_text()) == {"signed": 1}
    out.write_text("mine")
    assert main(fetch, connect=connect_to(barrier)) == ExitCode.FILES
    assert out.read_text() == "mine"
    assert main(["certificate", "verify", str(tmp_path / "nothing.json")]) == ExitCode.FILES


def test_a_device_without_its_backend_is_no_fault_of_the_program(
    barrier: FakeBarrier,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def empty(*_: object, **__: object) -> None:
        msg = "Torch not compiled with CUDA enabled"
        raise AssertionError(msg)

    assert _train(barrier, tmp_path, *SMALL, "--steps", "2") == ExitCode.OK
    monkeypatch.setattr("analyst.device.torch.empty", empty)
    new = ["--out", str(tmp_path / "b")]
    summed = ["--curator", "localhost:2", "--recipe", "embedding-digits"]  # charged by a release
    for options in ([*SMALL, *new], ["--resume", "--out", str(tmp_path)], [*summed, *new]):
        argv = [*TRAIN, *options, "--device", "cuda"]
        assert main(argv, connect=connect_to(barrier)) == ExitCode.RECIPE
        error = capsys.readouterr().err
        assert "torch cannot use the device 'cuda' here" in error
        assert "Give --device cpu, or one that torch sees." in error
    assert len(barrier.opened) == 1


def test_a_path_with_a_blank_can_be_typed_again(
    barrier: FakeBarrier, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(run: FakeRun) -> None:
        raise make_error(CuratorUnreachable)

    barrier.before_gradient = fail
    options = (*SMALL, "--retry-for-s", "0", "--credentials", "my key.json")
    assert _train(barrier, tmp_path / "my run", *options) == ExitCode.UNREACHABLE
    error = capsys.readouterr().err
    (line,) = (line for line in error.splitlines() if line.startswith("to go on: "))
    program, *argv = shlex.split(line.removeprefix("to go on: "))
    assert program == "analyst"
    again = understood(argv, program).params
    assert (again["out"], *again["credentials"]) == (tmp_path / "my run", Path("my key.json"))


def test_a_folder_without_a_run_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["sample", "--out-of", str(tmp_path), "--count", "1", "--out", str(tmp_path / "s.npz")]
    assert main(argv) == ExitCode.FILES
    error = capsys.readouterr().err
    assert f"there is no run in {tmp_path}" in error
    assert "--resume" not in error


class _Full:
    """Standard output on a full disk."""

    def write(self, _: str = "") -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    flush = write


def test_what_is_done_is_told_by_the_code_where_the_output_is_lost(
    barrier: FakeBarrier,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    access = ["--curator", "localhost:1", "--insecure-loopback"]
    run = barrier.open_run("digits", "dp-sinkhorn", {}, num_steps=3).run_id
    with monkeypatch.context() as patched:
        patched.setattr("sys.stdout", _Full())
        closing = ["close", run, *access, "--json"]
        assert main(closing, connect=connect_to(barrier)) == ExitCode.OUTPUT_LOST
        assert f"'close' of {run} is done and stays done" in capsys.readouterr().err
        trained = _train(barrier, tmp_path / "out", *SMALL, "--steps", "2", "--json")
        assert trained == ExitCode.OUTPUT_LOST
        assert "do not run it again" in capsys.readouterr().err
        assert main(["runs", *access], connect=connect_to(barrier)) == ExitCode.FILES
        assert "standard output cannot be written" in capsys.readouterr().err
    assert main(["runs", "--open", *access], connect=connect_to(barrier)) == ExitCode.OK
    assert capsys.readouterr().out == "no runs\n"
