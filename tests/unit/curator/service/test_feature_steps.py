"""Steps of a mechanism on features: what is refused is refused before a charge."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch
from safetensors.torch import save

from curator.data.sampling import PrivateRecords
from curator.errors import MalformedRequest, NotPermitted
from curator.mechanisms.catalogue import parse_mechanism
from curator.mechanisms.described import read_described
from curator.mechanisms.dp_swd_features import DpSwdFeatures
from curator.mechanisms.specification import canonical_json
from curator.privacy.batches import ImageSpace, Samples
from curator.privacy.facts import DatasetFacts
from curator.service.answer_step import StepRequest, release_gradient
from curator.service.checks import check_policy, check_step_size
from curator.service.find_run import resume_run
from curator.service.open_run import RunRequest, open_run
from curator.service.service import Service
from tests.fakes.curator import ALICE, SmallLimits, opened, service, small_images, step_request
from tests.fakes.facts import small_facts
from tests.fakes.features import PARAMETERS, mechanism
from tests.fakes.teacher import PARAMETERS as TEACHER

CHANGES: dict[str, Any] = {
    **PARAMETERS,
    "architecture": "mlp-features",
    "sampling_rate": 0.5,
    "noise_multiplier": 30.0,
}
SIZES = {
    "hidden.weight": (256, 4),
    "hidden.bias": (256,),
    "features.weight": (7, 256),
    "features.bias": (7,),
}


class WatchedRecords:
    """Private records that count how often they are touched."""

    def __init__(self) -> None:
        self.touched = 0
        self._inner = PrivateRecords(small_images())

    def poisson_batch(self, *arguments: Any) -> Any:
        self.touched += 1
        return self._inner.poisson_batch(*arguments)

    def is_whole(self) -> bool:
        return self._inner.is_whole()


def request(run_id: str, value: float = 0.1, **changes: Any) -> StepRequest:
    fields: dict[str, Any] = {
        "images_ND": torch.zeros(4, 7),
        "labels_N": torch.zeros(4, dtype=torch.int64),
        "weights": save({name: torch.full(size, value) for name, size in SIZES.items()}),
    } | changes
    return StepRequest(run_id=run_id, step=1, samples=Samples(**fields))


def features_run(ctx: Service) -> str:
    asked = RunRequest(
        dataset="small",
        mechanism="dp-swd-features",
        parameters_json=json.dumps(CHANGES),
        num_steps=5,
        idempotency_key="a" * 16,
    )
    return open_run(ctx, ALICE, asked).run_id


def test_a_step_on_features_is_charged_and_answered() -> None:
    watched = WatchedRecords()
    ctx = service(records=watched)  # type: ignore[arg-type]
    run_id = features_run(ctx)
    answer = release_gradient(ctx, ALICE, request(run_id)).result(30)
    (block,) = answer.release.blocks
    assert block.values.shape == (4, 7)  # type: ignore[union-attr]
    assert watched.touched == 1
    assert resume_run(ctx.runs, ALICE, run_id)[1] == 2
    assert ctx.runs.ledger.statement("small").spent_epsilon > 0


@pytest.mark.parametrize(
    "changes",
    [
        {"value": 17.0},
        {"value": float("nan")},
        {"weights": b""},
        {"weights": b"\xff" * 9000},
        {"images_ND": torch.zeros(4, 6)},
        {"images_ND": torch.full((4, 7), torch.inf)},
    ],
)
def test_what_is_refused_costs_nothing(changes: dict[str, Any]) -> None:
    watched = WatchedRecords()
    ctx = service(records=watched)  # type: ignore[arg-type]
    run_id = features_run(ctx)
    with pytest.raises(MalformedRequest):
        release_gradient(ctx, ALICE, request(run_id, **changes))
    assert watched.touched == 0
    assert resume_run(ctx.runs, ALICE, run_id)[1] == 1
    assert ctx.runs.ledger.statement("small").spent_epsilon == 0


@pytest.mark.parametrize("name", ["dp-sinkhorn", "gs-wgan-mean", "mean-embedding"])
def test_other_mechanisms_take_no_weights(name: str) -> None:
    ctx = service()
    run_id = opened(ctx, name).run_id
    sent = Samples(
        images_ND=torch.zeros(4, 4), labels_N=torch.zeros(4, dtype=torch.int64), weights=b"w"
    )
    with pytest.raises(MalformedRequest, match="takes images, and no weights"):
        release_gradient(ctx, ALICE, StepRequest(run_id=run_id, step=1, samples=sent))


def test_images_are_refused_where_features_are_expected() -> None:
    ctx = service()
    with pytest.raises(MalformedRequest, match="rows of 7 features"):
        release_gradient(ctx, ALICE, step_request(features_run(ctx), 1))


def test_the_catalogue_opens_it_by_name() -> None:
    made = parse_mechanism(
        "dp-swd-features", canonical_json(mechanism().spec), small_facts(height=8, width=8).space
    )
    assert isinstance(made, DpSwdFeatures)


def test_bounds_below_the_declared_ones_are_refused() -> None:
    def asked(facts: DatasetFacts, **changes: Any) -> None:
        subject = mechanism(**(CHANGES | {"max_size": 10} | changes))
        check_policy(subject, facts)

    records, groups = small_facts(), small_facts(unit="group", max_records_per_group=3)
    asked(records)
    asked(groups, max_records_per_unit=3)
    with pytest.raises(NotPermitted, match="max_size must be at least 10"):
        asked(records, max_size=9)
    with pytest.raises(NotPermitted, match="max_records_per_unit must be at least 3"):
        asked(groups, max_records_per_unit=2)
    with pytest.raises(NotPermitted, match="sampling_rate"):
        asked(records, sampling_rate=0.6)
    with pytest.raises(NotPermitted, match="capacity"):
        asked(records, capacity=9)


def test_it_is_priced_as_the_mechanism_prices_itself() -> None:
    table = {"mechanism": "dp-swd-features", "parameters": PARAMETERS, "num_steps": 5}
    declared = read_described(table, {"epsilon": 10.0, "delta": 1e-5})
    assert declared.step == mechanism().step_event()
    assert declared.setup == mechanism().setup_event()


@pytest.mark.parametrize(
    ("parameters", "needed"),
    [
        ({"features": "pixels", "num_features": 0}, 10 * 8 * (64 * 64 + 1)),  # the answer
        ({"features": "mlp-features"}, 4 * 256 * 64 * 64),  # the network
    ],
)
def test_a_run_whose_steps_have_no_room_is_not_opened(
    parameters: dict[str, Any], needed: int
) -> None:
    """Each would be charged, and its answer refused on the way; or refused with its weights."""
    space = ImageSpace(channels=1, height=64, width=64, max_level=255, num_classes=10)
    asked = json.dumps(TEACHER | parameters)
    subject = parse_mechanism("linear-teacher", asked, space)
    check_step_size(SmallLimits(message_bytes=needed + (1 << 16)), subject)
    with pytest.raises(MalformedRequest, match=r"at most \d fit; .*limits.max_message_mib"):
        check_step_size(SmallLimits(message_bytes=needed), subject)
