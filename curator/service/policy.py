"""What the steward's declarations allow a run to ask."""

from __future__ import annotations

from curator.errors import NotPermitted
from curator.mechanisms.mechanism import ReleasedOnceMechanism, SampledMechanism
from curator.privacy.event import SamplingRate
from curator.privacy.facts import DatasetFacts


def check_policy(mechanism: SampledMechanism | ReleasedOnceMechanism, facts: DatasetFacts) -> None:
    """Refuse parameters beyond what the steward declared.

    Args:
        mechanism: Built from the request.
        facts: The data set's declarations.

    Raises:
        NotPermitted: If the sampling rate or the capacity is above the declared one.
    """
    if not isinstance(mechanism, SampledMechanism):
        return
    if mechanism.sampling_rate.exact > SamplingRate.at_least(facts.sampling_rate).exact:
        msg = f"sampling_rate may be at most {facts.sampling_rate:.6g} on this data set"
        raise NotPermitted(msg)
    if mechanism.capacity > facts.capacity:
        msg = f"capacity may be at most {facts.capacity} on this data set"
        raise NotPermitted(msg)
