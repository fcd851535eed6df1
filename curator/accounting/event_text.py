"""Privacy events as canonical text, so that anyone can recompute a cost from what was written."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from curator.accounting.events.base import LoneEvent, PrivacyEvent
from curator.accounting.events.composed import SUMS_THEN_GAUSSIAN, ComposedEvent
from curator.accounting.events.gaussian import GaussianEvent
from curator.accounting.events.hidden_part import HiddenPartEvent
from curator.accounting.events.none import NoEvent
from curator.accounting.events.sampled_gaussian import SampledGaussianEvent
from curator.accounting.events.sampled_sum import SampledSumEvent
from curator.accounting.events.sliced_gaussian import (
    SampledSlicedGaussianEvent,
    SlicedGaussianEvent,
)

EVENTS: Final[tuple[type[LoneEvent], ...]] = (
    GaussianEvent,
    HiddenPartEvent,
    SampledGaussianEvent,
    SampledSlicedGaussianEvent,
    SampledSumEvent,
    SlicedGaussianEvent,
)
"""Every event that others may be made of. A text that was written once is read for ever."""

_BY_NAME: Final = {event.name: event for event in EVENTS}


def event_to_text(event: PrivacyEvent) -> str:
    """Return canonical JSON; the sampling rate as its exact numerator over 2**64, in decimal."""
    return json.dumps(event.to_json(), sort_keys=True, separators=(",", ":"), allow_nan=False)


def event_from_text(text: str) -> PrivacyEvent:
    """Return the event that `event_to_text` wrote.

    Raises:
        ValueError: If the text is not such an event, or its numbers are out of range.
    """
    try:
        event = _event(json.loads(text))
    except (KeyError, TypeError, OverflowError, RecursionError) as error:
        msg = "not a privacy event"
        raise ValueError(msg) from error
    if event_to_text(event) != text:
        msg = "not the canonical text of a privacy event"
        raise ValueError(msg)
    return event


def _event(value: Mapping[str, Any]) -> PrivacyEvent:
    match value["event"]:
        case NoEvent.name:
            return NoEvent()
        case ComposedEvent.name:
            return ComposedEvent(in_turn=tuple(lone_event(part) for part in value["in_turn"]))
        case name if name == SUMS_THEN_GAUSSIAN:  # what was written before events were composed
            last = GaussianEvent(noise_multiplier=value["noise_multiplier"])
            return ComposedEvent(in_turn=(lone_event(value["sums"]), last))
        case _:
            return lone_event(value)


def lone_event(value: Mapping[str, Any]) -> LoneEvent:
    """Return an event that is not made of others, from plain values as its `to_json` has them.

    Raises:
        KeyError: If a number is missing.
        TypeError: If one is of another type.
        ValueError: If there is no event of this name, or its numbers are out of range.
    """
    event = _BY_NAME.get(value["event"])
    if event is None:
        msg = "not a privacy event that this version knows"
        raise ValueError(msg)
    return event.from_json(value)
