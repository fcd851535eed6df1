"""A process that computes critics is killed -9 between and within steps; another one goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
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


def compute() -> None:
    """Answer steps until killed, for each folder in a child forked for it."""
    on_disk.STATE_EVERY = 5
    for folder in sys.stdin:
        child = os.fork()
        if not child:
            print(os.getpid(), flush=True)  # noqa: T201 - to the parent
            held = StateInMemory(0, StateOnDisk(Path(folder.strip())))
            for step in range(1, STEPS + 1):
                step_of(held, step)
                print(step, flush=True)  # noqa: T201
            os._exit(1)
        ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        print("killed" if ended == -signal.SIGKILL else f"ended with {ended}", flush=True)  # noqa: T201


@pytest.fixture(scope="module")
def parent() -> Iterator[subprocess.Popen[str]]:
    """A process that has imported what its children compute with, and has computed nothing."""
    code = "from tests.crash.test_state_kill import compute; compute()"
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    ) as process:
        yield process


@pytest.mark.parametrize("answers", [1, 4, 13])
def test_a_killed_process_is_gone_on_from(
    parent: subprocess.Popen[str], tmp_path: Path, answers: int
) -> None:
    StateOnDisk(tmp_path).start()
    assert parent.stdin is not None
    assert parent.stdout is not None
    parent.stdin.write(f"{tmp_path}\n")
    parent.stdin.flush()
    child = int(parent.stdout.readline())
    for _ in range(answers):
        parent.stdout.readline()
    os.kill(child, signal.SIGKILL)
    told = [int(line) for line in iter(parent.stdout.readline, "killed\n")]
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
