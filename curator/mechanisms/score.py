"""How many private records a classifier that the analyst sends gets right, noised.

Statement and proof: score.md. The classifier is a network of a named architecture with an output
for each class, computed in exact integers; the answer is a count, or one for each class. Ten of
them cost a few hundredths of an epsilon and tell which of ten generators taught best.

Shape legend: M records of a batch, K classes.
"""

from __future__ import annotations

from typing import Final, Literal, final

from torch import Tensor

from curator.divergences import feature_nets
from curator.divergences.architectures import Architecture
from curator.divergences.device import compute_device
from curator.divergences.feature_nets import FeatureShape, feature_rows
from curator.errors import MalformedRequest
from curator.mechanisms.base import Requirements
from curator.mechanisms.record_choices import ChoiceMechanism, ChoiceSpec, Choose, first_of_least
from curator.mechanisms.specification import refuse_beyond
from curator.mechanisms.uploaded_weights import extractor_shape, read_weights, weight_bytes
from curator.privacy.batches import ImageSpace, Samples
from curator.privacy.chosen import chosen
from curator.sanitizer.choices import SILENCE

LARGEST_SCORE: Final = 128.0
"""Outputs beyond it are as if they were at it; their grid is 2^-8."""

_SCORES_IN_A_RADIUS: Final = LARGEST_SCORE / 8  # rows are cut at 8 radii
_MAX_WORK: Final = 1 << 38  # multiplications of a step: minutes


class ScoreSpec(ChoiceSpec):
    """Public parameters of one run; the shared ones are those of `ChoiceSpec`.

    A step brings the weights of a network of this `architecture` with an output for each class,
    and a zero in the place of each count. A record is classified rightly if the largest output is
    that of its class; of equal ones the first is the largest. `counts` are of every class apart,
    or of all of them together: one number, of less noise than their sum.
    """

    architecture: Architecture
    counts: Literal["by-class", "total"]


@final
class Score(ChoiceMechanism):
    """Answers each step with the noised number of records that a classifier gets right.

    References:
        [dwork:06], a count.
    """

    name = "score"
    specification = ScoreSpec
    sensitivity = (
        "a unit adds at most its number of records m to the counts of records that are classified "
        "rightly, all classes together, so the counts move by at most m"
    )
    spec: ScoreSpec

    def __init__(self, spec: ScoreSpec, space: ImageSpace) -> None:
        """See `Mechanism`."""
        super().__init__(spec, space)
        self.shape = _network_shape(spec, space)

    @property
    def num_options(self) -> int:
        """See `ChoiceMechanism`."""
        return self.space.num_classes if self.spec.counts == "by-class" else 1

    @property
    def rows_per_step(self) -> int:
        """See `Mechanism`: a row of one number for each count."""
        return self.num_options

    def requirements(self) -> Requirements:
        """See `Mechanism`; steps send weights."""
        return Requirements(
            samples=None,
            max_size=self.spec.max_size,
            max_records_per_unit=self.spec.max_records_per_unit,
            numbers_per_row=1,
            weight_bytes=weight_bytes(self.shape.sizes),
            answer_bytes=8,  # a sum over many records does not fit 4
        )

    def check_samples(self, samples: Samples) -> None:
        """Refuse a network that this run did not declare.

        Raises:
            MalformedRequest: If it is not of the architecture, or there is no zero for each count.

        Privacy:
            Reads the request and public facts only.
        """
        wanted = (self.num_options, 1)
        if tuple(samples.images_ND.shape) != wanted or bool((samples.images_ND != 0).any()):
            detail = f"features: expected zeros, {wanted[0]} rows of one, in the place of counts"
            raise MalformedRequest(detail)
        self._network(samples)

    def _asked(self, samples: Samples) -> Choose:
        """See `ChoiceMechanism`.

        Privacy:
            A record chooses its class if the network does, and nothing otherwise.
        """
        weights = {name: one.to(compute_device()) for name, one in self._network(samples).items()}

        def choose(levels_MD: Tensor, labels_M: Tensor, _: Tensor) -> Tensor:
            levels_MD = levels_MD.to(compute_device())
            scores_MK = feature_rows(self.shape, weights, levels_MD, _SCORES_IN_A_RADIUS)
            is_right_M = first_of_least(-scores_MK).cpu() == labels_M
            options_M = labels_M if self.spec.counts == "by-class" else 0 * labels_M
            return chosen(is_right_M, options_M, SILENCE)

        return choose

    def _network(self, samples: Samples) -> dict[str, Tensor]:
        """Return the weights of a step's network.

        Privacy:
            Reads the request and public facts only.
        """
        return read_weights(samples.weights, self.shape.sizes, feature_nets.LARGEST_WEIGHT)


def _network_shape(spec: ScoreSpec, space: ImageSpace) -> FeatureShape:
    """Return the sizes of the network.

    Raises:
        MalformedRequest: If it does not fit images of this size, or a step would take absurdly
            long.

    Privacy:
        Reads the request and public facts only.
    """
    shape = extractor_shape(spec.architecture, space.num_classes, space)
    work = spec.kept_rows * shape.multiplications
    refuse_beyond({"max_size, architecture: too much work for one step": (work, _MAX_WORK)})
    return shape
