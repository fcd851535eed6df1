"""Several curators as a user meets them: exit codes, messages, budgets, plans, the end of runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from analyst.cli import Connect, ConnectionConfig, ExitCode, main
from analyst.client.codec import DownloadedRelease
from analyst.embedding.file import load_embedding
from analyst.errors import CuratorUnreachable
from tests.fakes.barrier import FakeBarrier, FakeDataset, FakeRun, make_error

BOTH = ["--curator", "a:1", "--curator", "b:2", "--insecure-loopback"]
SMALL = [
    "--recipe", "dp-sinkhorn-digits", "--generator-width", "8", "--sample-every", "99",
    "--mechanism-num-samples", "20", "--mechanism-num-debias", "4", "--retry-for-s", "0",
]  # fmt: skip
EMBEDDING = [
    "--recipe", "embedding-digits", "--generator-width", "8", "--steps", "4",
    "--mechanism-num-features", "20", "--mechanism-images-per-class", "2",
]  # fmt: skip


class ReleasingBarrier(FakeBarrier):
    """Releases what it is told to, and counts how often it was asked."""

    def __init__(self, values: torch.Tensor) -> None:
        super().__init__()
        self.values, self.num_downloads = values, 0

    def download_release(self, run_id: str) -> DownloadedRelease:
        self.num_downloads += 1
        ((mechanism, parameters, _),) = self.opened
        return DownloadedRelease(
            run_id=run_id, dataset="digits", mechanism=mechanism, parameters=parameters,
            values=self.values,
        )  # fmt: skip


@pytest.fixture
def barriers() -> dict[str, FakeBarrier]:
    return {"a:1": FakeBarrier(FakeDataset(epsilon=6.0)), "b:2": FakeBarrier()}


def _connect(barriers: dict[str, FakeBarrier], gone: tuple[str, ...] = ()) -> Connect:
    def connect(config: ConnectionConfig) -> FakeBarrier:
        if config.target in gone:
            raise make_error(CuratorUnreachable)
        return barriers[config.target]

    return connect


def _main(barriers: dict[str, FakeBarrier], *argv: str, gone: tuple[str, ...] = ()) -> int:
    return main(argv, connect=_connect(barriers, gone))


def _used(barriers: dict[str, FakeBarrier]) -> list[int]:
    return [sum(one.used for one in barrier.accounts.values()) for barrier in barriers.values()]


def _closed(barriers: dict[str, FakeBarrier]) -> list[bool]:
    return [barrier.accounts["run-0"].closed for barrier in barriers.values()]


def test_train_with_two_curators_until_both_refuse(
    barriers: dict[str, FakeBarrier], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = ("train", *BOTH, *SMALL, "--out", str(tmp_path), "--show-refusal")
    assert _main(barriers, *run, "--on-loss", "continue") == ExitCode.OK
    assert _used(barriers) == [6, 100]
    text = capsys.readouterr().out
    assert text.count("Asked for one more step.") == 2
    assert "the guarantees add up" in text


def test_a_loss_stops_and_says_how_to_go_on(
    barriers: dict[str, FakeBarrier], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(run: FakeRun) -> None:
        if run.next_step == 3:
            raise make_error(CuratorUnreachable)

    barriers["b:2"].before_gradient = fail
    out = ("--out", str(tmp_path))
    assert _main(barriers, "train", *BOTH, *SMALL, *out, "--steps", "5") == ExitCode.UNREACHABLE
    error = capsys.readouterr().err
    assert "curator b:2: no answer" in error
    assert f"--resume --out {tmp_path} --curator a:1 --curator b:2" in error

    barriers["b:2"].before_gradient = lambda run: None
    resume = ("train", "--resume", *out)
    assert _main(barriers, *resume, *BOTH[:2], BOTH[-1]) == ExitCode.RECIPE
    assert "holds a run of several curators" in capsys.readouterr().err
    assert _main(barriers, *resume, *BOTH, "--combine", "round-robin") == ExitCode.RECIPE
    gone = ("b:2",)
    assert _main(barriers, *resume, *BOTH, gone=gone) == ExitCode.UNREACHABLE
    assert _used(barriers) == [3, 2]
    done = _main(barriers, *resume, *BOTH, "--on-loss", "continue", gone=gone)
    assert done == ExitCode.OK
    assert _used(barriers) == [5, 2]
    assert _closed(barriers) == [True, False]

    # the curator is back: resuming the finished run closes what is open there
    assert _main(barriers, *resume, *BOTH) == ExitCode.OK
    assert _closed(barriers) == [True, True]
    assert _used(barriers) == [5, 2]


def test_budget_and_plan_show_all_and_name_who_does_not_answer(
    barriers: dict[str, FakeBarrier], capsys: pytest.CaptureFixture[str]
) -> None:
    assert _main(barriers, "budget", *BOTH) == ExitCode.OK
    text = capsys.readouterr().out
    assert text.index("== a:1 ==") < text.index("(6, 1e-05)") < text.index("== b:2 ==")
    assert text.index("== b:2 ==") < text.index("(100, 1e-05)")
    assert _main(barriers, "plan", *BOTH, "--recipe", "dp-sinkhorn-digits") == ExitCode.OK
    text = capsys.readouterr().out
    assert "affordable  6 steps" in text
    assert "affordable  100 steps" in text
    assert _main(barriers, "budget", *BOTH, gone=("a:1",)) == ExitCode.UNREACHABLE
    text = capsys.readouterr().out
    assert "no answer" in text
    assert "(100, 1e-05)" in text
    assert not any(barrier.opened for barrier in barriers.values())


def test_runs_of_every_curator_are_listed(
    barriers: dict[str, FakeBarrier], capsys: pytest.CaptureFixture[str]
) -> None:
    for steps, barrier in enumerate(barriers.values(), start=3):
        barrier.open_run("", "dp-sinkhorn", {}, num_steps=steps)
    assert _main(barriers, "runs", *BOTH) == ExitCode.OK
    text = capsys.readouterr().out
    assert text.index("== a:1 ==") < text.index("0 of 3") < text.index("== b:2 ==")
    assert text.index("== b:2 ==") < text.index("0 of 4")
    assert _main(barriers, "runs", *BOTH, gone=("a:1",)) == ExitCode.UNREACHABLE
    text = capsys.readouterr().out
    assert "no answer" in text
    assert "0 of 4" in text


def test_close_ends_what_can_be_reached(
    barriers: dict[str, FakeBarrier], capsys: pytest.CaptureFixture[str]
) -> None:
    for barrier in barriers.values():
        barrier.open_run("", "dp-sinkhorn", {}, num_steps=3)
    close = ("close", "run-0+run-0", *BOTH)
    assert _main(barriers, *close, gone=("a:1",)) == ExitCode.UNREACHABLE
    assert [b.accounts["run-0"].closed for b in barriers.values()] == [False, True]
    assert _main(barriers, *close) == ExitCode.OK
    assert barriers["a:1"].accounts["run-0"].closed


def test_close_needs_no_run_at_a_curator_that_has_none(barriers: dict[str, FakeBarrier]) -> None:
    barriers["a:1"].open_run("", "dp-sinkhorn", {}, num_steps=3)
    assert _main(barriers, "close", "run-0+-", *BOTH) == ExitCode.OK
    assert barriers["a:1"].accounts["run-0"].closed
    assert not barriers["b:2"].accounts


def test_embeddings_are_added_and_then_cost_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    values = [torch.rand((10, 21), generator=torch.Generator().manual_seed(s)).double() * 90
              for s in (1, 2)]  # fmt: skip
    releasing = {name: ReleasingBarrier(v) for name, v in zip(("a:1", "b:2"), values, strict=True)}
    barriers: dict[str, FakeBarrier] = dict(releasing)
    file = tmp_path / "federation.toml"
    file.write_text(
        '[[curator]]\naddress = "a:1"\ninsecure_loopback = true\nweight = 2.0\n'
        '[[curator]]\naddress = "b:2"\ninsecure_loopback = true\n'
    )
    out = tmp_path / "run"
    run = ("train", "--federation", str(file), "--out", str(out))
    guided = ("--set", "training.guidance=0.5")  # by no teacher: told before a release is charged
    assert _main(barriers, *run, *EMBEDDING, *guided) == ExitCode.RECIPE
    assert [barrier.opened for barrier in releasing.values()] == [[], []]
    assert _main(barriers, *run, *EMBEDDING) == ExitCode.OK
    assert [barrier.num_downloads for barrier in releasing.values()] == [1, 1]
    assert [barrier.asked for barrier in releasing.values()] == [[], []]
    assert all(barrier.accounts["run-0"].closed for barrier in releasing.values())
    embedding = load_embedding(out / "embedding.safetensors")
    torch.testing.assert_close(embedding.sums_KR, 2 * values[0] + values[1], rtol=0, atol=0)
    assert json.loads((out / "federation.json").read_text())["combine"] == "sum"

    capsys.readouterr()
    assert _main(barriers, *run, "--resume", gone=("a:1", "b:2")) == ExitCode.OK
    assert "nothing to resume" in capsys.readouterr().err
    again = ("train", *BOTH, "--combine", "sum", "--out", str(tmp_path / "x"), *SMALL)
    assert _main(barriers, *again) == ExitCode.RECIPE
    assert "has no release to add" in capsys.readouterr().err
    download = ("embedding", "download", *BOTH, "--run", "run-0", "--out", "x.safetensors")
    assert _main(barriers, *download) == ExitCode.RECIPE
    assert "takes one curator" in capsys.readouterr().err
