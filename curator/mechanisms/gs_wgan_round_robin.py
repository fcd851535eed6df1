"""GS-WGAN with critics in a public round: each step updates and asks the next one.

Statement and proof: gs_wgan_round_robin.md. Nothing is secret about who answers, so a unit is used
once a round, and costs what one Gaussian release a round does.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final, final

from torch import Tensor

from curator.accounting.events.base import PrivacyEvent
from curator.accounting.events.gaussian import GaussianEvent
from curator.errors import MalformedRequest
from curator.mechanisms.critic_state import CriticData, CriticState
from curator.mechanisms.gs_wgan_mean_spec import GsWganMeanSpec
from curator.mechanisms.one_critic import OneCritic
from curator.privacy.event import MAX_NOISE_MULTIPLIER
from curator.privacy.noise import NoiseSource
from curator.privacy.private import Private
from curator.privacy.records import ImageSpace, RecordBatch, Samples
from curator.privacy.release import Release


@final
class GsWganRoundRobin:
    """Answers each step with the clipped image gradients of the critic whose turn it is.

    References:
        [chen:20], with clients in a public order in place of drawn ones.
    """

    durability: Final = "replay"

    def __init__(self, spec: GsWganMeanSpec, space: ImageSpace) -> None:
        """Keep the public parameters.

        Args:
            spec: Parameters of the run.
            space: Public image space of the data set.

        Raises:
            MalformedRequest: If the run would need absurd amounts of memory or time,
                or its noise is more than a step may be charged for.
        """
        if spec.noise_multiplier * math.sqrt(spec.num_critics) > MAX_NOISE_MULTIPLIER:
            detail = "noise_multiplier: too large for so many critics"
            raise MalformedRequest(detail)
        self.spec = spec
        self.data = CriticData(spec, space)
        self._one = OneCritic(self.data, 1)

    @property
    def noise_multiplier(self) -> float:
        """See `Mechanism`."""
        return self.spec.noise_multiplier

    @property
    def rows_per_step(self) -> int:
        """Rows of every step: B."""
        return self.spec.num_samples

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

    def check_samples(self, samples: Samples) -> None:
        """Refuse samples of a shape this run did not declare.

        Raises:
            MalformedRequest: If there are not B rows of the image size with known labels.

        Privacy:
            Reads the request and public facts only.
        """
        self.data.check_samples(samples)

    def start(self, batches: Iterable[Private[RecordBatch]]) -> CriticState:
        """Return the shards with critics that have seen nothing yet.

        Args:
            batches: Every record once, all batches of one padded shape, no unit split.

        Returns:
            The state before the first step.

        Privacy:
            One unit changes one shard. The state is private and is never released.
        """
        return self.data.start(batches)

    def gradient(
        self, state: CriticState, samples: Samples, noise: NoiseSource
    ) -> tuple[CriticState, Release]:
        """Update the critics whose turn it is, then release what one critic makes of the images.

        Args:
            state: Of `start`, or of the step before; used up.
            samples: B rows that passed `check_samples`.
            noise: Secret randomness.

        Returns:
            The next state, and B noised rows: the gradients of minus the scores.

        Privacy:
            Two answers of a critic are at most 2 C sqrt(B) apart, and critic k is a function of
            shard k, the images so far and public seeds. Proof: gs_wgan_round_robin.md.

        References:
            [chen:20], algorithm 1.
        """
        index = (state.number - 1) % self.spec.num_critics
        return self._one.step(state, samples, noise, index=index, first=index)

    def numbered(self, state: CriticState, step: int) -> CriticState:
        """Return the state with the number of the step that comes: whose turn it is.

        Args:
            state: Before the step.
            step: Its number, which the ledger never gives twice.
        """
        return replace(state, number=step)

    def pack(self, state: CriticState) -> dict[str, Tensor]:
        """Return the critics with Adam's moments; shards are read again.

        Args:
            state: Of `start`, or of a step.

        Returns:
            Tensors of public names, shapes and types.
        """
        return self.data.pack(state)

    def unpack(
        self, tensors: Mapping[str, Tensor], batches: Iterable[Private[RecordBatch]]
    ) -> CriticState:
        """Return the state that was packed, bit for bit.

        Args:
            tensors: Of `pack`.
            batches: As for `start`, of the same records.
        """
        return self.data.unpack(tensors, batches)
