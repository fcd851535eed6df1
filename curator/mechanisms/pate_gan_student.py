"""The student of PATE-GAN: what it is asked to learn, and how it is kept. Nothing here is private.

Shape legend: N = B samples, the first L of them labelled, S questions that are remembered,
D pixels.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, final

import torch
from torch import Tensor

from curator.divergences.adam import Ensemble
from curator.divergences.critic_training import pack_ensemble, unpack_ensemble
from curator.divergences.critics import (
    CriticShape,
    initial_critics,
    public_normals,
    public_uniforms,
)
from curator.divergences.device import compute_device
from curator.divergences.student import Answered, student_gradients, student_logits, teach
from curator.divergences.teachers import Questions
from curator.mechanisms.shard_sizes import network_shape
from curator.mechanisms.specification import refuse_beyond
from curator.privacy.batches import ImageSpace

if TYPE_CHECKING:
    from curator.mechanisms.pate_gan import PateGanSpec

_MAX_POOL = 1 << 26  # pixels of the questions that a student remembers
_MAX_STUDENT_WORK = 1 << 36  # multiplications of a step
_PREFIX = "student."
_SLOPES = {"absolute": 4.0, "relative": 2.0}  # a share's slope is a quarter of its logit's


@dataclass(frozen=True, kw_only=True, slots=True)
class StudentSizes:
    """A network that remembers `pool` questions and is shown `shown` of them a step."""

    kind: Literal["mlp", "conv"]
    width: int
    pool: int
    shown: int

    def shape(self, space: ImageSpace) -> CriticShape:
        """Return the sizes of the network.

        Raises:
            MalformedRequest: If it would need absurd amounts of memory or time.

        Privacy:
            Reads the request and public facts only.
        """
        shape = network_shape(self.kind, self.width, space)
        refuse_beyond(
            {
                "num_labelled, pool_steps: too many images of this size": (
                    self.pool * space.dimension,
                    _MAX_POOL,
                ),
                "student_batch, student_steps: too much work for one step": (
                    self.shown * shape.multiplications,
                    _MAX_STUDENT_WORK,
                ),
            }
        )
        return shape


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class Studied:
    """The student after some steps, with the questions that it remembers."""

    network: Ensemble
    pool: Answered
    num_steps: int


@final
class Student:
    """How the student of a run begins, learns, answers and is kept."""

    def __init__(self, spec: PateGanSpec, space: ImageSpace) -> None:
        """Keep the public parameters.

        Raises:
            MalformedRequest: If the student would need absurd amounts of memory or time.
        """
        self._spec = spec
        self._space = space
        self._shape = spec.learning.shape(space)

    def begin(self) -> Studied:
        """Return a student that has learnt nothing."""
        first = initial_critics(self._shape, 1, self._spec.student_seed)
        network = {name: value[0].to(compute_device()) for name, value in first.items()}
        nothing = torch.zeros((0, self._space.dimension), device=compute_device())
        asked = Questions(
            firsts_ND=nothing,
            seconds_ND=nothing if self._spec.labels == "relative" else None,
            onehot_NL=nothing.new_zeros((0, self._space.num_classes)),
        )
        pool = Answered(asked=asked, shares_N=nothing.new_zeros(0))
        return Studied(network=Ensemble.start(network), pool=pool, num_steps=0)

    def questions(self, step: int, images_ND: Tensor, onehot_NL: Tensor) -> Questions:
        """Return what teachers are asked in the step after `step` others."""
        spec = self._spec
        first_LD = images_ND[: spec.num_labelled]
        drawn = public_normals(spec.student_seed, f"reach|{step}", first_LD.numel())
        moves_LD = spec.reach * drawn.reshape(first_LD.shape).to(first_LD.device)
        relative = spec.labels == "relative"
        return Questions(
            firsts_ND=(first_LD + moves_LD).clamp(-1, 1),
            seconds_ND=(first_LD - moves_LD).clamp(-1, 1) if relative else None,
            onehot_NL=onehot_NL[: spec.num_labelled],
        )

    def study(self, before: Studied, asked: Questions, counts_L1: Tensor) -> tuple[Studied, Tensor]:
        """Return the student after it has learnt from a step's noisy counts, and its surprise.

        Returns:
            The student, and by how much each share exceeds what it had expected.
        """
        spec = self._spec
        shares_L = (counts_L1[:, 0] / spec.num_teachers).to(asked.firsts_ND.device, torch.float32)
        expected_L = student_logits(self._shape, before.network.critics, asked).sigmoid()
        fresh = Answered(asked=asked, shares_N=shares_L.clamp(0, 1))
        pool = _joined(before.pool, fresh, self._spec.learning.pool)
        network = teach(
            self._shape,
            spec.student_learning_rate,
            before.network,
            self._lessons(pool, before.num_steps),
        )
        studied = Studied(network=network, pool=pool, num_steps=before.num_steps + 1)
        return studied, shares_L - expected_L

    def gradients(
        self, studied: Studied, surprise_L: Tensor, images_ND: Tensor, onehot_NL: Tensor
    ) -> Tensor:
        """Return the gradients of minus the student's scores, and of its surprise.

        A label's share tells how the score changes along the noise that its image was given. In
        expectation over that noise `_SLOPES` surprise noise / reach^2 is what a gradient of the
        score lacks, to first order and for shares near one half.
        """
        spec = self._spec
        rows_ND = student_gradients(self._shape, studied.network.critics, images_ND, onehot_NL)
        if spec.residual > 0:
            num = spec.num_labelled
            moves_LD = studied.pool.asked.firsts_ND[-num:] - images_ND[:num]
            weight = spec.residual * _SLOPES[spec.labels] / spec.reach**2
            rows_ND[:num] -= weight * surprise_L.unsqueeze(1) * moves_LD
        return rows_ND

    def pack(self, studied: Studied) -> dict[str, Tensor]:
        """Return network and questions as tensors of the processor, whose names begin alike."""
        asked = studied.pool.asked
        kept = {"firsts": asked.firsts_ND, "onehot": asked.onehot_NL}
        if asked.seconds_ND is not None:
            kept["seconds"] = asked.seconds_ND
        kept["shares"] = studied.pool.shares_N
        tensors = pack_ensemble(studied.network) | {
            f"pool.{name}": value.cpu().contiguous() for name, value in kept.items()
        }
        tensors["num_steps"] = torch.tensor([studied.num_steps])
        return {_PREFIX + name: value for name, value in tensors.items()}

    def unpack(self, tensors: Mapping[str, Tensor]) -> Studied:
        """Return the student that was packed, perhaps among other tensors."""
        own = {
            name.removeprefix(_PREFIX): value
            for name, value in tensors.items()
            if name.startswith(_PREFIX)
        }
        kept = {name: value.to(compute_device()) for name, value in own.items()}
        asked = Questions(
            firsts_ND=kept["pool.firsts"],
            seconds_ND=kept.get("pool.seconds"),
            onehot_NL=kept["pool.onehot"],
        )
        return Studied(
            network=unpack_ensemble(own),
            pool=Answered(asked=asked, shares_N=kept["pool.shares"]),
            num_steps=int(own["num_steps"]),
        )

    def _lessons(self, pool: Answered, step: int) -> Iterator[Answered]:
        """Yield the questions of each update, picked by public numbers."""
        spec = self._spec
        for turn in range(spec.student_steps):
            stream = f"lesson|{step}|{turn}"
            picks = public_uniforms(spec.student_seed, stream, spec.student_batch)
            places = (picks * len(pool.shares_N)).to(torch.int64)
            places = places.clamp_max(len(pool.shares_N) - 1).to(pool.shares_N.device)
            yield _picked(pool, places)


def _joined(pool: Answered, fresh: Answered, most: int) -> Answered:
    """Return the last questions of both."""
    olds, news = pool.asked, fresh.asked
    seconds = None
    if olds.seconds_ND is not None and news.seconds_ND is not None:
        seconds = torch.cat((olds.seconds_ND, news.seconds_ND))[-most:]
    asked = Questions(
        firsts_ND=torch.cat((olds.firsts_ND, news.firsts_ND))[-most:],
        seconds_ND=seconds,
        onehot_NL=torch.cat((olds.onehot_NL, news.onehot_NL))[-most:],
    )
    return Answered(asked=asked, shares_N=torch.cat((pool.shares_N, fresh.shares_N))[-most:])


def _picked(pool: Answered, places: Tensor) -> Answered:
    """Return some questions."""
    seconds = pool.asked.seconds_ND
    asked = Questions(
        firsts_ND=pool.asked.firsts_ND[places],
        seconds_ND=None if seconds is None else seconds[places],
        onehot_NL=pool.asked.onehot_NL[places],
    )
    return Answered(asked=asked, shares_N=pool.shares_N[places])
