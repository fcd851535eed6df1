"""GS-WGAN with critics in a public round: each step updates and asks the next one.

Statement and proof: gs_wgan_round_robin.md. Nothing is secret about who answers, so a unit is used
once a round, and costs what one Gaussian release a round does.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import final

from curator.accounting.events.base import PrivacyEvent
from curator.accounting.events.gaussian import GaussianEvent
from curator.errors import MalformedRequest
from curator.mechanisms.gs_wgan_mean import GsWganMeanSpec
from curator.mechanisms.one_critic import OneCritic
from curator.mechanisms.shard_networks import NetworkState, ShardMechanism, networks_of
from curator.privacy.batches import ImageSpace, Samples
from curator.privacy.event_numbers import MAX_NOISE_MULTIPLIER
from curator.privacy.noise import NoiseSource
from curator.privacy.release import Release


@final
class GsWganRoundRobin(ShardMechanism):
    """Answers each step with the clipped image gradients of the critic whose turn it is.

    References:
        [chen:20], with clients in a public order in place of drawn ones.
    """

    name = "gs-wgan-round-robin"
    specification = GsWganMeanSpec
    durability = "replay"
    sensitivity = (
        "a unit's critic answers once in K steps and moves by at most 2 C sqrt(B): each of B "
        "images is clipped to C. One release is charged in advance, and each step adds 1 / K of one"
    )
    spec: GsWganMeanSpec

    def __init__(self, spec: GsWganMeanSpec, space: ImageSpace) -> None:
        """See `Mechanism`.

        Raises:
            MalformedRequest: Also if its noise is more than a step may be charged for.
        """
        if spec.noise_multiplier * math.sqrt(spec.num_critics) > MAX_NOISE_MULTIPLIER:
            detail = "noise_multiplier: too large for so many critics"
            raise MalformedRequest(detail)
        super().__init__(spec, space)
        self.networks = networks_of(spec, space)
        self._one = OneCritic(self.networks, spec, 1)

    def setup_event(self) -> PrivacyEvent:
        """Return the cost of a round that has begun.

        Privacy:
            One release of the critic of a unit's shard: what s steps may have used of a unit beyond
            s / K releases.
        """
        return GaussianEvent(noise_multiplier=self.spec.noise_multiplier)

    def step_event(self) -> PrivacyEvent:
        """Return the share of a release that a step adds to what a unit was used.

        Privacy:
            After s steps a unit was used in at most ceil(s / K) releases, so in less than 1 + s / K
            of them; 1 / K of a Gaussian's divergence is that of sqrt(K) times its noise.
        """
        many = math.sqrt(self.spec.num_critics) * (1 - 2.0**-50)
        return GaussianEvent(noise_multiplier=self.spec.noise_multiplier * many)

    def numbered(self, state: NetworkState, step: int) -> NetworkState:
        """Return the state with the number of the step that comes: whose turn it is."""
        return replace(state, num_steps=step - 1)

    def gradient(
        self, state: NetworkState, samples: Samples, noise: NoiseSource
    ) -> tuple[NetworkState, Release]:
        """Update the critics whose turn it is, then release what one critic makes of the images.

        Returns:
            The next state (the given one is used up), and B noised rows: the gradients of minus
            the scores.

        Privacy:
            Two answers of a critic are at most 2 C sqrt(B) apart, and critic k is a function of
            shard k, the images so far and public seeds. Proof: gs_wgan_round_robin.md.

        References:
            [chen:20], algorithm 1.
        """
        index = state.num_steps % self.spec.num_critics
        return self._one.step(state, samples, noise, index=index, first=index)
