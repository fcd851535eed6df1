"""The same steps without a transport: the mechanism alone, or the service with a ledger."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from benchmarks.served import DATASET, Shape, facts
from curator.clock import utc_now
from curator.data.images import LabelledImages
from curator.data.sampling import PrivateRecords
from curator.divergences.backend import Backend, choose_backend
from curator.ledger.anchor import HeadAnchor
from curator.ledger.datasets_and_runs import DatasetRegistration
from curator.ledger.ledger import Ledger
from curator.ledger.memory import MemoryLedger
from curator.ledger.sql_ledger import SqlLedger
from curator.mechanisms.catalogue import parse_mechanism
from curator.mechanisms.dp_sinkhorn import DpSinkhorn
from curator.privacy.adjacency import Adjacency, Relation, Unit
from curator.privacy.batches import Samples
from curator.privacy.budget import Budget
from curator.privacy.release import Release
from curator.sanitizer.entropy import OsEntropy
from curator.sanitizer.prefetched import PrefetchedNoise
from curator.service.answer_step import StepRequest, release_gradient
from curator.service.caller import Caller, Role
from curator.service.fair_turns import InTurn
from curator.service.limits import Limits
from curator.service.open_run import RunRequest, open_run
from curator.service.runs import Runs
from curator.service.served_datasets import ServedDataset, ServedDatasets
from curator.service.service import Computing, Service

Step = Callable[[Tensor, Tensor], Release]
_NOISE_AHEAD = 1 << 18
_NUM_STEPS = 20_000


@contextmanager
def mechanism_alone(
    shape: Shape, records: PrivateRecords | None = None, *, noise_on: str = "cpu"
) -> Iterator[Step]:
    """Give one step of the mechanism: sampling, gradient, release; nothing is charged.

    Args:
        shape: Of images and steps.
        records: Private records; random ones by default.
        noise_on: Device on which uniform words become noise.

    Raises:
        TypeError: Never: the catalogue has the mechanism under this name.
    """
    choose_backend(Backend.AUTO)
    noise = PrefetchedNoise(OsEntropy(torch.device(noise_on)), _NOISE_AHEAD)
    sampled = records or random_records(shape)
    text = json.dumps(shape.parameters())
    mechanism = parse_mechanism("dp-sinkhorn", text, facts(shape).space)
    if not isinstance(mechanism, DpSinkhorn):
        raise TypeError

    def step(images: Tensor, labels: Tensor) -> Release:
        batch = sampled.poisson_batch(mechanism.spec.rate, mechanism.spec.capacity, noise)
        return mechanism.gradient(_samples(images, labels), batch, noise)

    try:
        yield step
    finally:
        noise.stop()


@contextmanager
def service(shape: Shape, folder: Path | None) -> Iterator[Step]:
    """Give one step of the service: claim, charge, compute in the executor.

    Args:
        shape: Of images and steps.
        folder: Where the ledger is written; None keeps it in memory.
    """
    choose_backend(Backend.AUTO)
    ledger = _ledger(folder)
    declared = facts(shape)
    ledger.register_dataset(
        DatasetRegistration(
            name=DATASET,
            budget=Budget(epsilon=declared.epsilon, delta=declared.delta),
            adjacency=Adjacency(relation=Relation.ADD_OR_REMOVE, unit=Unit.RECORD),
            facts_json=declared.model_dump_json(),
        )
    )
    noise = PrefetchedNoise(OsEntropy(), _NOISE_AHEAD)
    with InTurn(1) as executor:
        served = ServedDataset(facts=declared, records=random_records(shape))
        service = Service(
            runs=Runs(ledger=ledger, datasets=ServedDatasets([served]), holder="benchmark"),
            computing=Computing(noise=noise, executor=executor),
            limits=Limits(),
        )
        caller = Caller("a", Role.ANALYST)
        run = open_run(
            service,
            caller,
            RunRequest(
                dataset=DATASET,
                mechanism="dp-sinkhorn",
                parameters_json=json.dumps(shape.parameters()),
                num_steps=_NUM_STEPS,
                idempotency_key="benchmark-0123456789",
            ),
        )
        taken = iter(range(1, _NUM_STEPS + 1))

        def step(images: Tensor, labels: Tensor) -> Release:
            number = next(taken)
            request = StepRequest(
                run_id=run.run_id,
                step=number,
                samples=_samples(images, labels),
            )
            return release_gradient(service, caller, request).result().release

        yield step
    noise.stop()


def random_records(shape: Shape) -> PrivateRecords:
    """Return random private records.

    Args:
        shape: Of the images.
    """
    generator = np.random.default_rng(0)
    sizes = (shape.num_records, 1, shape.side, shape.side)
    levels = generator.integers(0, 256, sizes, dtype=np.uint8)
    labels = np.arange(shape.num_records, dtype=np.int64) % 10
    return PrivateRecords(LabelledImages(levels=levels, labels=labels))


def _samples(images: Tensor, labels: Tensor) -> Samples:
    return Samples(images_ND=images.reshape(len(images), -1), labels_N=labels)


def _ledger(folder: Path | None) -> Ledger:
    if folder is None:
        return MemoryLedger(utc_now)
    anchor = HeadAnchor(folder / "head.json")
    return SqlLedger.open_writer(folder / "ledger.sqlite", utc_now, anchor)
