"""The time from a step to its answer over the local wire does not tell what the private batch held.

As `test_timing`, but of what an analyst can time: a whole curator with its ledger, over the socket
for steps, which adds least to what is computed. Its one data set is another one at each step, in an
order drawn at random: equal to the generated images, near, far, of few records, and with empty and
full batches. A planted delay of about a tenth of a step must be told apart.

Steps are also compared without those that were interrupted: on a busy machine most take several
times as long as the others. What is left is decided by all times together, so that the order of the
sets is still a random one, and both comparisons together alarm falsely with probability 1e-6.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, final

import numpy as np
import pytest
import torch

from analyst.client.codec import encode_step
from analyst.client.local_steps import LocalSteps
from curator.config import CuratorConfig, GrpcSection, RestSection
from curator.data.binomial import draw_count
from curator.data.images import LabelledImages
from curator.data.sampling import PrivateRecords
from curator.mechanisms.dp_sinkhorn import DpSinkhorn
from curator.privacy.batches import RecordBatch
from curator.privacy.event_numbers import SamplingRate
from curator.privacy.noise import NoiseSource
from curator.privacy.private import Private
from curator.process import bootstrap
from curator.sanitizer.entropy import OsEntropy
from curator.service.served_datasets import ServedDataset
from tests.e2e.conftest import SINKHORN, Local, digits_facts, digits_folder, socket_of, token
from tests.statistical.test_timing import (
    COPIES,
    FAMILY_ERROR,
    LABELS,
    ROWS,
    in_random_order,
    levels,
    private_sets,
    smallest_p,
)

pytestmark = pytest.mark.statistical

FEW = 100  # records, where the others have 320
TRIES = 4  # more answers to tell a fault by, on a machine that is busy


@final
class Turns:
    """Private records that are those of another set at each step, all in one place of memory.

    Nothing is drawn ahead, so that drawing a sample is timed, too.
    """

    def __init__(self) -> None:
        self.name = ""
        self.levels = private_sets()
        self.levels["few"] = self.levels["far"]
        self.held = np.zeros_like(self.levels["equal"])
        labels = np.tile(LABELS.numpy(), COPIES).astype(np.int64)
        self.records = {
            name: PrivateRecords(
                LabelledImages(levels=self.held[:number], labels=labels[:number]),
                digits_facts().max_size,
            )
            for name in self.levels
            for number in [FEW if name == "few" else len(labels)]
        }

    def put(self, name: str) -> None:
        self.name = name
        self.held[...] = self.levels[name]

    def poisson_batch(
        self, rate: SamplingRate, capacity: int, noise: NoiseSource
    ) -> Private[RecordBatch]:
        return self.records[self.name].poisson_batch(rate, capacity, noise)

    def draw_ahead(self, *_: Any) -> None:
        pass

    def draw_count(
        self, num_units: int, rate: SamplingRate, noise: NoiseSource, max_units: int
    ) -> int:
        """Draw as always, and replace what was drawn for the sets of empty and full batches."""
        count = draw_count(num_units, rate, noise, max_units)
        return {"empty": 0, "full": num_units}.get(self.name, count)

    def is_whole(self) -> bool:
        return True


Times = Callable[[list[str], int], dict[str, np.ndarray]]


@pytest.fixture
def times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Times]:
    """Return a function that gives the seconds of that many answers for each set."""
    turns = Turns()
    records: Any = turns
    served = ServedDataset(facts=digits_facts(), records=records)
    monkeypatch.setattr(bootstrap, "load_datasets", lambda *_: [served])
    monkeypatch.setattr("curator.data.sampling.draw_count", turns.draw_count)
    folder = digits_folder(tmp_path / "curator")
    place = str(socket_of(folder))
    curator = bootstrap.create_curator(
        folder,
        CuratorConfig(grpc=GrpcSection(port=0, unix_socket=place), rest=RestSection(port=0)),
    )
    curator.start()
    local = Local(folder=folder, curator=curator, wire="local")
    images = torch.from_numpy(levels()).float() / 8 - 1
    parameters = SINKHORN | {"num_samples": ROWS, "num_debias": 0, "noise_multiplier": 30.0}

    with local.connect() as barrier:
        run = barrier.open_run("digits", "dp-sinkhorn", parameters, num_steps=20_000)
    numbers = itertools.count(1)
    steps = LocalSteps(Path(f"{place}.steps"), f"Bearer {token(folder, 'alice')}", 60.0, 0)

    def answer() -> None:
        steps.send(encode_step(run.run_id, next(numbers), images, LABELS))
        steps.receive()

    with closing(steps):
        yield lambda names, calls: in_random_order(names, turns.put, answer, calls)
    curator.draining.set()
    curator.wait()


def told_apart(measured: dict[str, np.ndarray]) -> tuple[float, str]:
    """Return the smaller p-value of all steps and of those that were not interrupted, doubled."""
    most = 1.3 * np.quantile(np.concatenate([*measured.values()]), 0.02)
    undisturbed = {name: seconds[seconds <= most] for name, seconds in measured.items()}
    found = [smallest_p(measured)]
    if all(len(seconds) for seconds in undisturbed.values()):  # else one set is always slower
        found.append(smallest_p(undisturbed))
    p, pair = min(found)
    return min(1.0, 2 * p), pair


def test_a_set_that_takes_its_turn_is_what_is_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is timed is of these sets, of which one has fewer records than the others."""
    turns, rate = Turns(), SamplingRate.at_least(1 - 2.0**-20)
    monkeypatch.setattr("curator.data.sampling.draw_count", turns.draw_count)
    num_rows = {}
    for name, levels_of_set in turns.levels.items():
        turns.put(name)
        batch = turns.poisson_batch(rate, 512, OsEntropy()).unseal()
        rows = batch.levels_MD[batch.mask_M].tolist()
        whole = levels_of_set.reshape(-1, 64).tolist()
        assert all(row in whole for row in rows)
        num_rows[name] = int(batch.mask_M.sum())
    assert (num_rows["empty"], num_rows["full"]) == (0, ROWS * COPIES)
    assert 0 < num_rows["few"] <= FEW < num_rows["far"]


def test_answers_over_the_local_wire_cannot_be_told_apart(times: Times) -> None:
    """So many answers tell distributions apart that are 0.18 apart somewhere."""
    p, pair = told_apart(times(["equal", "near", "far", "few", "empty", "full"], 600))
    assert p > FAMILY_ERROR, pair


def test_a_delay_of_a_tenth_of_a_step_is_told_apart(
    times: Times, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The planted fault: full batches take a third longer than the fastest computation."""
    real, least = DpSinkhorn.gradient, [float("inf")]

    def slower(self: DpSinkhorn, samples: Any, records: Any, noise: Any) -> Any:
        began = time.perf_counter()
        release = real(self, samples, records, noise)
        now = time.perf_counter()
        least[0] = min(least[0], now - began)
        if bool(records.unseal().mask_M.all()):
            while time.perf_counter() < now + least[0] / 3:
                pass
        return release

    monkeypatch.setattr(DpSinkhorn, "gradient", slower)
    measured, found = {"equal": np.empty(0), "full": np.empty(0)}, []
    for _ in range(TRIES):
        more = times([*measured], 1000)
        measured = {name: np.append(measured[name], more[name]) for name in measured}
        found.append(told_apart(measured)[0])
        if found[-1] < FAMILY_ERROR / TRIES:
            return
    raise AssertionError(found)
