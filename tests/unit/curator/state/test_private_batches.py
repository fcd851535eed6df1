"""What a mechanism with a state is given of the records: all once, or fresh samples on demand."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from curator.accounting.events.sampled_sum import SampledSumEvent
from curator.data.sampling import PrivateRecords
from curator.errors import PolicyRefused
from curator.ledger.datasets_and_runs import RunState
from curator.mechanisms.catalogue import parse_mechanism
from curator.mechanisms.dp_cgan import DpCgan
from curator.mechanisms.gs_wgan_mean import GsWganMean
from curator.service.answer_step import release_gradient
from curator.service.open_run import RunRequest, open_run
from curator.service.service import Service
from curator.state.asking import private_batches
from tests.fakes.curator import ALICE, CRITICS, service, small_images, step_request
from tests.fakes.facts import small_facts
from tests.fakes.noise import NoNoise, SeededNoise

CRITIC: dict[str, Any] = {
    "sampling_rate": 0.5,
    "capacity": 8,
    "expected_batch_size": 2.5,
    "num_samples": 4,
    "num_fakes": 2,
    "clip_norm": 0.5,
    "noise_multiplier": 30.0,
    "max_size": 10,
    "max_records_per_unit": 1,
    "critic": "mlp",
    "critic_width": 2,
    "critic_seed": 1,
    "critic_steps": 3,
    "critic_learning_rate": 0.01,
}


class Counted:
    """Records that count what is taken of them."""

    def __init__(self) -> None:
        self.inner = PrivateRecords(small_images())
        self.samples = self.passes = 0

    def poisson_batch(self, *arguments: Any) -> Any:
        self.samples += 1
        return self.inner.poisson_batch(*arguments)

    def batches(self, rows: int) -> Any:
        self.passes += 1
        return self.inner.batches(rows)

    def is_whole(self) -> bool:
        return self.inner.is_whole()


def asked(ctx: Service, **changes: Any) -> RunState:
    return open_run(
        ctx,
        ALICE,
        RunRequest(
            dataset="small",
            mechanism="dp-cgan",
            parameters_json=json.dumps(CRITIC | changes),
            num_steps=5,
            idempotency_key="a" * 16,
        ),
    )


def test_all_records_come_once_and_samples_never_end() -> None:
    space = small_facts().space
    records = PrivateRecords(small_images())
    once = parse_mechanism("gs-wgan-mean", json.dumps(CRITICS), space)
    assert isinstance(once, GsWganMean)
    whole = list(private_batches(once, records, NoNoise()))
    assert sum(int(sealed.unseal().mask_M.sum()) for sealed in whole) == 5
    often = parse_mechanism("dp-cgan", json.dumps(CRITIC), space)
    assert isinstance(often, DpCgan)
    drawn = itertools.islice(private_batches(often, records, SeededNoise(2)), 40)
    sizes = [int(sealed.unseal().mask_M.sum()) for sealed in drawn]
    assert len(sizes) == 40
    assert len(set(sizes)) > 1


def test_a_step_takes_a_sample_for_each_update_and_only_after_its_charge() -> None:
    counted: Any = Counted()
    ctx = service(records=counted)
    run = asked(ctx)
    assert isinstance(ctx.runs.live[run.run_id].mechanism.step_event(), SampledSumEvent)
    assert (counted.samples, counted.passes) == (0, 0)
    for step in (1, 2):
        answer = release_gradient(ctx, ALICE, step_request(run.run_id, step)).result(10)
        assert answer.step == step
        assert (counted.samples, counted.passes) == (3 * step, 0)
    assert ctx.runs.ledger.run(run.run_id).used >= 2


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"sampling_rate": 0.6}, "sampling_rate"),
        ({"capacity": 9}, "capacity"),
        ({"max_size": 9}, "max_size"),
    ],
)
def test_samples_beyond_the_declared_ones_are_refused(change: dict[str, Any], words: str) -> None:
    with pytest.raises(PolicyRefused, match=words):
        asked(service(), **change)
