"""DP-MERF with an autoencoder as published: batches of a fixed size, one accountant for all steps.

Each of the published iterations is charged as a Gaussian release of a function of a batch of a
fixed size, drawn without replacement. If a record is replaced, such a release has the profile of a
hidden part among n / B of them [balle:18]; the paper's bound of the same event is far above it.
This is information about a published claim, and nothing is offered at it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from curator.accounting.declared_numbers import need
from curator.accounting.events.base import PrivacyEvent
from curator.accounting.events.hidden_part import HiddenPartEvent
from curator.accounting.events.none import NoEvent


def dp_merf_ae_published(
    parameters: Mapping[str, Any],
) -> tuple[str, PrivacyEvent, PrivacyEvent]:
    """Return sensitivity, setup and step of the published run.

    Args:
        parameters: `num_batches` (n / B) and `noise_multiplier`.

    Returns:
        As every reader of a declared run.

    Raises:
        ValueError: If a number is missing or out of range.

    References:
        [chen:20], appendix; [balle:18].
    """
    step = HiddenPartEvent(
        num_parts=need(parameters, "num_batches"),
        noise_multiplier=need(parameters, "noise_multiplier"),
    )
    sensitivity = (
        "as published, for replacing a record: training and embedding share batches of a fixed "
        "size, one of n / B, and a release differs by at most 1; it is not offered"
    )
    return sensitivity, NoEvent(), step
