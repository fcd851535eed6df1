"""A process that computes critics is killed -9 between and within steps; another one goes on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor

from curator.data.sampling import PrivateRecords
from curator.mechanisms.gs_wgan_mean import GsWganMean, GsWganMeanSpec
from curator.privacy.batches import Samples
from curator.privacy.release import LatticeBlock
from curator.state import on_disk
from curator.state.in_memory import StateInMemory
from curator.state.journal import Journal
from curator.state.on_disk import StateOnDisk
from tests.fakes.curator import CRITICS, small_images
from tests.fakes.facts import small_facts
from tests.fakes.noise import NoNoise

ROOT = Path(__file__).resolve().parent.parent.parent
STEPS = 400


def critics() -> GsWganMean:
    changes = {"critic": "conv", "critic_steps": 2, "critic_learning_rate": 0.1}
    return GsWganMean(GsWganMeanSpec(**(CRITICS | changes)), small_facts().space)


def samples(step: int) -> Samples:
    images = torch.full((4, 4), (step % 19) / 10 - 0.9)
    return Samples(images_ND=images, labels_N=torch.arange(4) % 3)


def step_of(held: StateInMemory, step: int, asked: int | None = None) -> Tensor:
    number = step if asked is None else asked
    records = PrivateRecords(small_images())
    (block,) = held.step(step, critics(), records, samples(number), NoNoise()).blocks
    assert isinstance(block, LatticeBlock)
    return block.integers


def compute(folder: str) -> None:
    """Answer steps until killed; run by a child."""
    on_disk.STATE_EVERY = 5
    held = StateInMemory(0, StateOnDisk(Path(folder)))
    for step in range(1, STEPS + 1):
        step_of(held, step)
        print(step, flush=True)  # noqa: T201 - to the parent


@pytest.mark.parametrize("answers", [1, 4, 13])
def test_a_killed_process_is_gone_on_from(tmp_path: Path, answers: int) -> None:
    StateOnDisk(tmp_path).start()
    code = f"from tests.crash.test_state_kill import compute; compute({str(tmp_path)!r})"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as child:
        assert child.stdout is not None
        for _ in range(answers):
            child.stdout.readline()
        child.kill()
        told = [int(line) for line in child.stdout.read().split()]
    last = max([answers, *told])
    known = [entry.step for entry in Journal(tmp_path / "journal").read()]
    state = tmp_path / "state.safetensors"
    begun = max([on_disk._read(state)[0], *known] if state.exists() else known)
    assert last <= begun <= last + 1  # answered steps are kept; the next one may have begun
    undisturbed = StateInMemory(0)
    for step in range(1, begun + 1):
        step_of(undisturbed, step)
    mark = begun + 3  # charged ahead by the process that died
    resumed = StateInMemory(mark, StateOnDisk(tmp_path))
    for number in range(3):
        wanted = step_of(undisturbed, begun + 1 + number, asked=mark + 1 + number)
        assert torch.equal(step_of(resumed, mark + 1 + number), wanted)
