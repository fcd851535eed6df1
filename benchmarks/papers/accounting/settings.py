"""Runs as papers have published them: nothing here is offered by a curator.

A setting is described as for `curator accountant explain`, under a name that ends with -published.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from benchmarks.papers.accounting.cgan import PublishedCgan
from benchmarks.papers.accounting.hidden_critic import HiddenCritic
from benchmarks.papers.accounting.looks import StoredSums
from benchmarks.papers.accounting.one_ledger import ThreeParts, training_noise
from benchmarks.papers.accounting.votes import PublishedVotes
from curator.accounting.events.base import PrivacyEvent
from curator.accounting.events.gaussian import GaussianEvent
from curator.accounting.events.hidden_part import HiddenPartEvent
from curator.accounting.events.none import NoEvent
from curator.accounting.events.sampled_gaussian import SampledGaussianEvent
from curator.accounting.explain import DescribedRun
from curator.mechanisms.described import Description, read_described, read_description
from curator.privacy.event_numbers import SamplingRate

Told = HiddenCritic | PublishedCgan | PublishedVotes | StoredSums | ThreeParts


@dataclass(frozen=True, kw_only=True, slots=True)
class Setting:
    """A run with its event, and what its paper's accountant is told of it."""

    run: DescribedRun
    told: Told | None = None


def read_setting(table: Mapping[str, Any], overrides: Mapping[str, Any]) -> Setting:
    """Read a setting, or any other description.

    Args:
        table: As for `read_description`.
        overrides: As for `read_description`.

    Raises:
        ValueError: If something is missing, unknown or out of range; the text names it.
    """
    description = read_description(table, overrides)
    read = _PUBLISHED.get(description.name)
    if read is None:
        return Setting(run=read_described(table, overrides))
    sensitivity, event, told = read(description)
    run = DescribedRun(
        mechanism=description.name,
        sensitivity=sensitivity,
        setup=NoEvent(),
        step=event,
        num_steps=description.num_steps,
        budget=description.budget,
    )
    return Setting(run=run, told=told)


_Read = tuple[str, PrivacyEvent, Told | None]


def _hidden_critic(
    sensitivity: str, *, images_together: bool = False, in_secret: bool = True
) -> Callable[[Description], _Read]:
    def read(given: Description) -> _Read:
        told = HiddenCritic(
            num_critics=given.need("num_critics"),
            num_samples=1 if images_together else given.need("num_samples"),
            noise_multiplier=given.need("noise_multiplier"),
            num_replies=given.parameters.get("num_replies", 1),
            is_drawn_in_secret=in_secret,
        )
        event = SampledGaussianEvent(
            sampling_rate=SamplingRate.at_least(1 / told.num_critics),
            noise_multiplier=1 / told.shift,
        )
        return sensitivity, event, told

    return read


def _votes(
    sensitivity: str, told: Callable[[Description], PublishedVotes]
) -> Callable[[Description], _Read]:
    def read(given: Description) -> _Read:
        votes = told(given)
        return sensitivity, GaussianEvent(noise_multiplier=1 / votes.mu), votes

    return read


def _g_pate(given: Description) -> PublishedVotes:
    return PublishedVotes(
        vote_noise=given.need("vote_noise"),
        threshold_noise=given.need("threshold_noise"),
        counts_all_sides=True,
        votes_per_image=given.need("num_projections"),
        images_per_batch=given.need("num_samples"),
    )


def _pate_gan(given: Description) -> PublishedVotes:
    return PublishedVotes(
        vote_noise=given.need("vote_noise"),
        threshold_noise=None,
        counts_all_sides=False,
        votes_per_image=1,
        images_per_batch=given.need("num_samples"),
    )


def _dp_cgan(given: Description) -> _Read:
    told = PublishedCgan(
        sampling_rate=float(given.rate),
        noise_multiplier=given.need("noise_multiplier"),
        clip_norm=given.need("clip_norm"),
        num_tensors=given.need("num_tensors"),
    )
    event = SampledGaussianEvent(
        sampling_rate=given.rate, noise_multiplier=told.joint_noise_multiplier
    )
    return "each tensor's gradient is clipped to C alone: C sqrt(tensors)", event, told


def _dosser(given: Description) -> _Read:
    told = StoredSums(
        sampling_rate=float(given.rate),
        noise_multiplier=given.need("noise_multiplier"),
        num_sums=given.need("num_sums"),
        num_looks=given.need("num_looks"),
        told_delta=given.need("told_delta"),
    )
    event = SampledGaussianEvent(
        sampling_rate=given.rate, noise_multiplier=told.after(told.num_looks / told.num_sums)
    )
    sensitivity = (
        "a step is one stored sum, which a record moves by at most its clip norm, after as many "
        "looks as each has on average"
    )
    return sensitivity, event, told


def _feta_pro(given: Description) -> _Read:
    told = ThreeParts(
        image_noise=given.need("image_noise"),
        image_rate=given.need("image_rate"),
        num_images=given.need("num_images"),
        embedding_noise=given.need("embedding_noise"),
        training_rate=given.need("training_rate"),
        training_steps=given.need("training_steps"),
        drawn_rate=given.need("drawn_rate"),
        class_share=given.need("class_share"),
    )
    searched = training_noise(told, given.budget.epsilon, given.budget.delta)
    sensitivity = (
        "a step is a whole run: mean images, an embedding and DP-SGD, each over what a record "
        "moves; of the images less, where a class is smaller than the average one"
    )
    return sensitivity, told.event(searched), told


def _dp_merf_ae(given: Description) -> _Read:
    """Each published iteration is a Gaussian of a batch of a fixed size, drawn without replacement.

    If a record is replaced, that has the profile of a hidden part among n / B of them [balle:18];
    the paper's bound of the same event is far above it [chen:20, appendix].
    """
    event = HiddenPartEvent(
        num_parts=given.need("num_batches"), noise_multiplier=given.need("noise_multiplier")
    )
    sensitivity = (
        "as published, for replacing a record: training and embedding share batches of a fixed "
        "size, one of n / B, and a release differs by at most 1"
    )
    return sensitivity, event, None


_PUBLISHED: Final[dict[str, Callable[[Description], _Read]]] = {
    "adversarial-dp-sinkhorn-published": _hidden_critic(
        "one hidden extractor answers, and the whole gradient is clipped to C: 2 C. The event is "
        "that of extractors which a run may have",
        images_together=True,
    ),
    "dp-cgan-published": _dp_cgan,
    "dp-merf-ae-published": _dp_merf_ae,
    "dosser-published": _dosser,
    "feta-pro-published": _feta_pro,
    "g-pate-published": _votes(
        "a step is one answered vote: one of K teachers moves the tested maximum by 1, and two "
        "bins by 1 each. Charged whatever the votes are",
        _g_pate,
    ),
    "gs-wgan-federated-published": _hidden_critic(
        "one client answers for all B images, each clipped to C: 2 C sqrt(B). The event is that of "
        "a client that the server does not know, which it does",
        in_secret=False,
    ),
    "gs-wgan-published": _hidden_critic(
        "one hidden critic answers for all B images, each clipped to C: 2 C sqrt(B). The event is "
        "that of critics which a run may have"
    ),
    "pate-gan-published": _votes(
        "a step is one label: one of K teachers moves the count of one side by 1. Charged "
        "whatever the votes are",
        _pate_gan,
    ),
}
