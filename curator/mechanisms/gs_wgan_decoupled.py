"""GS-WGAN with decoupled critics: updated in public turns, one of them asked in secret.

Statement and proof: gs_wgan_decoupled.md. Which critic answers is drawn anew for each step, and
nothing that is kept depends on it.
"""

from __future__ import annotations

from typing import Annotated, final

from pydantic import Field

from curator.accounting.events.base import PrivacyEvent
from curator.accounting.events.hidden_part import HiddenPartEvent
from curator.errors import MalformedRequest
from curator.mechanisms.gs_wgan_mean import GsWganMeanSpec
from curator.mechanisms.one_critic import OneCritic
from curator.mechanisms.shard_networks import NetworkState, ShardMechanism, networks_of
from curator.privacy.batches import ImageSpace, Samples
from curator.privacy.noise import NoiseSource
from curator.privacy.release import Release
from curator.sanitizer.averaged import MAX_CRITICS
from curator.sanitizer.secret_index import secret_index


class GsWganDecoupledSpec(GsWganMeanSpec):
    """Public parameters of one run: those of averaged critics, and how many a step updates.

    Steps update `critics_per_step` critics each, in turn; it divides `num_critics`.
    `noise_multiplier` is over 2 C sqrt(B).
    """

    critics_per_step: Annotated[int, Field(ge=1, le=MAX_CRITICS)]


@final
class GsWganDecoupled(ShardMechanism):
    """Answers each step with the clipped image gradients of one critic, drawn in secret.

    References:
        [chen:20], with a schedule of updates that does not follow the draws.
    """

    name = "gs-wgan-decoupled"
    specification = GsWganDecoupledSpec
    durability = "replay"
    sensitivity = (
        "one of K critics changes, two of them differ by at most 2 C sqrt(B): each of B images is "
        "clipped to C"
    )
    spec: GsWganDecoupledSpec

    def __init__(self, spec: GsWganDecoupledSpec, space: ImageSpace) -> None:
        """See `Mechanism`.

        Raises:
            MalformedRequest: Also if the critics cannot be updated in turns of one size.
        """
        if spec.num_critics % spec.critics_per_step:
            detail = "critics_per_step: must divide num_critics"
            raise MalformedRequest(detail)
        super().__init__(spec, space)
        self.networks = networks_of(spec, space)
        self._one = OneCritic(self.networks, spec, spec.critics_per_step)

    def step_event(self) -> PrivacyEvent:
        """Return the cost of one gradient.

        Privacy:
            A Gaussian release of one of K critics' answers, drawn uniformly and never told; a unit
            changes one critic.
        """
        return HiddenPartEvent(
            num_parts=self.spec.num_critics, noise_multiplier=self.spec.noise_multiplier
        )

    def gradient(
        self, state: NetworkState, samples: Samples, noise: NoiseSource
    ) -> tuple[NetworkState, Release]:
        """Update the critics whose turn it is, then release what one critic makes of the images.

        Returns:
            The next state (the given one is used up), and B noised rows: the gradients of minus
            the scores.

        Privacy:
            Two critics' answers are at most 2 C sqrt(B) apart, and critic k is a function of shard
            k, the images so far and public seeds, whatever was drawn. Proof: gs_wgan_decoupled.md.

        References:
            [chen:20], algorithm 1.
        """
        index = secret_index(noise, self.spec.num_critics)
        windows = self.spec.num_critics // self.spec.critics_per_step
        first = state.ensemble.num_updates % windows * self.spec.critics_per_step
        return self._one.step(state, samples, noise, index=index, first=first)
