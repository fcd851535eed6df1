from __future__ import annotations

import pytest

from curator.accounting.event_text import event_from_text, event_to_text
from curator.accounting.events.base import PrivacyEvent
from curator.accounting.events.gaussian import GaussianEvent
from curator.accounting.events.none import NoEvent
from curator.accounting.events.sampled_gaussian import SampledGaussianEvent
from curator.privacy.event_numbers import SamplingRate


@pytest.mark.parametrize(
    "event",
    [
        NoEvent(),
        GaussianEvent(noise_multiplier=0.1 + 0.2),
        SampledGaussianEvent(sampling_rate=SamplingRate((1 << 63) + 1), noise_multiplier=1.1),
    ],
)
def test_round_trip(event: PrivacyEvent) -> None:
    assert event_from_text(event_to_text(event)) == event


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "7",
        "{}",
        '{"event":"laplace"}',
        '{"event":"gaussian"}',
        '{"event":"sliced-gaussian","noise_multiplier":1.0,"dimension":8}',
        '{"event":"sliced-gaussian","noise_multiplier":1.0,"dimension":0,"num_projections":1}',
        '{"event":"gaussian","noise_multiplier":NaN}',
        '{"event":"gaussian","noise_multiplier":"1"}',
        '{"event":"sampled-gaussian","noise_multiplier":1.0,"sampling_rate":"0"}',
        '{"event":"sampled-gaussian","noise_multiplier":1.0,"sampling_rate":Infinity}',
        '{"event":"sampled-gaussian","noise_multiplier":1.0,"sampling_rate":1.9}',
        '{"event":"sampled-gaussian","noise_multiplier":1.0,"sampling_rate":true}',
        '{"event":"sampled-gaussian","noise_multiplier":1.0,"sampling_rate":"12_3"}',
        '{"event":"gaussian", "noise_multiplier":1.0}',
        '{"event":"gaussian","noise_multiplier":1.0,"more":1}',
        "[" * 100_000,
    ],
)
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        event_from_text(text)
