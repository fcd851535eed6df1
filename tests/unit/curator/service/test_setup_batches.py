"""Opening a run of DP-MERF-AE: samples and records after the charge, and never twice."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from curator.data.images import LabelledImages
from curator.data.sampling import PrivateRecords
from curator.errors import PolicyRefused, RunClosed
from curator.ledger.datasets_and_runs import RunState
from curator.mechanisms.catalogue import parse_mechanism
from curator.mechanisms.dp_merf_ae import DpMerfAe
from curator.mechanisms.mean_embedding import MeanEmbedding
from curator.sanitizer.post_process import release_values
from curator.service.answer_step import release_gradient
from curator.service.find_run import resume_run
from curator.service.one_release import download_release
from curator.service.open_run import RunRequest, open_run
from curator.service.service import Service
from curator.service.steward_policy import StewardPolicy
from curator.state import asking
from curator.state.asking import num_private_batches, private_batches
from tests.fakes.curator import (
    ALICE,
    EMBEDDING,
    memory_ledger,
    service,
    small_images,
    step_request,
)
from tests.fakes.facts import small_facts
from tests.fakes.noise import SeededNoise
from tests.unit.curator.state.test_private_batches import Counted

AUTOENCODER: dict[str, Any] = {
    "sampling_rate": 0.5,
    "capacity": 8,
    "expected_batch_size": 2.5,
    "max_size": 10,
    "max_records_per_unit": 1,
    "autoencoder": "mlp",
    "hidden_width": 3,
    "code_width": 2,
    "autoencoder_seed": 1,
    "clip_norm": 0.5,
    "training_noise_multiplier": 30.0,
    "training_steps": 3,
    "training_learning_rate": 0.01,
    "averaging": 0.5,
    "num_features": 8,
    "bandwidths": [0.5],
    "feature_seed": 1,
    "noise_multiplier": 20.0,
    "count_scale": 0.5,
}
WIDTH, WEIGHTS = 9, 4 * 3 + 3 + 3 * 2 + 2 + 2 * 3 + 3 + 3 * 4 + 4
ROWS = -(-WEIGHTS // WIDTH) + 3


def asked(ctx: Service, **changes: Any) -> RunState:
    request = RunRequest(
        dataset="small",
        mechanism="dp-merf-ae",
        parameters_json=json.dumps(AUTOENCODER | changes),
        num_steps=100,
        idempotency_key="a" * 16,
    )
    return open_run(ctx, ALICE, request)


def test_samples_come_first_and_then_every_record_once() -> None:
    space, records = small_facts().space, PrivateRecords(small_images())
    trained = parse_mechanism("dp-merf-ae", json.dumps(AUTOENCODER), space)
    assert isinstance(trained, DpMerfAe)
    sealed = [one.unseal() for one in private_batches(trained, records, SeededNoise(2))]
    assert [len(batch.mask_M) for batch in sealed[:3]] == [8, 8, 8]
    assert sum(int(batch.mask_M.sum()) for batch in sealed[3:]) == 5
    once = parse_mechanism("mean-embedding", json.dumps(EMBEDDING), space)
    assert isinstance(once, MeanEmbedding)
    whole = [one.unseal() for one in private_batches(once, records, SeededNoise(2))]
    assert sum(int(batch.mask_M.sum()) for batch in whole) == 5


@pytest.mark.parametrize("most", [None, 3])
def test_how_many_batches_there_are_is_known_from_public_facts(
    most: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of records and of groups, of any number of them that the facts admit."""
    monkeypatch.setattr(asking, "PASS_ROWS", 2)
    unit = "record" if most is None else "group"
    facts, images = small_facts(unit=unit, max_records_per_group=most), small_images()
    for name, parameters in (("mean-embedding", EMBEDDING), ("dp-merf-ae", AUTOENCODER)):
        mechanism = parse_mechanism(name, json.dumps(parameters), facts.space)
        assert isinstance(mechanism, MeanEmbedding | DpMerfAe)
        for number in (0, 2, 5):
            held = LabelledImages(
                levels=images.levels[:number],
                labels=images.labels[:number],
                groups=None if most is None else np.arange(number) // 2,
                max_per_group=most,
            )
            records = PrivateRecords(held, facts.max_size)
            batches = list(private_batches(mechanism, records, SeededNoise(2)))
            assert len(batches) == num_private_batches(mechanism, facts)


def test_nothing_is_read_before_the_charge_and_each_sample_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counted: Any = Counted()
    ctx = service(records=counted)
    charged, begin = [], ctx.runs.ledger.begin_setup

    def noting(*given: Any) -> Any:
        charged.append((counted.samples, counted.passes))
        return begin(*given)

    monkeypatch.setattr(ctx.runs.ledger, "begin_setup", noting)
    run = asked(ctx)
    assert charged == [(0, 0)]
    assert (counted.samples, counted.passes) == (3, 1)
    before = ctx.runs.ledger.statement("small").spent_epsilon
    assert before > 0
    for step in (1, 2):
        answer = release_gradient(ctx, ALICE, step_request(run.run_id, step)).result(10)
        assert release_values(answer.release).shape == (4, 4)
    assert (counted.samples, counted.passes) == (3, 1)
    assert ctx.runs.ledger.statement("small").spent_epsilon == before
    assert asked(ctx).run_id == run.run_id
    assert (counted.samples, counted.passes) == (3, 1)


def test_the_release_is_kept_and_the_same_after_a_restart() -> None:
    ledger = memory_ledger()
    first = service(ledger)
    run = asked(first)
    _, release = download_release(first.runs, ALICE, run.run_id)
    assert release_values(release).shape == (ROWS, WIDTH)
    request = step_request(run.run_id, 1)
    before = release_gradient(first, ALICE, request).result(10).release
    second = service(ledger, holder="second")
    _, again = download_release(second.runs, ALICE, run.run_id)
    assert release_values(again).equal(release_values(release))
    _, number = resume_run(second.runs, ALICE, run.run_id)
    after = release_gradient(second, ALICE, step_request(run.run_id, number)).result(10).release
    assert release_values(after).equal(release_values(before))


@pytest.mark.parametrize("crash_at", [1, 3, 4])
def test_a_crash_in_the_training_or_after_it_is_charged_and_never_repeated(crash_at: int) -> None:
    """The process dies at a draw of a sample, or at the pass over all records."""
    ledger = memory_ledger()

    class CrashError(BaseException):
        """Nobody catches it."""

    class Dying(Counted):
        def poisson_batch(self, *arguments: Any) -> Any:
            self.die()
            return super().poisson_batch(*arguments)

        def batches(self, rows: int) -> Any:  # a generator: it dies when it is asked
            yield from self.inner.batches(rows)
            raise CrashError

        def die(self) -> None:
            if self.samples + 1 == crash_at:
                raise CrashError

    dying: Any = Dying()
    with pytest.raises(CrashError):
        asked(service(ledger, records=dying))
    (run,) = ledger.runs()
    assert run.setup_begun
    spent = ledger.statement("small").spent_epsilon
    assert spent > 0
    counted: Any = Counted()
    later = service(ledger, holder="second", records=counted)
    with pytest.raises(RunClosed, match="lost"):
        resume_run(later.runs, ALICE, run.run_id)
    asked(later)  # the same request finds the run, closed; it makes nothing
    assert (counted.samples, counted.passes) == (0, 0)
    assert ledger.statement("small").spent_epsilon == spent
    assert not ledger.run(run.run_id).is_open


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"sampling_rate": 0.6}, "sampling_rate"),
        ({"capacity": 9}, "capacity"),
        ({"max_size": 9}, "max_size"),
    ],
)
def test_samples_beyond_the_declared_ones_are_refused(change: dict[str, Any], words: str) -> None:
    ctx = service()
    with pytest.raises(PolicyRefused, match=words):
        asked(ctx, **change)
    assert list(ctx.runs.ledger.runs()) == []


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        ({"min_noise_multiplier": 25.0}, "min_noise_multiplier is 25"),
        ({"max_sampling_rate": 0.4}, "max_sampling_rate is 0.4"),
        ({"max_capacity": 7}, "max_capacity is 7"),
    ],
)
def test_the_stewards_rules_bind_the_training_too(rules: dict[str, Any], words: str) -> None:
    given = parse_mechanism("dp-merf-ae", json.dumps(AUTOENCODER), small_facts().space)
    with pytest.raises(PolicyRefused, match=words):
        StewardPolicy(**rules).check_mechanism("dp-merf-ae", given)
    StewardPolicy(min_noise_multiplier=20.0).check_mechanism("dp-merf-ae", given)
    quiet = AUTOENCODER | {"training_noise_multiplier": 19.0}
    with pytest.raises(PolicyRefused, match="min_noise_multiplier is 20"):
        StewardPolicy(min_noise_multiplier=20.0).check_mechanism(
            "dp-merf-ae", parse_mechanism("dp-merf-ae", json.dumps(quiet), small_facts().space)
        )
