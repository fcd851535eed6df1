"""A run as someone describes it in a file, read as privacy events; nothing is computed here.

Two layouts: {"mechanism": name, "parameters": {...}, "num_steps": n, "epsilon": e, "delta": d}, and
an analyst's recipe, with tables `mechanism` (holding `kind`) and `training` (holding `steps`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from curator.accounting.hidden_critic import HiddenCritic
from curator.accounting.sliced import overflow_probability
from curator.privacy.budget import Budget
from curator.privacy.event import (
    GaussianEvent,
    NoEvent,
    PrivacyEvent,
    SampledGaussianEvent,
    SampledSlicedGaussianEvent,
    SamplingRate,
    SlicedGaussianEvent,
    check_dimension,
    check_num_steps,
)

_LARGEST: Final = 1e18
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
            msg = f"{key} is missing: the rule of a ledger needs the data set's budget"
            raise ValueError(msg)
    budget = Budget(epsilon=given["epsilon"], delta=given["delta"])
    shared = {key: given.get(key) for key in ("nominal_size", "dimension", "capacity")}
    stated = {key: value for key, value in parameters.items() if value is not None}
    sensitivity, setup, step = read({**shared, **stated})
    published = name == "gs-wgan-published"
    return DeclaredRun(
        mechanism=str(name),
        sensitivity=sensitivity,
        setup=setup,
        step=step,
        num_steps=None if num_steps == "all" else num_steps,
        budget=budget,
        hidden_critic=_hidden_critic(stated) if published else None,
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
        msg = f"unknown: {', '.join(map(str, unknown))[:200]}"
        raise ValueError(msg)
    return {"parameters": {}, **table}


def _need(parameters: Mapping[str, Any], key: str) -> Any:
    """Return a parameter.

    Raises:
        ValueError: If it is missing.
    """
    if parameters.get(key) is None:
        msg = f"{key} is missing"
        raise ValueError(msg)
    return parameters[key]


def _number(parameters: Mapping[str, Any], key: str) -> float:
    """Return a numeric parameter.

    Raises:
        ValueError: If it is missing, not a number or absurdly large.
    """
    value = _need(parameters, key)
    if isinstance(value, bool) or not isinstance(value, int | float):
        msg = f"{key} must be a number"
        raise ValueError(msg)  # noqa: TRY004
    if not abs(value) <= _LARGEST:  # NaN fails too
        msg = f"{key} must be finite and at most {_LARGEST:g}"
        raise ValueError(msg)
    return value


def _rate(parameters: Mapping[str, Any]) -> SamplingRate:
    if parameters.get("sampling_rate") is not None:
        return SamplingRate.at_least(_number(parameters, "sampling_rate"))
    size = _number(parameters, "nominal_size") if "expected_batch_size" in parameters else 0
    if not size > 0:
        msg = "give sampling_rate, or expected_batch_size with nominal_size (--nominal-size)"
        raise ValueError(msg)
    return SamplingRate.at_least(_number(parameters, "expected_batch_size") / size)


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


def _dp_swd(parameters: Mapping[str, Any]) -> _Read:
    base = SlicedGaussianEvent(
        dimension=_need(parameters, "dimension"),
        num_projections=_need(parameters, "num_projections"),
        noise_multiplier=_need(parameters, "noise_multiplier"),
    )
    rate, most = _rate(parameters), _need(parameters, "max_records_per_unit")
    check_dimension("max_records_per_unit", most)
    capacity = _need(parameters, "capacity")
    check_dimension("capacity", capacity)
    overflow = overflow_probability(_need(parameters, "max_size"), rate, capacity // most)
    step = SampledSlicedGaussianEvent(sampling_rate=rate, base=base, overflow_probability=overflow)
    sensitivity = "the rows of one unit, of norm at most R each, move, by their projections"
    return sensitivity, NoEvent(), step


def _gs_wgan_mean(parameters: Mapping[str, Any]) -> _Read:
    step = GaussianEvent(noise_multiplier=_need(parameters, "noise_multiplier"))
    sensitivity = (
        "one of K critics changes, and each of B images is clipped to C, so the average over "
        "critics moves by at most 2 C sqrt(B) / K"
    )
    return sensitivity, NoEvent(), step


def _hidden_critic(parameters: Mapping[str, Any]) -> HiddenCritic:
    return HiddenCritic(
        num_critics=_need(parameters, "num_critics"),
        num_samples=_need(parameters, "num_samples"),
        noise_multiplier=_need(parameters, "noise_multiplier"),
    )


def _gs_wgan_published(parameters: Mapping[str, Any]) -> _Read:
    run = _hidden_critic(parameters)
    step = SampledGaussianEvent(
        sampling_rate=SamplingRate.at_least(1 / run.num_critics),
        noise_multiplier=1 / run.shift,
    )
    sensitivity = (
        "one hidden critic answers for all B images, each clipped to C: 2 C sqrt(B). The event is "
        "that of critics which a run may have; this mechanism is not offered"
    )
    return sensitivity, NoEvent(), step


_READERS: Final[dict[str, Callable[[Mapping[str, Any]], _Read]]] = {
    "dp-sinkhorn": _dp_sinkhorn,
    "dp-swd": _dp_swd,
    "mean-embedding": _mean_embedding,
    "gs-wgan-mean": _gs_wgan_mean,
    "gs-wgan-published": _gs_wgan_published,
    "gaussian": _gaussian,
    "sampled-gaussian": _dp_sinkhorn,
    "sampled-sliced-gaussian": _sliced,
}
