"""A run as someone describes it in a file, read as privacy events; nothing is computed here.

Two layouts: {"mechanism": name, "parameters": {...}, "num_steps": n, "epsilon": e, "delta": d}, and
an analyst's recipe, with tables `mechanism` (holding `kind`) and `training` (holding `steps`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from curator.accounting.declared_critics import CRITIC_READERS, hidden_critic_of
from curator.accounting.declared_numbers import need as _need
from curator.accounting.declared_numbers import number as _number
from curator.accounting.declared_numbers import rate as _rate
from curator.accounting.declared_teachers import TEACHER_READERS, published_votes
from curator.accounting.events.base import PrivacyEvent
from curator.accounting.events.composed import ComposedEvent
from curator.accounting.events.gaussian import GaussianEvent
from curator.accounting.events.none import NoEvent
from curator.accounting.events.sampled_gaussian import SampledGaussianEvent
from curator.accounting.events.sampled_sum import SampledSumEvent
from curator.accounting.events.sliced_gaussian import (
    SampledSlicedGaussianEvent,
    SlicedGaussianEvent,
)
from curator.accounting.hidden_critic import HiddenCritic
from curator.accounting.overflow import overflow_probability
from curator.accounting.published_cgan import PublishedCgan
from curator.accounting.published_merf_ae import dp_merf_ae_published
from curator.accounting.published_votes import PublishedVotes
from curator.privacy.budget import Budget
from curator.privacy.event import SamplingRate, check_dimension, check_num_steps

_OVERRIDABLE: Final = ("num_steps", "epsilon", "delta", "nominal_size", "dimension", "capacity")


@dataclass(frozen=True, kw_only=True, slots=True)
class DeclaredRun:
    """What is needed to price a run; `num_steps` is None for all that the budget affords."""

    mechanism: str
    sensitivity: str
    setup: PrivacyEvent
    step: PrivacyEvent
    num_steps: int | None
    budget: Budget
    hidden_critic: HiddenCritic | None = None
    published_cgan: PublishedCgan | None = None
    published_votes: PublishedVotes | None = None


def read_declared(table: Mapping[str, Any], overrides: Mapping[str, Any]) -> DeclaredRun:
    """Read a description and check every number in it, before any accountant is called.

    Args:
        table: The description, in either layout.
        overrides: `num_steps`, `epsilon`, `delta`, `nominal_size`, `dimension` and `capacity` from
            elsewhere; None is absent.

    Returns:
        The run.

    Raises:
        ValueError: If something is missing, unknown or out of range; the text names it.
    """
    given = {**_flat(table), **{k: v for k, v in overrides.items() if v is not None}}
    name = given.get("mechanism")
    read = _READERS.get(name) if isinstance(name, str) else None
    if read is None:
        msg = f"mechanism: expected one of {', '.join(sorted(_READERS))}"
        raise ValueError(msg)
    parameters = given["parameters"]
    if not isinstance(parameters, Mapping):
        msg = "parameters: expected a table"
        raise ValueError(msg)  # noqa: TRY004
    num_steps = given.get("num_steps", "all")
    if num_steps != "all":
        check_num_steps(num_steps)
    for key in ("epsilon", "delta"):
        if key not in given:
            msg = f"{key} is missing: give --{key}; a ledger's rule needs the data set's budget"
            raise ValueError(msg)
    budget = Budget(epsilon=given["epsilon"], delta=given["delta"])
    shared = {key: given.get(key) for key in ("nominal_size", "dimension", "capacity")}
    stated = {key: value for key, value in parameters.items() if value is not None}
    sensitivity, setup, step = read({**shared, **stated})
    return DeclaredRun(
        mechanism=str(name),
        sensitivity=sensitivity,
        setup=setup,
        step=step,
        num_steps=None if num_steps == "all" else num_steps,
        budget=budget,
        hidden_critic=hidden_critic_of(str(name), stated),
        published_cgan=_published_cgan(stated) if name == "dp-cgan-published" else None,
        published_votes=published_votes(str(name), stated),
    )


def _flat(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return the first layout from either.

    Raises:
        ValueError: If the keys are those of neither.
    """
    mechanism = table.get("mechanism")
    if isinstance(mechanism, Mapping):
        training = table.get("training")
        steps = training.get("steps", "all") if isinstance(training, Mapping) else "all"
        return {"mechanism": mechanism.get("kind"), "parameters": mechanism, "num_steps": steps}
    unknown = sorted(set(table) - {"mechanism", "parameters", *_OVERRIDABLE})
    if unknown:
        msg = (
            f"unknown: {', '.join(map(str, unknown))[:200]}; what belongs to the mechanism goes "
            'into the table "parameters"'
        )
        raise ValueError(msg)
    return {"parameters": {}, **table}


_Read = tuple[str, PrivacyEvent, PrivacyEvent]


def _dp_sinkhorn(parameters: Mapping[str, Any]) -> _Read:
    step = SampledGaussianEvent(
        sampling_rate=_rate(parameters), noise_multiplier=_need(parameters, "noise_multiplier")
    )
    return "the whole gradient is clipped to C, so it moves by at most 2 C", NoEvent(), step


def _mean_embedding(parameters: Mapping[str, Any]) -> _Read:
    setup = GaussianEvent(noise_multiplier=_need(parameters, "noise_multiplier"))
    return "sums of one row of norm at most 1 per unit, so they move by at most 1", setup, NoEvent()


def _gaussian(parameters: Mapping[str, Any]) -> _Read:
    step = GaussianEvent(noise_multiplier=_need(parameters, "noise_multiplier"))
    return "as declared, in the noise multiplier", NoEvent(), step


def _sliced(parameters: Mapping[str, Any]) -> _Read:
    base = SlicedGaussianEvent(
        dimension=_need(parameters, "dimension"),
        num_projections=_need(parameters, "num_projections"),
        noise_multiplier=_need(parameters, "noise_multiplier"),
    )
    rate = _rate(parameters)
    if parameters.get("overflow_probability") is not None:
        overflow = _number(parameters, "overflow_probability")
    else:
        sizes = _need(parameters, "max_size"), _need(parameters, "capacity")
        overflow = overflow_probability(sizes[0], rate, sizes[1])
    step = SampledSlicedGaussianEvent(sampling_rate=rate, base=base, overflow_probability=overflow)
    return "one row of norm at most R moves, by its projection", NoEvent(), step


def _units_overflow(parameters: Mapping[str, Any], rate: SamplingRate) -> float:
    """Return at least the probability that no further unit fits into the capacity."""
    most, capacity = _need(parameters, "max_records_per_unit"), _need(parameters, "capacity")
    check_dimension("max_records_per_unit", most)
    check_dimension("capacity", capacity)
    return overflow_probability(_need(parameters, "max_size"), rate, capacity // most)


def _dp_swd(parameters: Mapping[str, Any]) -> _Read:
    base = SlicedGaussianEvent(
        dimension=_need(parameters, "dimension"),
        num_projections=_need(parameters, "num_projections"),
        noise_multiplier=_need(parameters, "noise_multiplier"),
    )
    rate = _rate(parameters)
    overflow = _units_overflow(parameters, rate)
    step = SampledSlicedGaussianEvent(sampling_rate=rate, base=base, overflow_probability=overflow)
    sensitivity = "the rows of one unit, of norm at most R each, move, by their projections"
    return sensitivity, NoEvent(), step


def _dp_swd_features(parameters: Mapping[str, Any]) -> _Read:
    return _dp_swd({**parameters, "dimension": _need(parameters, "num_features")})


def _dp_cgan(parameters: Mapping[str, Any]) -> _Read:
    rate = _rate(parameters)
    step = SampledSumEvent(
        sampling_rate=rate,
        noise_multiplier=_need(parameters, "noise_multiplier"),
        overflow_probability=_units_overflow(parameters, rate),
        num_releases=_need(parameters, "critic_steps"),
    )
    sensitivity = (
        "the gradient of each record is clipped to C, so the sum of an update moves by at most C "
        "times the records of a unit; by twice that should the sample not fit"
    )
    return sensitivity, NoEvent(), step


def _dp_merf_ae(parameters: Mapping[str, Any]) -> _Read:
    rate = _rate(parameters)
    sums = SampledSumEvent(
        sampling_rate=rate,
        noise_multiplier=_need(parameters, "training_noise_multiplier"),
        overflow_probability=_units_overflow(parameters, rate),
        num_releases=_need(parameters, "training_steps"),
    )
    last = GaussianEvent(noise_multiplier=_need(parameters, "noise_multiplier"))
    setup = ComposedEvent(in_turn=(sums, last))
    sensitivity = (
        "the gradient of each record is clipped to C, so the sum of an update moves by at most C "
        "times the records of a unit, by twice that should the sample not fit; then sums of one "
        "row of norm at most 1 per unit, whatever the encoder, move by at most 1"
    )
    return sensitivity, setup, NoEvent()


def _published_cgan(parameters: Mapping[str, Any]) -> PublishedCgan:
    return PublishedCgan(
        sampling_rate=float(_rate(parameters)),
        noise_multiplier=_need(parameters, "noise_multiplier"),
        clip_norm=_need(parameters, "clip_norm"),
        num_tensors=_need(parameters, "num_tensors"),
    )


def _dp_cgan_published(parameters: Mapping[str, Any]) -> _Read:
    joint = _published_cgan(parameters).joint_noise_multiplier
    step = SampledGaussianEvent(sampling_rate=_rate(parameters), noise_multiplier=joint)
    sensitivity = "each tensor's gradient is clipped to C alone: C sqrt(tensors); it is not offered"
    return sensitivity, NoEvent(), step


_READERS: Final[dict[str, Callable[[Mapping[str, Any]], _Read]]] = {
    "dp-sinkhorn": _dp_sinkhorn,
    "dp-cgan": _dp_cgan,
    "dp-cgan-published": _dp_cgan_published,
    "dp-merf-ae": _dp_merf_ae,
    "dp-merf-ae-published": dp_merf_ae_published,
    "dp-swd": _dp_swd,
    "dp-swd-features": _dp_swd_features,
    "mean-embedding": _mean_embedding,
    "gaussian": _gaussian,
    **CRITIC_READERS,
    **TEACHER_READERS,
    "sampled-gaussian": _dp_sinkhorn,
    "sampled-sliced-gaussian": _sliced,
}
