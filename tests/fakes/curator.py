"""The use cases on a memory ledger, with a mechanism that records what it was given."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import numpy as np
import torch

from curator.data.images import LabelledImages
from curator.data.sampling import PrivateRecords
from curator.ledger.datasets_and_runs import DatasetRegistration, RunState
from curator.ledger.memory import MemoryLedger
from curator.planning.planner import Planner
from curator.privacy.batches import Samples
from curator.privacy.facts import DatasetFacts
from curator.privacy.noise import NoiseSource
from curator.service.answer_step import StepRequest
from curator.service.caller import Caller, Role
from curator.service.limits import Limits
from curator.service.open_run import RunRequest, open_run
from curator.service.runs import Runs
from curator.service.served_datasets import ServedDataset, ServedDatasets
from curator.service.service import Computing, Service
from curator.state.folder import StateFolder
from tests.fakes.facts import small_facts
from tests.fakes.noise import SeededNoise

ALICE, BOB = Caller("alice", Role.ANALYST), Caller("bob", Role.ANALYST)
STEWARD = Caller("steward", Role.STEWARD)

SINKHORN: dict[str, Any] = {
    "sampling_rate": 0.5,
    "capacity": 8,
    "num_samples": 3,
    "num_debias": 1,
    "clip_norm": 0.5,
    "noise_multiplier": 30.0,
    "reg": 0.5,
    "l1_weight": 1.0,
    "label_scale": 3.0,
    "schedule": "published",
}
CRITICS: dict[str, Any] = {
    "num_critics": 2,
    "shard_capacity": 4,
    "num_samples": 4,
    "clip_norm": 0.5,
    "noise_multiplier": 30.0,
    "critic": "mlp",
    "critic_width": 2,
    "critic_seed": 1,
    "critic_batch": 2,
    "critic_steps": 1,
    "warm_start_steps": 1,
    "critic_learning_rate": 0.01,
    "gradient_penalty": 1.0,
}
EMBEDDING: dict[str, Any] = {
    "num_features": 8,
    "bandwidths": [1.0],
    "feature_seed": 1,
    "noise_multiplier": 1.0,
    "count_scale": 0.5,
}


def memory_ledger(facts: DatasetFacts | None = None) -> MemoryLedger:
    facts = facts or small_facts()
    ledger = MemoryLedger(lambda: datetime(2026, 1, 1, tzinfo=UTC))
    ledger.register_dataset(
        DatasetRegistration(
            name=facts.name,
            budget=facts.budget,
            adjacency=facts.adjacency,
            facts_json=facts.model_dump_json(),
        )
    )
    return ledger


def small_images() -> LabelledImages:
    levels = (np.arange(20, dtype=np.uint8) % 17).reshape(5, 1, 2, 2)
    return LabelledImages(levels=levels, labels=np.array([0, 1, 2, 1, 0]))


class SmallLimits(Limits):
    """In bytes, where whole MiB are too coarse for a test."""

    max_samples: int = 64
    message_bytes: int = 64 << 20
    state_bytes: int = 4 << 30

    @property
    def max_message_bytes(self) -> int:
        return self.message_bytes

    @property
    def max_state_bytes(self) -> int:
        return self.state_bytes


def service(
    ledger: Any = None,  # a `Ledger`, or what passes all but a few of its methods on
    *,
    holder: str = "first",
    records: PrivateRecords | None = None,
    noise: NoiseSource | None = None,
    monotonic: Callable[[], float] = lambda: 0.0,
    states: StateFolder | None = None,
    executor: Executor | None = None,
    preparing: Executor | None = None,
) -> Service:
    facts = small_facts()
    served = ServedDataset(facts=facts, records=records or PrivateRecords(small_images()))
    return Service(
        runs=Runs(
            ledger=ledger or memory_ledger(facts),
            datasets=ServedDatasets([served]),
            holder=holder,
            states=states,
            monotonic=monotonic,
        ),
        computing=Computing(
            noise=noise or SeededNoise(1),
            executor=executor or ThreadPoolExecutor(2),
            preparing=preparing,
        ),
        limits=SmallLimits(),
    )


def planner(ctx: Service) -> Planner:
    runs = ctx.runs
    return Planner(
        ledger=runs.ledger,
        facts=runs.datasets.facts,
        limits=ctx.limits,
        in_service=runs.datasets.is_in_service,
    )


def opened(
    ctx: Service,
    mechanism: str = "dp-sinkhorn",
    *,
    num_steps: int = 5,
    caller: Caller = ALICE,
    key: str = "a" * 16,
    **changes: Any,
) -> RunState:
    known = {
        "dp-sinkhorn": SINKHORN,
        "gs-wgan-mean": CRITICS,
        "gs-wgan-round-robin": CRITICS,
    }
    parameters = known.get(mechanism, EMBEDDING) | changes
    request = RunRequest(
        dataset="small",
        mechanism=mechanism,
        parameters_json=json.dumps(parameters),
        num_steps=num_steps,
        idempotency_key=key,
    )
    return open_run(ctx, caller, request)


def step_request(run_id: str, step: int, value: float = 0.25, rows: int = 4) -> StepRequest:
    samples = Samples(images_ND=torch.full((rows, 4), value), labels_N=torch.arange(rows) % 3)
    return StepRequest(run_id=run_id, step=step, samples=samples)
