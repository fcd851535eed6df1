"""How many private records are nearest to each of the candidates that the analyst sends, noised.

Statement and proof: votes.md. A step brings images of some classes; each private record votes for
the candidate of its class that is nearest in public features, and the answer is the noised number
of votes for each. A generator is not trained here but grows candidates from those that have votes:
it may be any program, and never leaves the analyst.

Shape legend: M records of a batch, N candidates, k images of a candidate, D pixels, F features.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal, Self, final

import torch
from pydantic import Field, model_validator
from torch import Tensor

from curator.divergences import linear_softmax
from curator.divergences.device import compute_device
from curator.divergences.scattering import Scattering
from curator.errors import MalformedRequest
from curator.mechanisms.base import Requirements
from curator.mechanisms.record_choices import ChoiceMechanism, ChoiceSpec, Choose, first_of_least
from curator.mechanisms.specification import MAX_ROWS, refuse_beyond
from curator.privacy.batches import ImageSpace, Samples, level_dtype
from curator.privacy.chosen import chosen
from curator.sanitizer.choices import SILENCE
from curator.sanitizer.outer import RIGHT_RADIUS, in_parts, right_rows

MAX_IMAGES_PER_CANDIDATE: Final = 64
_MAX_WORK: Final = 1 << 40  # multiplications of a step: minutes
_AT_ONCE: Final = 1 << 22  # distances to candidates, or features: 32 MiB in float64
_EXACT: Final = 1 << 53  # integers up to here are exact in float64
_BEYOND: Final = float(1 << 60)  # no distance is so far; a candidate of another class is, and more
_LEAST_BIAS: Final = 2.0**-10  # below features: a row without any has a norm


class VotesSpec(ChoiceSpec):
    """Public parameters of one run; the shared ones are those of `ChoiceSpec`.

    A step has `num_candidates` candidates, each of `images_per_candidate` images of one class in a
    row, whose features' mean is compared. Distances are Euclidean, of the `features`: pixels, or
    scattering coefficients, each group of maps with mean 0 and variance 1, scaled to norm 1
    together. Candidates are rounded to the levels that records have.
    """

    num_candidates: Annotated[int, Field(ge=1, le=MAX_ROWS)]
    images_per_candidate: Annotated[int, Field(ge=1, le=MAX_IMAGES_PER_CANDIDATE)]
    features: Literal["pixels", "scattering"]

    @model_validator(mode="after")
    def _check_rows(self) -> Self:
        if self.rows_per_step > MAX_ROWS:
            msg = f"num_candidates times images_per_candidate must be at most {MAX_ROWS}"
            raise ValueError(msg)
        return self

    @property
    def rows_per_step(self) -> int:
        """Images of a step."""
        return self.num_candidates * self.images_per_candidate

    def width(self, space: ImageSpace) -> int:
        """Return the length F of a row that is compared."""
        return space.dimension if self.features == "pixels" else _scattering_width(space)

    def kept_bytes(self, space: ImageSpace) -> int:
        """Return the bytes of the records, and of features that are no pixels."""
        kept = 0 if self.features == "pixels" else 2 * self.width(space)
        return super().kept_bytes(space) + self.kept_rows * kept


@final
class Votes(ChoiceMechanism):
    """Answers each step with the noised number of records that are nearest to each candidate.

    References:
        [lin:24], algorithm 2, with the discrete Gaussian.
    """

    name = "votes"
    specification = VotesSpec
    sensitivity = (
        "each record of a unit votes for one candidate of its class, so a unit adds at most its "
        "number of records m to the counts of all candidates together"
    )
    spec: VotesSpec

    def __init__(self, spec: VotesSpec, space: ImageSpace) -> None:
        """See `Mechanism`."""
        super().__init__(spec, space)
        _check_work(spec, space)

    @property
    def num_options(self) -> int:
        """See `ChoiceMechanism`."""
        return self.spec.num_candidates

    def requirements(self) -> Requirements:
        """See `Mechanism`; an answer has one number for each candidate."""
        return Requirements(
            samples=None,
            max_size=self.spec.max_size,
            max_records_per_unit=self.spec.max_records_per_unit,
            numbers_per_row=self.space.dimension,
            answer_numbers=self.spec.num_candidates,
            answer_bytes=8,
        )

    def check_samples(self, samples: Samples) -> None:
        """Refuse images that this run did not declare.

        Raises:
            MalformedRequest: If there are more or fewer, of another size or of no class, or if the
                images of a candidate differ in their class.

        Privacy:
            Reads the request and public facts only.
        """
        super().check_samples(samples)
        labels_Nk = samples.labels_N.reshape(-1, self.spec.images_per_candidate)
        if bool((labels_Nk != labels_Nk[:, :1]).any()):
            detail = "labels: expected one class for the images of a candidate"
            raise MalformedRequest(detail)

    def _kept(self, levels_MD: Tensor) -> Tensor:
        """Return the rows of records that are compared; pixels are there already.

        Privacy:
            Row i is a function of record i alone.
        """
        if self.spec.features == "pixels":
            return super()._kept(levels_MD)
        return right_rows(levels_MD, self._scattered, self.spec.width(self.space))

    def _asked(self, samples: Samples) -> Choose:
        """See `ChoiceMechanism`.

        Privacy:
            A record votes for the nearest candidate of its class, the first of those that are as
            near, by exact integers; where there is none it is silent.
        """
        rows_NF, sizes_N = self._candidates(samples)
        labels_N = samples.labels_N[:: self.spec.images_per_candidate].to(rows_NF.device)

        def choose(levels_MD: Tensor, labels_M: Tensor, kept_MF: Tensor) -> Tensor:
            compared = levels_MD if self.spec.features == "pixels" else kept_MF
            at_once = max(1, _AT_ONCE // max(rows_NF.shape))
            split = (torch.split(one, at_once) for one in (compared, labels_M))
            parts = zip(*split, strict=True)
            votes = []
            for some_mF, classes_m in parts:
                products_mN = some_mF.to(rows_NF.device, torch.float64) @ rows_NF.T
                far_mN = sizes_N - 2 * self.spec.images_per_candidate * products_mN
                is_other_mN = classes_m.to(rows_NF.device).unsqueeze(1) != labels_N
                far_mN += is_other_mN.to(torch.float64).mul_(2 * _BEYOND)
                has_any_m = far_mN.amin(dim=1) < _BEYOND
                votes.append(chosen(has_any_m, first_of_least(far_mN), SILENCE))
            return torch.cat(votes)

        return choose

    def _candidates(self, samples: Samples) -> tuple[Tensor, Tensor]:
        """Return the sums (N, F) of candidates' rows, and their squared norms, as exact integers.

        Privacy:
            Reads the request and public facts only.
        """
        images_ND = samples.images_ND.to(compute_device(), torch.float64)
        white = self.space.max_level
        levels_ND = torch.round((images_ND + 1) * (white / 2)).to(level_dtype(white))
        rows_NF = levels_ND.to(torch.float64)
        if self.spec.features == "scattering":
            width = self.spec.width(self.space)
            rows_NF = torch.cat([self._scattered(one) for one in in_parts(levels_ND, width)])
        shape = (self.spec.num_candidates, self.spec.images_per_candidate, -1)
        sums_NF = rows_NF.reshape(shape).sum(dim=1)
        return sums_NF, sums_NF.square().sum(dim=1)

    def _scattered(self, levels_MD: Tensor) -> Tensor:
        """Return scattering coefficients scaled to norm `RIGHT_RADIUS`, as float64 integers.

        Privacy:
            Row i is a function of row i alone, bit for bit.
        """
        levels_MD, space = levels_MD.to(compute_device()), self.space
        whole_MF = linear_softmax.scattering_integers(
            _scattering(space), levels_MD, space.max_level
        )
        return linear_softmax.unit_rows(whole_MF, _LEAST_BIAS, RIGHT_RADIUS)


def _check_work(spec: VotesSpec, space: ImageSpace) -> None:
    """Refuse a run whose steps would take absurdly long.

    Raises:
        MalformedRequest: If they would, or if there are too many features.

    Privacy:
        Reads the request and public facts only.
    """
    width = spec.width(space)
    is_pixels = spec.features == "pixels"
    most = space.dimension if is_pixels else linear_softmax.MAX_FEATURES
    longest = space.dimension * space.max_level**2 if is_pixels else RIGHT_RADIUS**2
    refuse_beyond(
        {
            "images_per_candidate: too many for exact distances of levels this deep": (
                3 * spec.images_per_candidate**2 * longest,
                _EXACT,
            ),
            "features: too many for images of this size": (width, most),
            "max_size, num_candidates: too much work for one step": (
                spec.kept_rows * spec.num_candidates * width,
                _MAX_WORK,
            ),
        }
    )


def _scattering(space: ImageSpace) -> Scattering:
    return Scattering(channels=space.channels, height=space.height, width=space.width)


def _scattering_width(space: ImageSpace) -> int:
    return _scattering(space).num_coefficients + 1
