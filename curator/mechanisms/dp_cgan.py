"""A conditional critic that DP-SGD trains at the curator; what it says of images is then free.

Statement and proof: dp_cgan.md. Every update starts from a noised sum over a fresh Poisson sample;
what follows, the critic itself and gradients for the generator, is post-processing.

Shape legend: N generated images, R of them in an update, M slots, P pixels, L classes, V values.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NoReturn, final

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from curator.accounting.events.base import PrivacyEvent
from curator.accounting.events.none import NoEvent
from curator.accounting.events.sampled_sum import SampledSumEvent
from curator.accounting.overflow import overflow_probability
from curator.divergences.device import compute_device
from curator.divergences.dp_critic import (
    Examples,
    example_slopes,
    image_slopes,
    in_chunks,
    initial_vector,
    share_recognised,
)
from curator.divergences.dp_critic_adam import CriticVector, adam_step
from curator.mechanisms.dp_cgan_pace import Pace
from curator.mechanisms.dp_cgan_spec import DpCganSpec, dp_critic_shape
from curator.mechanisms.specification import check_rows
from curator.privacy.event import SamplingRate
from curator.privacy.noise import NoiseSource
from curator.privacy.private import Private, SealedError
from curator.privacy.records import ImageSpace, RecordBatch, Samples
from curator.privacy.release import Release
from curator.sanitizer.example_sum import clip_factors, release_example_sum
from curator.sanitizer.post_process import post_process, release_values

_VALUES_AT_ONCE: Final = {"cuda": 1 << 27}  # so many slopes are in memory at a time
_VALUES_IN_CACHE: Final = 1 << 21


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class TrainedCritic:
    """What a run is between two steps: a critic made of releases, and a stream of samples."""

    critic: CriticVector
    samples: Iterator[Private[RecordBatch]]
    pace: Pace

    def __repr__(self) -> str:
        """Return a constant, whatever is inside."""
        return "TrainedCritic(<sealed>)"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        """Refuse: the stream reaches private records.

        Raises:
            SealedError: Always.
        """
        raise SealedError


@final
class DpCgan:
    """Answers each step with what a critic, updated by DP-SGD before, says of the images.

    References:
        [torkzadehmahani:19], with the training of [bie:23].
    """

    durability: Final = "every-step"

    def __init__(self, spec: DpCganSpec, space: ImageSpace) -> None:
        """Keep the public parameters.

        Args:
            spec: Parameters of the run.
            space: Public image space of the data set.

        Raises:
            MalformedRequest: If the run would need absurd amounts of memory or time.
        """
        self.spec = spec
        self.sampling_rate = SamplingRate.at_least(spec.sampling_rate)
        self.capacity = spec.capacity
        self._space = space
        self._shape = dp_critic_shape(spec, space)

    @property
    def noise_multiplier(self) -> float:
        """See `Mechanism`."""
        return self.spec.noise_multiplier

    @property
    def rows_per_step(self) -> int:
        """Rows of every step: N."""
        return self.spec.num_samples

    def setup_event(self) -> PrivacyEvent:
        """Return the one-off cost: none.

        Privacy:
            Nothing private is read before the first step.
        """
        return NoEvent()

    def step_event(self) -> PrivacyEvent:
        """Return the cost of one gradient, which is that of the updates before it.

        Privacy:
            As many noised sums over fresh Poisson samples as there are updates in a step; of a
            sample's not fitting, the probability for the largest number of units is charged.
        """
        overflow = overflow_probability(
            self.spec.max_size, self.sampling_rate, self.spec.max_units_per_sample
        )
        return SampledSumEvent(
            sampling_rate=self.sampling_rate,
            noise_multiplier=self.spec.noise_multiplier,
            overflow_probability=overflow,
            num_releases=self.spec.critic_steps,
        )

    def check_samples(self, samples: Samples) -> None:
        """Refuse samples of a shape this run did not declare.

        Raises:
            MalformedRequest: If there are not N rows of the image size with known labels.

        Privacy:
            Reads the request and public facts only.
        """
        num_rows = self.spec.num_samples
        check_rows(samples, self._space, range(num_rows, num_rows + 1))

    def start(self, batches: Iterable[Private[RecordBatch]]) -> TrainedCritic:
        """Return a critic that has seen nothing yet.

        Args:
            batches: An endless stream of fresh Poisson samples; none is taken here.

        Returns:
            The state before the first step.

        Privacy:
            Made of a public seed.
        """
        vector = initial_vector(self._shape, self.spec.critic_seed)
        critic = CriticVector.start(vector.to(compute_device()))
        return TrainedCritic(critic=critic, samples=iter(batches), pace=Pace())

    def gradient(
        self, state: TrainedCritic, samples: Samples, noise: NoiseSource
    ) -> tuple[TrainedCritic, Release]:
        """Update the critic, then return the generator's gradient under it, if one is due.

        Args:
            state: Of `start`, or of the step before.
            samples: N rows that passed `check_samples`.
            noise: Secret randomness.

        Returns:
            The next state, and the gradient of mean log(1 + exp(-score)), one row per sample; zeros
            where the rule of `adaptive_threshold` says that the critic is to learn more first.

        Privacy:
            Each update reads one fresh sample, through one noised sum. The critic is a function of
            such sums, of images that were sent and of a public seed; so are the gradient, and
            whether there is one.

        References:
            [bie:23], algorithm 1.
        """
        device, critic = compute_device(), state.critic
        generated = Examples(
            images_ND=samples.images_ND.to(device, torch.float32),
            onehot_NL=self._onehot(samples.labels_N.to(device)),
            are_records=False,
        )
        release = self._noised_sum(critic, next(state.samples), noise)
        critic = self._updated(critic, release, generated)
        for _ in range(1, self.spec.critic_steps):
            release = self._noised_sum(critic, next(state.samples), noise)
            critic = self._updated(critic, release, generated)

        def rows(_: Tensor) -> Tensor:
            if not is_due:
                return torch.zeros_like(generated.images_ND)
            images_ND, onehot_NL = generated.images_ND, generated.onehot_NL
            return image_slopes(self._shape, critic.values, images_ND, onehot_NL)

        def share() -> float:
            return share_recognised(self._shape, critic.values, generated)

        is_due, pace = state.pace.is_due, state.pace.after_step(self.spec.pace_rule, share)
        following = TrainedCritic(critic=critic, samples=state.samples, pace=pace)
        return following, post_process(release, rows)

    def pack(self, state: TrainedCritic) -> dict[str, Tensor]:
        """Return the critic with Adam's moments, and how often gradients are given.

        Args:
            state: Of `start`, or of a step.

        Returns:
            Tensors of public names, shapes and types.

        Privacy:
            Functions of releases.
        """
        if self.spec.pace_rule is None:
            return state.critic.pack()
        return {**state.critic.pack(), "pace": state.pace.pack()}

    def unpack(
        self, tensors: Mapping[str, Tensor], batches: Iterable[Private[RecordBatch]]
    ) -> TrainedCritic:
        """Return the state that was packed, with another stream of samples.

        Args:
            tensors: Of `pack`.
            batches: As for `start`.

        Returns:
            The same critic, bit for bit.

        Privacy:
            A function of what was packed; the next sample is as fresh as any.
        """
        critic = CriticVector.unpack(tensors, compute_device())
        pace = Pace() if self.spec.pace_rule is None else Pace.unpack(tensors["pace"])
        return TrainedCritic(critic=critic, samples=iter(batches), pace=pace)

    def _noised_sum(
        self, critic: CriticVector, records: Private[RecordBatch], noise: NoiseSource
    ) -> Release:
        """Return the noised sum of the clipped slopes of a sample.

        Privacy:
            The one place that reads records.
        """
        device = critic.values.device

        def slopes(levels_MP: Tensor, labels_M: Tensor) -> Iterator[Sequence[Tensor]]:
            pixels_MP = levels_MP.to(device, torch.float32) * (2 / self._space.max_level) - 1
            onehot_ML = self._onehot(labels_M.to(device))
            sample = Examples(images_ND=pixels_MP, onehot_NL=onehot_ML, are_records=True)
            return self._slopes(critic, sample)

        return release_example_sum(
            records,
            slopes,
            num_classes=self._space.num_classes,
            num_values=self._shape.num_parameters,
            bounds=self.spec.bounds,
            noise=noise,
        )

    def _updated(self, critic: CriticVector, release: Release, generated: Examples) -> CriticVector:
        """Return the critic after an update.

        Privacy:
            Every argument is released or public. Generated rows are clipped like records, so that
            neither side outweighs the other; nothing relies on it.
        """
        spec = self.spec
        turns = torch.arange(spec.num_fakes) + critic.num_updates * spec.num_fakes
        turned = (turns % spec.num_samples).to(critic.values.device)
        fakes = Examples(
            images_ND=generated.images_ND[turned],
            onehot_NL=generated.onehot_NL[turned],
            are_records=False,
        )
        summed = torch.zeros_like(critic.values)
        for parts in self._slopes(critic, fakes):
            factors = clip_factors(parts, spec.clip_norm)
            summed += torch.cat([factors @ part for part in parts])
        of_records = release_values(release).to(critic.values) / spec.expected_batch_size
        slope = of_records + summed / spec.num_fakes
        return adam_step(critic, slope, spec.critic_learning_rate)

    def _slopes(self, critic: CriticVector, examples: Examples) -> Iterator[Sequence[Tensor]]:
        most = _VALUES_AT_ONCE.get(critic.values.device.type, _VALUES_IN_CACHE)
        at_once = max(1, most // self._shape.num_parameters)
        for rows in in_chunks(len(examples.images_ND), at_once):
            yield example_slopes(self._shape, critic.values, examples.some(rows))

    def _onehot(self, labels: Tensor) -> Tensor:
        return one_hot(labels, self._space.num_classes).to(torch.float32)
