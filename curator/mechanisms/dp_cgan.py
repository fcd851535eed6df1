"""A conditional critic that DP-SGD trains at the curator; what it says of images is then free.

Statement and proof: dp_cgan.md. Every update starts from a noised sum over a fresh Poisson sample;
what follows, the critic itself and gradients for the generator, is post-processing.

Shape legend: N generated images, R of them in an update, M slots, P pixels, L classes, V values.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Final, Literal, Self, final

import torch
from pydantic import Field, model_validator
from torch import Tensor

from curator.accounting.events.base import PrivacyEvent
from curator.accounting.events.sampled_sum import SampledSumEvent
from curator.divergences.critics import CriticShape
from curator.divergences.device import compute_device
from curator.divergences.dp_critic import (
    CriticVector,
    Examples,
    adam_step,
    example_slopes,
    image_slopes,
    in_chunks,
    initial_vector,
    share_recognised,
)
from curator.errors import MalformedRequest
from curator.mechanisms.base import StatefulMechanism
from curator.mechanisms.dp_cgan_pace import Pace, PaceRule
from curator.mechanisms.shard_networks import onehot
from curator.mechanisms.shard_sizes import network_shape
from curator.mechanisms.specification import (
    MAX_ROWS,
    BoundedSpecification,
    refuse_beyond,
)
from curator.mechanisms.state_size import networks_bytes
from curator.privacy.batches import ImageSpace, RecordBatch, Samples
from curator.privacy.noise import NoiseSource
from curator.privacy.private import Private, Sealed
from curator.privacy.release import Release
from curator.sanitizer.example_sum import (
    MAX_VALUES,
    ExampleBounds,
    clip_factors,
    release_example_sum,
)
from curator.sanitizer.post_process import post_process, release_values

_VALUES_AT_ONCE: Final = {"cuda": 1 << 27}  # so many slopes are in memory at a time
_VALUES_IN_CACHE: Final = 1 << 21
_MAX_COORDINATES = 1 << 26  # of the padded private batch, or of the images of a step
_MAX_STEP_WORK = 1 << 44  # multiplications of scores: minutes on a few cores


class DpCganSpec(BoundedSpecification):
    """Public parameters of one run.

    A step updates the critic `critic_steps` times, each time with a fresh Poisson sample of
    `sampling_rate`, padded to `capacity` rows, and `num_fakes` of the `num_samples` generated rows,
    in turn. The gradient of each record is clipped to `clip_norm`; their noised sum is divided by
    `expected_batch_size`. `noise_multiplier` is over `max_records_per_unit` times `clip_norm`.
    `max_size` and `max_records_per_unit` repeat, or exceed, what the data set declares: how often
    the sample does not fit is part of the cost.

    With all three of `adaptive_threshold`, `adaptive_decay` and `adaptive_grace`, some steps are
    answered with zeros and no gradient: see `PaceRule`. They are updates like all others.
    """

    expected_batch_size: Annotated[float, Field(ge=1e-3, le=MAX_ROWS)]
    num_samples: Annotated[int, Field(ge=1, le=MAX_ROWS)]
    num_fakes: Annotated[int, Field(ge=1, le=MAX_ROWS)]
    clip_norm: Annotated[float, Field(ge=1e-6, le=1e6)]
    critic: Literal["mlp", "conv"]
    critic_width: Annotated[int, Field(ge=1, le=1024)]
    critic_seed: Annotated[int, Field(ge=0, lt=2**63)]
    critic_steps: Annotated[int, Field(ge=1, le=1000)]
    critic_learning_rate: Annotated[float, Field(gt=0, le=1)]
    adaptive_threshold: Annotated[float, Field(ge=0, le=1)] | None = None
    adaptive_decay: Annotated[float, Field(ge=0, lt=1)] | None = None
    adaptive_grace: Annotated[int, Field(ge=1, le=1_000_000)] | None = None

    @model_validator(mode="after")
    def _check_sizes(self) -> Self:
        if self.num_fakes > self.num_samples:
            msg = "num_fakes must not exceed num_samples"
            raise ValueError(msg)
        _ = self.bounds  # raises where no lattice point is left
        stated = (self.adaptive_threshold, self.adaptive_decay, self.adaptive_grace)
        if None in stated and stated != (None, None, None):
            msg = "adaptive_threshold, adaptive_decay, adaptive_grace: all of them or none"
            raise ValueError(msg)
        return self

    @property
    def pace_rule(self) -> PaceRule | None:
        """When gradients become rarer, if ever."""
        threshold, decay, grace = self.adaptive_threshold, self.adaptive_decay, self.adaptive_grace
        if threshold is None or decay is None or grace is None:
            return None
        return PaceRule(threshold=threshold, decay=decay, grace=grace)

    @property
    def bounds(self) -> ExampleBounds:
        """How far a unit may move a sum."""
        return ExampleBounds(
            clip_norm=self.clip_norm,
            records_per_unit=self.max_records_per_unit,
            noise_multiplier=self.noise_multiplier,
        )

    @property
    def rows_per_step(self) -> int:
        """Rows of every step: N."""
        return self.num_samples

    def kept_bytes(self, space: ImageSpace) -> int:
        """Return the bytes of the critic with Adam's moments."""
        return networks_bytes(dp_critic_shape(self, space), 1)


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class TrainedCritic(Sealed):
    """What a run is between two steps: a critic made of releases, and a stream of samples."""

    critic: CriticVector
    samples: Iterator[Private[RecordBatch]]
    pace: Pace


@final
class DpCgan(StatefulMechanism):
    """Answers each step with what a critic, updated by DP-SGD before, says of the images.

    References:
        [torkzadehmahani:19], with the training of [bie:23].
    """

    name = "dp-cgan"
    specification = DpCganSpec
    durability = "every-step"
    sensitivity = (
        "the gradient of each record is clipped to C, so the sum of an update moves by at most C "
        "times the records of a unit; by twice that should the sample not fit"
    )
    spec: DpCganSpec

    def __init__(self, spec: DpCganSpec, space: ImageSpace) -> None:
        """See `Mechanism`."""
        super().__init__(spec, space)
        self._shape = dp_critic_shape(spec, space)

    def step_event(self) -> PrivacyEvent:
        """Return the cost of one gradient, which is that of the updates before it.

        Privacy:
            As many noised sums over fresh Poisson samples as there are updates in a step; of a
            sample's not fitting, the probability for the largest number of units is charged.
        """
        return SampledSumEvent(
            sampling_rate=self.spec.rate,
            noise_multiplier=self.spec.noise_multiplier,
            overflow_probability=self.spec.overflow_probability,
            num_releases=self.spec.critic_steps,
        )

    def start(self, batches: Iterable[Private[RecordBatch]]) -> TrainedCritic:
        """Return a critic that has seen nothing yet.

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
            onehot_NL=onehot(samples.labels_N.to(device), self.space),
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
            pixels_MP = levels_MP.to(device, torch.float32) * (2 / self.space.max_level) - 1
            onehot_ML = onehot(labels_M.to(device), self.space)
            sample = Examples(images_ND=pixels_MP, onehot_NL=onehot_ML, are_records=True)
            return self._slopes(critic, sample)

        return release_example_sum(
            records,
            slopes,
            num_classes=self.space.num_classes,
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


def dp_critic_shape(spec: DpCganSpec, space: ImageSpace) -> CriticShape:
    """Return the sizes of the critic.

    Raises:
        MalformedRequest: If the run would need absurd amounts of memory or time.

    Privacy:
        Reads the request and public facts only.
    """
    shape = network_shape(spec.critic, spec.critic_width, space)
    if shape.num_parameters > MAX_VALUES:
        detail = f"critic_width: at most {MAX_VALUES} parameters for images of this size"
        raise MalformedRequest(detail)
    try:
        spec.bounds.check_room(shape.num_parameters)
    except ValueError as error:
        detail = f"critic_width, noise_multiplier, max_records_per_unit: {error}"
        raise MalformedRequest(detail) from None
    rows = spec.critic_steps * (spec.capacity + spec.num_fakes) + spec.num_samples
    refuse_beyond(
        {
            "capacity, num_samples: too many images of this size": (
                max(spec.capacity, spec.num_samples) * space.dimension,
                _MAX_COORDINATES,
            ),
            "critic_steps, capacity, num_fakes: too much work for a step": (
                rows * shape.multiplications,
                _MAX_STEP_WORK,
            ),
        }
    )
    return shape
