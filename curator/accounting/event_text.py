"""Privacy events as canonical text, so that anyone can recompute a cost from what was written."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, assert_never

from curator.privacy.event import (
    GaussianEvent,
    HiddenPartEvent,
    LoneEvent,
    NoEvent,
    PrivacyEvent,
    SampledGaussianEvent,
    SampledSlicedGaussianEvent,
    SampledSumEvent,
    SamplingRate,
    SlicedGaussianEvent,
    SumsThenGaussianEvent,
)


def event_to_text(event: PrivacyEvent) -> str:
    """Return canonical JSON; the sampling rate as its exact numerator over 2**64, in decimal."""
    value = _value(event.sums if isinstance(event, SumsThenGaussianEvent) else event)
    if isinstance(event, SumsThenGaussianEvent):
        value = {
            "event": "sums-then-gaussian",
            "noise_multiplier": float(event.noise_multiplier),
            "sums": value,
        }
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _value(event: LoneEvent) -> dict[str, object]:
    value: dict[str, object]
    match event:
        case NoEvent():
            value = {"event": "none"}
        case GaussianEvent(noise_multiplier=z):
            value = {"event": "gaussian", "noise_multiplier": float(z)}
        case SampledGaussianEvent(sampling_rate=rate, noise_multiplier=z):
            value = {
                "event": "sampled-gaussian",
                "noise_multiplier": float(z),
                "sampling_rate": str(rate.numerator),
            }
        case SampledSumEvent(sampling_rate=rate, noise_multiplier=z):
            value = {
                "event": "sampled-sum",
                "noise_multiplier": float(z),
                "num_releases": event.num_releases,
                "overflow_probability": float(event.overflow_probability),
                "sampling_rate": str(rate.numerator),
            }
        case HiddenPartEvent(num_parts=k, noise_multiplier=z):
            value = {"event": "hidden-part", "noise_multiplier": float(z), "num_parts": k}
        case SlicedGaussianEvent():
            value = {"event": "sliced-gaussian", **_sliced_value(event)}
        case SampledSlicedGaussianEvent(sampling_rate=rate, base=base, overflow_probability=p):
            value = {
                "event": "sampled-sliced-gaussian",
                **_sliced_value(base),
                "overflow_probability": float(p),
                "sampling_rate": str(rate.numerator),
            }
        case _ as never:
            assert_never(never)
    return value


def event_from_text(text: str) -> PrivacyEvent:
    """Return the event that `event_to_text` wrote.

    Raises:
        ValueError: If the text is not such an event, or its numbers are out of range.
    """
    try:
        value = json.loads(text)
        event = _whole_event(value)
    except (KeyError, TypeError, OverflowError, RecursionError) as error:
        msg = "not a privacy event"
        raise ValueError(msg) from error
    if event_to_text(event) != text:
        msg = "not the canonical text of a privacy event"
        raise ValueError(msg)
    return event


def _whole_event(value: Mapping[str, Any]) -> PrivacyEvent:
    if value["event"] == "sums-then-gaussian":
        return SumsThenGaussianEvent(
            sums=_sum_event(value["sums"]), noise_multiplier=value["noise_multiplier"]
        )
    return _event(value)


def _event(value: Mapping[str, Any]) -> LoneEvent:
    """Return an event that is not made of others.

    Raises:
        ValueError: If there is none of this name, or its numbers are out of range.
    """
    match value["event"]:
        case "none":
            return NoEvent()
        case "gaussian":
            return GaussianEvent(noise_multiplier=value["noise_multiplier"])
        case "sampled-gaussian":
            return SampledGaussianEvent(
                sampling_rate=SamplingRate(int(value["sampling_rate"])),
                noise_multiplier=value["noise_multiplier"],
            )
        case "sampled-sum":
            return _sum_event(value)
        case "hidden-part":
            return HiddenPartEvent(
                num_parts=value["num_parts"], noise_multiplier=value["noise_multiplier"]
            )
        case "sliced-gaussian" | "sampled-sliced-gaussian" as kind:
            base = _sliced_event(value)
            return base if kind == "sliced-gaussian" else _sampled_sliced(base, value)
        case _:
            msg = "not a privacy event that this version knows"
            raise ValueError(msg)


def _sum_event(value: Mapping[str, Any]) -> SampledSumEvent:
    """Return sums.

    Raises:
        ValueError: If the value is of another event, or its numbers are out of range.
    """
    if value["event"] != "sampled-sum":
        msg = "not a privacy event that this version knows"
        raise ValueError(msg)
    return SampledSumEvent(
        sampling_rate=SamplingRate(int(value["sampling_rate"])),
        noise_multiplier=value["noise_multiplier"],
        overflow_probability=value["overflow_probability"],
        num_releases=value["num_releases"],
    )


def _sliced_value(event: SlicedGaussianEvent) -> dict[str, object]:
    return {
        "dimension": event.dimension,
        "noise_multiplier": float(event.noise_multiplier),
        "num_projections": event.num_projections,
    }


def _sampled_sliced(
    base: SlicedGaussianEvent, value: Mapping[str, Any]
) -> SampledSlicedGaussianEvent:
    return SampledSlicedGaussianEvent(
        sampling_rate=SamplingRate(int(value["sampling_rate"])),
        base=base,
        overflow_probability=value["overflow_probability"],
    )


def _sliced_event(value: Mapping[str, Any]) -> SlicedGaussianEvent:
    return SlicedGaussianEvent(
        dimension=value["dimension"],
        num_projections=value["num_projections"],
        noise_multiplier=value["noise_multiplier"],
    )
