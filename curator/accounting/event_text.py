"""Privacy events as canonical text, so that anyone can recompute a cost from what was written."""

from __future__ import annotations

import json
from typing import assert_never

from curator.privacy.event import (
    GaussianEvent,
    NoEvent,
    PrivacyEvent,
    SampledGaussianEvent,
    SamplingRate,
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
            case _:
                pass
    except (KeyError, TypeError) as error:
        msg = "not a privacy event"
        raise ValueError(msg) from error
    msg = "not a privacy event that this version knows"
    raise ValueError(msg)
