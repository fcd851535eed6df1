"""Privacy events as canonical text, so that anyone can recompute a cost from what was written."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, assert_never

from curator.privacy.event import (
    GaussianEvent,
    NoEvent,
    PrivacyEvent,
    SampledGaussianEvent,
    SampledSlicedGaussianEvent,
    SamplingRate,
    SlicedGaussianEvent,
)


def event_to_text(event: PrivacyEvent) -> str:
    """Return canonical JSON; the sampling rate as its exact numerator over 2**64, in decimal."""
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
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def event_from_text(text: str) -> PrivacyEvent:
    """Return the event that `event_to_text` wrote.

    Raises:
        ValueError: If the text is not such an event, or its numbers are out of range.
    """
    try:
        value = json.loads(text)
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
            case "sliced-gaussian":
                return _sliced_event(value)
            case "sampled-sliced-gaussian":
                return SampledSlicedGaussianEvent(
                    sampling_rate=SamplingRate(int(value["sampling_rate"])),
                    base=_sliced_event(value),
                    overflow_probability=value["overflow_probability"],
                )
            case _:
                pass
    except (KeyError, TypeError) as error:
        msg = "not a privacy event"
        raise ValueError(msg) from error
    msg = "not a privacy event that this version knows"
    raise ValueError(msg)


def _sliced_value(event: SlicedGaussianEvent) -> dict[str, object]:
    return {
        "dimension": event.dimension,
        "noise_multiplier": float(event.noise_multiplier),
        "num_projections": event.num_projections,
    }


def _sliced_event(value: Mapping[str, Any]) -> SlicedGaussianEvent:
    return SlicedGaussianEvent(
        dimension=value["dimension"],
        num_projections=value["num_projections"],
        noise_multiplier=value["noise_multiplier"],
    )
