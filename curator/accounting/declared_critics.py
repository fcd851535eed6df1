"""GS-WGAN and its kin as described in a file: what is offered, and what was published."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

from curator.accounting.declared_numbers import need
from curator.accounting.events.base import PrivacyEvent
from curator.accounting.events.gaussian import GaussianEvent
from curator.accounting.events.hidden_part import HiddenPartEvent
from curator.accounting.events.none import NoEvent
from curator.accounting.events.sampled_gaussian import SampledGaussianEvent
from curator.accounting.hidden_critic import HiddenCritic
from curator.privacy.event import SamplingRate, check_dimension

_Read = tuple[str, PrivacyEvent, PrivacyEvent]
_APART: Final = "2 C sqrt(B): each of B images is clipped to C"


def _mean(parameters: Mapping[str, Any]) -> _Read:
    step = GaussianEvent(noise_multiplier=need(parameters, "noise_multiplier"))
    sensitivity = (
        "one of K critics changes, and each of B images is clipped to C, so the average over "
        "critics moves by at most 2 C sqrt(B) / K"
    )
    return sensitivity, NoEvent(), step


def _decoupled(parameters: Mapping[str, Any]) -> _Read:
    step = HiddenPartEvent(
        num_parts=need(parameters, "num_critics"),
        noise_multiplier=need(parameters, "noise_multiplier"),
    )
    return f"one of K critics changes, two of them differ by at most {_APART}", NoEvent(), step


def _round_robin(parameters: Mapping[str, Any]) -> _Read:
    num_critics = need(parameters, "num_critics")
    check_dimension("num_critics", num_critics)
    setup = GaussianEvent(noise_multiplier=need(parameters, "noise_multiplier"))
    many = math.sqrt(num_critics) * (1 - 2.0**-50)
    step = GaussianEvent(noise_multiplier=setup.noise_multiplier * many)
    sensitivity = (
        f"a unit's critic answers once in K steps and moves by at most {_APART}. One release is "
        "charged in advance, and each step adds 1 / K of one"
    )
    return sensitivity, setup, step


def _hidden_critic(name: str, parameters: Mapping[str, Any]) -> HiddenCritic:
    """Return the published run.

    Raises:
        ValueError: If a number is missing or out of range.
    """
    together = name == "adversarial-dp-sinkhorn-published"
    return HiddenCritic(
        num_critics=need(parameters, "num_critics"),
        num_samples=1 if together else need(parameters, "num_samples"),
        noise_multiplier=need(parameters, "noise_multiplier"),
        num_replies=parameters.get("num_replies", 1),
        is_drawn_in_secret=name != "gs-wgan-federated-published",
    )


def _published(name: str, sensitivity: str) -> Callable[[Mapping[str, Any]], _Read]:
    def read(parameters: Mapping[str, Any]) -> _Read:
        run = _hidden_critic(name, parameters)
        step = SampledGaussianEvent(
            sampling_rate=SamplingRate.at_least(1 / run.num_critics),
            noise_multiplier=1 / run.shift,
        )
        return sensitivity, NoEvent(), step

    return read


_PUBLISHED: Final = {
    "gs-wgan-published": (
        "one hidden critic answers for all B images, each clipped to C: 2 C sqrt(B). The event is "
        "that of critics which a run may have; this mechanism is not offered"
    ),
    "gs-wgan-federated-published": (
        "one client answers for all B images, each clipped to C: 2 C sqrt(B). The event is that of "
        "a client that the server does not know, which it does; this mechanism is not offered"
    ),
    "adversarial-dp-sinkhorn-published": (
        "one hidden extractor answers, and the whole gradient is clipped to C: 2 C. The event is "
        "that of extractors which a run may have; this mechanism is not offered"
    ),
}

CRITIC_READERS: Final[dict[str, Callable[[Mapping[str, Any]], _Read]]] = {
    "gs-wgan-mean": _mean,
    "gs-wgan-decoupled": _decoupled,
    "gs-wgan-round-robin": _round_robin,
    **{name: _published(name, sensitivity) for name, sensitivity in _PUBLISHED.items()},
}


def hidden_critic_of(name: str, parameters: Mapping[str, Any]) -> HiddenCritic | None:
    """Return a published run of which true epsilons are to be said; None for other mechanisms.

    Args:
        name: Of the mechanism.
        parameters: As described.

    Raises:
        ValueError: If a number is missing or out of range.
    """
    return _hidden_critic(name, parameters) if name in _PUBLISHED else None
