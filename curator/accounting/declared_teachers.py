"""Runs of methods with teachers, as someone describes them, read as privacy events."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from curator.accounting.declared_numbers import need
from curator.accounting.events.base import PrivacyEvent
from curator.accounting.events.gaussian import GaussianEvent
from curator.accounting.events.none import NoEvent
from curator.accounting.published_votes import PublishedVotes

_Read = tuple[str, PrivacyEvent, PrivacyEvent]


def _offered(sensitivity: str) -> Callable[[Mapping[str, Any]], _Read]:
    """Return the reader of a method whose step is one Gaussian release."""

    def read(parameters: Mapping[str, Any]) -> _Read:
        step = GaussianEvent(noise_multiplier=need(parameters, "noise_multiplier"))
        return sensitivity, NoEvent(), step

    return read


def _g_pate_votes(parameters: Mapping[str, Any]) -> PublishedVotes:
    return PublishedVotes(
        vote_noise=need(parameters, "vote_noise"),
        threshold_noise=need(parameters, "threshold_noise"),
        counts_all_sides=True,
        votes_per_image=need(parameters, "num_projections"),
        images_per_batch=need(parameters, "num_samples"),
    )


def _pate_gan_votes(parameters: Mapping[str, Any]) -> PublishedVotes:
    return PublishedVotes(
        vote_noise=need(parameters, "vote_noise"),
        threshold_noise=None,
        counts_all_sides=False,
        votes_per_image=1,
        images_per_batch=need(parameters, "num_samples"),
    )


_PUBLISHED: Final[dict[str, tuple[str, Callable[[Mapping[str, Any]], PublishedVotes]]]] = {
    "g-pate-published": (
        (
            "a step is one answered vote: one of K teachers moves the tested maximum by 1, and two "
            "bins by 1 each. Charged whatever the votes are; this mechanism is not offered"
        ),
        _g_pate_votes,
    ),
    "pate-gan-published": (
        (
            "a step is one label: one of K teachers moves the count of one side by 1. Charged "
            "whatever the votes are; this mechanism is not offered"
        ),
        _pate_gan_votes,
    ),
}


def _reader(name: str) -> Callable[[Mapping[str, Any]], _Read]:
    def read(parameters: Mapping[str, Any]) -> _Read:
        sensitivity, votes = _PUBLISHED[name]
        step = GaussianEvent(noise_multiplier=1 / votes(parameters).mu)
        return sensitivity, NoEvent(), step

    return read


def published_votes(name: str, parameters: Mapping[str, Any]) -> PublishedVotes | None:
    """Return a published setting whose votes are to be counted; None for other mechanisms.

    Args:
        name: Of the mechanism.
        parameters: As described.

    Raises:
        ValueError: If a number is missing or out of range.
    """
    return _PUBLISHED[name][1](parameters) if name in _PUBLISHED else None


TEACHER_READERS: Final[dict[str, Callable[[Mapping[str, Any]], _Read]]] = {
    "adversarial-dp-sinkhorn": _offered(
        "one of K extractors changes, and the whole gradient of each is clipped to C, so the "
        "average over extractors moves by at most 2 C / K"
    ),
    "g-pate": _offered(
        "one of K teachers moves to another bin, or point of norm C, for each of B images, so the "
        "counts of B P projections move by at most sqrt(2 B P), an average by 2 C sqrt(B) / K"
    ),
    "pate-gan": _offered(
        "one of K teachers changes its answer to each of L questions, of which one side is "
        "counted, so the counts move by at most sqrt(L); the student is made of them"
    ),
    **{name: _reader(name) for name in _PUBLISHED},
}
