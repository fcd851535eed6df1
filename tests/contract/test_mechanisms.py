"""What every mechanism promises, asked of each one that the catalogue lists."""

from __future__ import annotations

import copy
import json
import pickle  # noqa: TID251 - to see it refused
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from curator.accounting.cost import event_cost
from curator.accounting.event_text import event_from_text, event_to_text
from curator.data.images import LabelledImages
from curator.data.levels import Levels, level_type
from curator.data.sampling import PrivateRecords
from curator.errors import MalformedRequest
from curator.mechanisms import shards
from curator.mechanisms.base import (
    ReleasedOnceMechanism,
    SampledMechanism,
    ServedMechanism,
    StatefulMechanism,
)
from curator.mechanisms.catalogue import (
    MECHANISMS,
    canonical_json,
    mechanism_names,
    parameter_schema,
    parse_mechanism,
)
from curator.mechanisms.dp_swd_features import DpSwdFeatures
from curator.mechanisms.linear_teacher import LinearTeacher
from curator.mechanisms.score import Score
from curator.mechanisms.specification import Specification
from curator.privacy.batches import ImageSpace, Samples
from curator.privacy.noise import NoiseSource
from curator.privacy.private import SealedError
from curator.privacy.release import Release
from curator.sanitizer.post_process import release_values
from curator.state.asking import private_batches, state_step
from tests.contract.small_parameters import SPACE, small_parameters
from tests.fakes import choices, features, networks, teacher
from tests.fakes.noise import SeededNoise

Kinds = pytest.mark.parametrize("kind", MECHANISMS, ids=lambda kind: kind.name)
STATEFUL = [kind for kind in MECHANISMS if issubclass(kind, StatefulMechanism)]


@pytest.fixture(autouse=True, scope="module")
def _a_public_network(tmp_path_factory: pytest.TempPathFactory) -> None:
    networks.offer(tmp_path_factory.mktemp("networks"))


def opened(kind: type[ServedMechanism], space: ImageSpace = SPACE, **changes: Any) -> Any:
    parameters = small_parameters(kind) | changes
    return parse_mechanism(kind.name, json.dumps(parameters), space)


def records(count: int) -> PrivateRecords:
    levels = np.random.default_rng(1).integers(0, 17, (count, 1, 4, 4), dtype=np.uint8)
    return PrivateRecords(LabelledImages(levels=levels, labels=np.arange(count) % 3), 10)


def samples(mechanism: Any, more: int = 0) -> Samples:
    if isinstance(mechanism, LinearTeacher):
        made = teacher.samples(mechanism)
        rows = torch.cat([made.images_ND, made.images_ND[:more]])
        return replace(made, images_ND=rows, labels_N=torch.zeros(len(rows), dtype=torch.int64))
    if isinstance(mechanism, Score):
        made = choices.asking(mechanism)
        rows = torch.cat([made.images_ND, made.images_ND[:more]])
        return replace(made, images_ND=rows, labels_N=torch.zeros(len(rows), dtype=torch.int64))
    if isinstance(mechanism, DpSwdFeatures):
        made = features.samples(mechanism)
        rows = torch.cat([made.images_ND] * (1 + more))
        return replace(made, images_ND=rows, labels_N=torch.zeros(len(rows), dtype=torch.int64))
    count = (mechanism.rows_per_step or 4) + more
    images = torch.linspace(-1, 1, count * SPACE.dimension).reshape(count, -1)
    images = (images * 8).round() / 8  # levels that there are
    return Samples(images_ND=images, labels_N=torch.arange(count) % 3)


@Kinds
def test_sixteen_bits_give_what_the_same_pixels_of_few_levels_give(
    kind: type[ServedMechanism], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every level times 4095, and white too: no bound is passed, and nothing is cut to a byte."""
    monkeypatch.setattr(
        shards, "_shards_of_units", lambda batch, count: torch.arange(len(batch.units_M)) % count
    )  # a hash of the levels otherwise
    found = []
    for factor in (1, 4095):
        subject = opened(kind, replace(SPACE, max_level=SPACE.max_level * factor))
        levels = np.random.default_rng(1).integers(0, 17, (9, 1, 4, 4)) * factor
        kept: Levels = levels.astype(level_type(subject.space.max_level))
        given = PrivateRecords(LabelledImages(levels=kept, labels=np.arange(9) % 3), 10)
        found.append(answers(subject, given, SeededNoise(3)))
    for few, many in zip(*found, strict=True):
        few_values, many_values = release_values(few).double(), release_values(many).double()
        assert float(few_values.abs().max()) > 0
        torch.testing.assert_close(few_values, many_values, rtol=1e-3, atol=1e-3)


def answers(mechanism: Any, given: PrivateRecords, noise: NoiseSource) -> list[Release]:
    """Return two answers, whatever the kind is."""
    asked, found = samples(mechanism), []
    if isinstance(mechanism, StatefulMechanism):
        state = mechanism.start(private_batches(mechanism, given, noise))
        for step in (1, 2):
            state, answer = state_step(mechanism, state, step, asked, noise)
            found.append(answer)
    elif isinstance(mechanism, SampledMechanism):
        spec = mechanism.spec
        for _ in range(2):
            batch = given.poisson_batch(spec.rate, spec.capacity, noise)
            found.append(mechanism.gradient(asked, batch, noise))
    elif isinstance(mechanism, ReleasedOnceMechanism):
        released = mechanism.setup(private_batches(mechanism, given, noise), noise)
        found = [mechanism.gradient(asked, released) for _ in range(2)]
    return found


def num_values(release: Release) -> int:
    parts = (getattr(block, "integers", getattr(block, "values", None)) for block in release.blocks)
    return sum(part.numel() for part in parts if part is not None)


@Kinds
def test_it_says_what_it_is(kind: type[ServedMechanism]) -> None:
    assert sum(issubclass(kind, base) for base in ServedMechanism.__args__) == 1
    assert re.fullmatch(r"[a-z][a-z-]*[a-z]", kind.name)
    assert re.fullmatch(r"[a-z].{20,}[^.]", kind.sensitivity)
    assert mechanism_names().count(kind.name) == 1


@Kinds
def test_its_parameters_are_one_text_and_nothing_private_has_a_default(
    kind: type[ServedMechanism],
) -> None:
    parameters, schema = small_parameters(kind), parameter_schema(kind.name)
    text = canonical_json(opened(kind).spec)
    shuffled = json.dumps(dict(reversed(parameters.items())), indent=3)
    assert canonical_json(parse_mechanism(kind.name, shuffled, SPACE).spec) == text
    assert list(json.loads(text)) == sorted(schema["properties"])
    assert " " not in text
    assert schema["additionalProperties"] is False
    private = {"noise_multiplier", "sampling_rate", "capacity", "clip_norm", "max_size"}
    assert private & set(schema["properties"]) <= set(schema["required"])


@Kinds
def test_what_it_costs_follows_from_its_parameters(kind: type[ServedMechanism]) -> None:
    first, second = opened(kind), opened(kind)
    events = first.setup_event(), first.step_event()
    assert events == (second.setup_event(), second.step_event())
    assert events == kind.costs_of(first.spec, SPACE)
    larger = replace(SPACE, width=9)
    assert (events == kind.costs_of(first.spec, larger)) != kind.prices_by_image
    assert any(event.parts for event in events)
    assert all(event_from_text(event_to_text(event)) == event for event in events)
    quiet = kind.costs_of(opened(kind, noise_multiplier=3.0).spec, SPACE)
    for event, cheaper in zip(events, quiet, strict=True):
        pairs = zip(event_cost(event).units, event_cost(cheaper).units, strict=True)
        assert all(a is None or (b is not None and b <= a) for a, b in pairs)
    assert events != quiet


@Kinds
def test_it_requires_what_its_parameters_declare(kind: type[ServedMechanism]) -> None:
    mechanism: Any = opened(kind)
    spec, needed = mechanism.spec, mechanism.requirements()
    fields = set(kind.specification.model_fields)
    assert (needed.samples is not None) == ("sampling_rate" in fields)
    if needed.samples is not None:
        assert needed.samples.rate.exact >= spec.sampling_rate
        assert needed.samples.capacity == spec.capacity
    for bound in ("max_size", "max_records_per_unit"):
        assert getattr(needed, bound) == (getattr(spec, bound) if bound in fields else None)
    noises = [getattr(spec, name) for name in fields if name.endswith("noise_multiplier")]
    assert mechanism.least_noise_multiplier == min(noises)
    assert isinstance(spec, Specification)
    assert (spec.kept_bytes(SPACE) > 0) == (not isinstance(mechanism, SampledMechanism))


@Kinds
def test_samples_that_were_not_declared_are_refused(kind: type[ServedMechanism]) -> None:
    mechanism = opened(kind)
    right = samples(mechanism)
    mechanism.check_samples(right)
    wrong = [replace(right, images_ND=right.images_ND[:, 1:])]
    if mechanism.rows_per_step is not None:
        wrong.append(samples(mechanism, more=1))
    if not isinstance(mechanism, DpSwdFeatures | LinearTeacher | Score):
        wrong.append(replace(right, labels_N=right.labels_N + 3))
        wrong.append(replace(right, weights=b"1"))
    for one in wrong:
        with pytest.raises(MalformedRequest):
            mechanism.check_samples(one)


@Kinds
def test_an_answer_s_shape_is_the_same_whatever_the_records_are(
    kind: type[ServedMechanism],
) -> None:
    mechanism = opened(kind)
    found = [answers(mechanism, records(count), SeededNoise(5)) for count in (0, 1, 9)]
    shapes = {tuple(num_values(answer) for answer in each) for each in found}
    expected = mechanism.requirements().answer_numbers or samples(mechanism).images_ND.numel()
    assert shapes == {(expected, expected)}


@pytest.mark.parametrize("kind", STATEFUL, ids=lambda kind: kind.name)
def test_a_state_is_sealed_and_comes_back_as_it_was(kind: type[StatefulMechanism]) -> None:
    mechanism, noise = opened(kind), SeededNoise(6)
    state = mechanism.start(private_batches(mechanism, records(9), noise))
    state, _ = state_step(mechanism, state, 1, samples(mechanism), noise)
    assert repr(state) == f"{type(state).__name__}(<sealed>)"
    for leave in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(SealedError):
            leave(state)
    kept = mechanism.pack(state)
    assert all(re.fullmatch(r"[\w.]+", name) for name in kept)
    back = mechanism.unpack(kept, private_batches(mechanism, records(9), noise))
    again = mechanism.pack(back)
    assert again.keys() == kept.keys()
    assert all(torch.equal(again[name], kept[name]) for name in kept)
    ends = [
        state_step(mechanism, one, 2, samples(mechanism), SeededNoise(7))[0]
        for one in (state, back)
    ]
    if mechanism.durability == "replay":  # a stream of samples is another one
        first, second = (mechanism.pack(end) for end in ends)
        assert all(torch.equal(first[name], second[name]) for name in first)
