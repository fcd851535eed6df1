"""Everything that is measured of a synthetic set beside classifiers: distances and neighbours.

Only synthetic and public images enter. Features are learned on the public set if there is one, else
on every other test image, and then the distance is to the rest. A set of one class teaches none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from analyst.errors import EvaluationError
from analyst.evaluation.distances import frechet_distance, inception_score
from analyst.evaluation.image_file import LabelledImages
from analyst.evaluation.inception import Inception
from analyst.evaluation.lenet import (
    is_small_and_grey,
    lenet_features,
    lenet_probabilities,
    train_lenet,
)
from analyst.evaluation.neighbours import Coverage, NeighbourCheck, Rows, check_neighbours, cover

_LEAST_TEST = 12  # so that half of them are more than the neighbours that coverage needs


@dataclass(frozen=True, kw_only=True, slots=True)
class LenetMeasures:
    """Frechet distance and inception score by a LeNet; comparable within one report only."""

    distance: float
    score: float
    learned_on: Literal["the public set", "every other test image"]


@dataclass(frozen=True, kw_only=True, slots=True)
class InceptionMeasures:
    """The two classical scores."""

    fid: float
    score: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Assessment:
    """What was measured; None where something needed was not given."""

    lenet: LenetMeasures | None
    inception: InceptionMeasures | None
    coverage: Coverage
    covered_in: Literal["LeNet features", "pixels"]
    neighbours: NeighbourCheck | None

    def lines(self) -> list[str]:
        """Return the assessment as text."""
        lines = []
        if self.lenet is not None:
            lines.append(
                f"LeNet-feature FID: {self.lenet.distance:.2f}, inception score by LeNet: "
                f"{self.lenet.score:.2f} (learned on {self.lenet.learned_on}; comparable within "
                "this report only)"
            )
        if self.inception is not None:
            lines.append(f"FID: {self.inception.fid:.2f}")
            lines.append(f"inception score: {self.inception.score:.2f}")
        lines.append(
            f"density {self.coverage.density:.3f}, coverage {self.coverage.coverage:.3f} "
            f"({self.covered_in}, 5 neighbours)"
        )
        if self.neighbours is not None:
            check = self.neighbours
            lines.append(
                f"nearest public image: median distance {check.median_synthetic:.2f}, among public "
                f"images {check.median_public:.2f}; {100 * check.share_closer:.1f}% closer than 1% "
                f"of public images are to each other; {check.num_copies:,} copies"
            )
        return lines


def assess(
    synthetic: LabelledImages,
    test: LabelledImages,
    public: LabelledImages | None,
    *,
    inception: Inception | None = None,
    device: str = "cpu",
) -> Assessment:
    """Measure a synthetic set.

    Args:
        synthetic: Generated images.
        test: Public real images, at least 12, of the size of the synthetic ones.
        public: Other public real images; never private ones.
        inception: For FID and inception score.
        device: Torch device of the networks.

    Raises:
        EvaluationError: If there are too few images, sizes differ, or the Inception file does not
            do what it must.
    """
    _check(synthetic, test, public)
    lenet = None
    synthetic_rows, real_rows = _flat(synthetic), _flat(test)
    learned_on, compared = (public, test) if public is not None else _halves(test)
    if is_small_and_grey(test) and len(set(learned_on.labels.tolist())) > 1:
        model = train_lenet(learned_on, device=device)
        synthetic_rows, real_rows = (lenet_features(model, one) for one in (synthetic, compared))
        lenet = LenetMeasures(
            distance=frechet_distance(synthetic_rows, real_rows),
            score=inception_score(lenet_probabilities(model, synthetic)),
            learned_on="every other test image" if public is None else "the public set",
        )
    return Assessment(
        lenet=lenet,
        inception=None if inception is None else _inception(inception, synthetic, test),
        coverage=cover(synthetic_rows, real_rows),
        covered_in="pixels" if lenet is None else "LeNet features",
        neighbours=None if public is None else check_neighbours(_flat(synthetic), _flat(public)),
    )


def _check(synthetic: LabelledImages, test: LabelledImages, public: LabelledImages | None) -> None:
    """Check what the measures need.

    Raises:
        EvaluationError: If there are too few images or sizes differ.
    """
    for name, data, least in (("synthetic", synthetic, 2), ("test", test, _LEAST_TEST)):
        if len(data.labels) < least:
            message = f"{len(data.labels)} {name} images are too few to measure"
            raise EvaluationError(message, f"Give at least {least}, or one --classifier.")
    if public is not None and (
        len(public.labels) < 2 or public.images.shape[1:] != test.images.shape[1:]
    ):
        message = (
            f"the public images are {public.images.shape}, the test images {test.images.shape}"
        )
        raise EvaluationError(message, "Give at least 2 public images of one data set.")


def _inception(
    inception: Inception, synthetic: LabelledImages, test: LabelledImages
) -> InceptionMeasures:
    return InceptionMeasures(
        fid=frechet_distance(inception.features(synthetic), inception.features(test)),
        score=inception_score(inception.probabilities(synthetic)),
    )


def _halves(data: LabelledImages) -> tuple[LabelledImages, LabelledImages]:
    first, second = slice(0, None, 2), slice(1, None, 2)
    return (
        LabelledImages(data.images[first], data.labels[first]),
        LabelledImages(data.images[second], data.labels[second]),
    )


def _flat(data: LabelledImages) -> Rows:
    return data.images.reshape(len(data.images), -1)
