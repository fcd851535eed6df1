"""GS-WGAN with decoupled critics: updated in public turns, one of them asked in secret.

Statement and proof: gs_wgan_decoupled.md. Which critic answers is drawn anew for each step, and
nothing that is kept depends on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Final, final

from pydantic import Field
from torch import Tensor

from curator.accounting.events.base import PrivacyEvent
from curator.accounting.events.hidden_part import HiddenPartEvent
from curator.accounting.events.none import NoEvent
from curator.errors import MalformedRequest
from curator.mechanisms.critic_state import CriticData, CriticState
from curator.mechanisms.gs_wgan_mean_spec import GsWganMeanSpec
from curator.mechanisms.one_critic import OneCritic
from curator.privacy.noise import NoiseSource
from curator.privacy.private import Private
from curator.privacy.records import ImageSpace, RecordBatch, Samples
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
class GsWganDecoupled:
    """Answers each step with the clipped image gradients of one critic, drawn in secret.

    References:
        [chen:20], with a schedule of updates that does not follow the draws.
    """

    durability: Final = "replay"

    def __init__(self, spec: GsWganDecoupledSpec, space: ImageSpace) -> None:
        """Keep the public parameters.

        Args:
            spec: Parameters of the run.
            space: Public image space of the data set.

        Raises:
            MalformedRequest: If the run would need absurd amounts of memory or time,
                or the critics cannot be updated in turns of one size.
        """
        if spec.num_critics % spec.critics_per_step:
            detail = "critics_per_step: must divide num_critics"
            raise MalformedRequest(detail)
        self.spec = spec
        self.data = CriticData(spec, space)
        self._one = OneCritic(self.data, spec.critics_per_step)

    @property
    def noise_multiplier(self) -> float:
        """See `Mechanism`."""
        return self.spec.noise_multiplier

    @property
    def rows_per_step(self) -> int:
        """Rows of every step: B."""
        return self.spec.num_samples

    def setup_event(self) -> PrivacyEvent:
        """Return the one-off cost: none.

        Privacy:
            Nothing is released before the first step, and critics are trained within steps.
        """
        return NoEvent()

    def step_event(self) -> PrivacyEvent:
        """Return the cost of one gradient.

        Privacy:
            A Gaussian release of one of K critics' answers, drawn uniformly and never told; a unit
            changes one critic.
        """
        return HiddenPartEvent(
            num_parts=self.spec.num_critics, noise_multiplier=self.spec.noise_multiplier
        )

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
            Two critics' answers are at most 2 C sqrt(B) apart, and critic k is a function of shard
            k, the images so far and public seeds, whatever was drawn. Proof: gs_wgan_decoupled.md.

        References:
            [chen:20], algorithm 1.
        """
        index = secret_index(noise, self.spec.num_critics)
        windows = self.spec.num_critics // self.spec.critics_per_step
        first = state.ensemble.num_updates % windows * self.spec.critics_per_step
        return self._one.step(state, samples, noise, index=index, first=first)

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
