"""A stateful run goes on after its process: from files that are its owner's and end with it."""

from __future__ import annotations

import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from curator.accounting.events.none import NoEvent
from curator.data.sampling import PrivateRecords
from curator.errors import CuratorError, RunClosed
from curator.ledger.memory import MemoryLedger
from curator.mechanisms.base import Requirements, StatefulMechanism
from curator.mechanisms.gs_wgan_mean import GsWganMean
from curator.privacy.release import FloatBlock, LatticeBlock, Release
from curator.service.answer_step import release_gradient
from curator.service.end_runs import close_run
from curator.service.find_run import resume_run
from curator.service.service import Service
from curator.state import on_disk
from curator.state.folder import StateFolder
from curator.state.in_memory import StateInMemory
from curator.state.on_disk import StateOnDisk
from tests.fakes.curator import (
    ALICE,
    memory_ledger,
    opened,
    service,
    small_images,
    step_request,
)
from tests.fakes.noise import NoNoise


def keeping(root: Path, ledger: MemoryLedger, holder: str = "first") -> Service:
    return service(ledger, holder=holder, noise=NoNoise(), states=StateFolder(root))


def answer(ctx: Service, run_id: str, step: int, value: float) -> Tensor:
    release = release_gradient(ctx, ALICE, step_request(run_id, step, value)).result(20).release
    (block,) = release.blocks
    assert isinstance(block, LatticeBlock)
    return block.integers


def files(root: Path) -> set[str]:
    return {path.name for path in root.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("critic", "every", "asked"),
    [("mlp", 1, 5), ("mlp", 3, 5), ("mlp", 64, 1), ("conv", 64, 5)],
)
def test_a_run_goes_on_as_if_nothing_had_happened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, critic: str, every: int, asked: int
) -> None:
    monkeypatch.setattr(on_disk, "STATE_EVERY", every)
    values = [0.1 * step for step in range(asked + 3)]
    alone = service(noise=NoNoise())
    run_id = opened(alone, "gs-wgan-mean", num_steps=40, critic=critic).run_id
    wanted = [answer(alone, run_id, step, value) for step, value in enumerate(values, start=1)]

    ledger = memory_ledger()
    first = keeping(tmp_path, ledger)
    run_id = opened(first, "gs-wgan-mean", num_steps=40, critic=critic).run_id
    found = [answer(first, run_id, s, v) for s, v in enumerate(values[:asked], start=1)]
    second = keeping(tmp_path, ledger, "second")
    state, following = resume_run(second.runs, ALICE, run_id)
    assert state.is_open
    assert following == state.used + 1 > asked  # what was charged is not asked again
    for step, value in enumerate(values[asked:], start=following):
        found.append(answer(second, run_id, step, value))
    assert all(torch.equal(a, b) for a, b in zip(found, wanted, strict=True))
    third = keeping(tmp_path, ledger, "third")
    assert resume_run(third.runs, ALICE, run_id)[0].is_open


def test_nothing_is_read_again_before_a_charge(tmp_path: Path) -> None:
    ledger = memory_ledger()
    first = keeping(tmp_path, ledger)
    run_id = opened(first, "gs-wgan-mean", num_steps=40).run_id
    answer(first, run_id, 1, 0.5)
    second = keeping(tmp_path, ledger, "second")
    resume_run(second.runs, ALICE, run_id)
    held = second.runs.live[run_id].held
    assert held is not None
    assert held._state is None


def test_files_are_the_owners_and_hold_no_records(tmp_path: Path) -> None:
    root = tmp_path / "states"
    ctx = keeping(root, memory_ledger())
    run_id = opened(ctx, "gs-wgan-mean", num_steps=9).run_id
    answer(ctx, run_id, 1, 0.5)
    for path in [root, *root.rglob("*")]:
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600)
    assert files(root) == {"state.safetensors", "journal"}
    step, tensors = on_disk._read(next(root.rglob("state.safetensors")))
    assert step == 1
    assert {name.split(".")[0] for name in tensors} == {
        "critics",
        "means",
        "squares",
        "num_updates",
    }


def test_files_end_with_the_run(tmp_path: Path) -> None:
    ledger = memory_ledger()
    ctx = keeping(tmp_path, ledger)
    used_up = opened(ctx, "gs-wgan-mean", num_steps=2).run_id
    closed = opened(ctx, "gs-wgan-mean", num_steps=9, key="b" * 16).run_id
    orphan = opened(ctx, "gs-wgan-mean", num_steps=9, key="c" * 16).run_id
    for run_id in (used_up, closed, orphan):
        answer(ctx, run_id, 1, 0.5)
    folders = tmp_path / "small"
    answer(ctx, used_up, 2, 0.5)
    close_run(ctx.runs, ALICE, closed)
    ctx.computing.executor.shutdown(wait=True)
    assert {path.name for path in folders.iterdir() if files(path)} == {orphan}
    close_run(keeping(tmp_path, ledger, "second").runs, ALICE, orphan)
    assert not files(tmp_path)


def test_what_a_crash_left_of_ended_runs_is_swept(tmp_path: Path) -> None:
    ledger = memory_ledger()
    ctx = keeping(tmp_path, ledger)
    opened(ctx, "gs-wgan-mean")
    ended = opened(ctx, "gs-wgan-mean", key="b" * 16)
    ledger.close_run(ended.run_id, ctx.runs.holder, ended.epoch, 0, "the process died here")
    states = StateFolder(tmp_path)
    states.forget_all_but(ledger.open_runs())
    assert len(list((tmp_path / "small").iterdir())) == 1
    states.forget_dataset("small")
    assert not files(tmp_path)


def test_lost_files_end_the_run(tmp_path: Path) -> None:
    ledger = memory_ledger()
    first = keeping(tmp_path, ledger)
    run_id = opened(first, "gs-wgan-mean", num_steps=40).run_id
    answer(first, run_id, 1, 0.5)
    StateFolder(tmp_path).forget_dataset("small")
    with pytest.raises(RunClosed, match="state was lost"):
        resume_run(keeping(tmp_path, ledger, "second").runs, ALICE, run_id)
    assert not ledger.run(run_id).is_open


def test_a_replaced_holder_finds_nothing_to_write_to(tmp_path: Path) -> None:
    ledger = memory_ledger()
    first = keeping(tmp_path, ledger)
    run_id = opened(first, "gs-wgan-mean", num_steps=40).run_id
    answer(first, run_id, 1, 0.5)
    second = keeping(tmp_path, ledger, "second")
    following = resume_run(second.runs, ALICE, run_id)[1]
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(CuratorError):
        answer(first, run_id, 2, 0.7)  # charged before it was replaced
    assert before == {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    answer(second, run_id, following, 0.9)


def test_a_torn_last_entry_was_never_answered(tmp_path: Path) -> None:
    ledger = memory_ledger()
    first = keeping(tmp_path, ledger)
    run_id = opened(first, "gs-wgan-mean", num_steps=40).run_id
    for step in range(1, 4):
        answer(first, run_id, step, step / 10)
    journal = next(tmp_path.rglob("journal"))
    whole = journal.read_bytes()
    for cut in (1, 47, 60):
        journal.write_bytes(whole + whole[:cut])
        second = keeping(tmp_path, ledger, f"second {cut}")
        following = resume_run(second.runs, ALICE, run_id)[1]
        moved = next(tmp_path.rglob("journal"))
        answer(second, run_id, following, 0.5)
        assert moved.read_bytes()[: len(whole)] == whole
        journal, whole = moved, moved.read_bytes()


class Counting(StatefulMechanism):
    """A mechanism whose state depends on what it released: kept at every step."""

    durability = "every-step"

    def __init__(self) -> None:
        self.starts = 0

    def requirements(self) -> Requirements:
        return Requirements(
            samples=None, max_size=None, max_records_per_unit=None, numbers_per_row=2
        )

    def step_event(self) -> NoEvent:
        return NoEvent()

    def start(self, batches: Any) -> Tensor:
        self.starts += 1
        return torch.zeros(2)

    def gradient(self, state: Tensor, samples: Any, noise: Any) -> tuple[Tensor, Release]:
        after = state + samples.images_ND.mean()
        return after, Release(blocks=(FloatBlock(values=after.reshape(1, 2)),))

    def pack(self, state: Tensor) -> dict[str, Tensor]:
        return {"sum": state[:1], "again": state}  # of one storage

    def unpack(self, tensors: Mapping[str, Tensor], batches: Any) -> Tensor:
        return tensors["again"]


def begun(root: Path) -> StateOnDisk:
    run = opened(service(), "gs-wgan-mean")
    kept = StateFolder(root).open(run)
    assert kept is not None
    return kept


def stepped(held: StateInMemory, mechanism: Any, step: int) -> Release:
    samples = step_request("", step).samples
    return held.step(step, mechanism, PrivateRecords(small_images()), samples, NoNoise())


def test_a_state_of_every_step_is_on_disk_before_the_answer_leaves(tmp_path: Path) -> None:
    kept, mechanism = begun(tmp_path), Counting()
    held = StateInMemory(0, kept)
    for step in range(1, 4):
        stepped(held, mechanism, step)
        found, tensors = on_disk._read(next(tmp_path.rglob("state.safetensors")))
        assert found == step
        assert torch.equal(tensors["again"], torch.full((2,), 0.25 * step))
    again = stepped(StateInMemory(3, kept), mechanism, 4).blocks[0]
    assert isinstance(again, FloatBlock)
    assert torch.equal(again.values, torch.full((1, 2), 1.0))
    assert mechanism.starts == 1


def test_what_cannot_be_kept_is_not_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, mechanism = begun(tmp_path), Counting()
    held = StateInMemory(0, kept)
    stepped(held, mechanism, 1)
    kept.forget()
    with pytest.raises(Exception, match=r"."):
        stepped(held, mechanism, 2)


def test_a_state_that_can_be_replayed_may_be_written_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError

    ledger = memory_ledger()
    first = keeping(tmp_path, ledger)
    run_id = opened(first, "gs-wgan-mean", num_steps=40).run_id
    with monkeypatch.context() as patch:
        patch.setattr(on_disk, "save_file", full)
        for step in (1, 2):
            answer(first, run_id, step, step / 10)
    assert files(tmp_path) == {"journal"}
    answer(first, run_id, 3, 0.3)
    assert files(tmp_path) == {"journal", "state.safetensors"}
    assert resume_run(keeping(tmp_path, ledger, "second").runs, ALICE, run_id)[0].is_open


def test_a_step_that_failed_is_passed_over_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = GsWganMean.gradient

    def failing(self: GsWganMean, state: Any, samples: Any, noise: Any) -> Any:
        if float(samples.images_ND[0, 0]) == 0.5:
            raise ValueError("row 17")
        return real(self, state, samples, noise)

    monkeypatch.setattr(GsWganMean, "gradient", failing)
    wanted = None
    for root, ledger in ((tmp_path / "alone", memory_ledger()), (tmp_path, memory_ledger())):
        ctx = keeping(root, ledger)
        run_id = opened(ctx, "gs-wgan-mean", num_steps=40).run_id
        answer(ctx, run_id, 1, 0.1)
        with pytest.raises(CuratorError):
            answer(ctx, run_id, 2, 0.5)
        answer(ctx, run_id, 3, 0.3)
        if wanted is None:
            wanted = answer(ctx, run_id, 4, 0.4)
            continue
        second = keeping(root, ledger, "second")
        following = resume_run(second.runs, ALICE, run_id)[1]
        assert torch.equal(answer(second, run_id, following, 0.4), wanted)
