"""Candidates ranked by noised counts of records, beside the true ones.

python -m benchmarks.scores --data FOLDER

Each candidate is a set of digits drawn from fonts, of a size of its own, as they are proposed or
varied; a classifier learns on it as 'analyst score' does. The records are MNIST's training part,
asked through the mechanism in process. A row for each candidate has the count that was released and
the true one, which the analyst's own network counts in floats; the last row has the epsilon of all
of them by the ledger's rule and the rank correlation of both counts. It shows true counts of a
public set, so it is no curator.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import math
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import torch
from scipy.stats import spearmanr
from torch import Tensor

from analyst.adaptation.networks import Extractor, build_extractor, weight_bytes
from analyst.adaptation.public_images import PublicImages
from analyst.evaluation.image_file import LabelledImages as Images
from analyst.evolution.fonts import FontProposer
from analyst.generators.generator import ImageShape, initialise
from analyst.score.recipe import SCORES, ScoreRecipe
from analyst.teacher.classifier import fit
from benchmarks.papers.data import read_data
from benchmarks.papers.rows import processor
from benchmarks.rows import compute_as_the_curator, print_row
from curator.accounting.cost import event_cost
from curator.accounting.rule import BudgetRule
from curator.data.images import LabelledImages
from curator.data.sampling import PrivateRecords
from curator.mechanisms.catalogue import parse_mechanism
from curator.mechanisms.score import Score
from curator.privacy.batches import ImageSpace, Samples
from curator.privacy.budget import Budget
from curator.sanitizer.entropy import OsEntropy
from curator.sanitizer.post_process import release_values
from curator.state.asking import private_batches, state_step

SHAPE: Final = ImageShape(channels=1, height=28, width=28, num_classes=10)
NUM_IMAGES: Final = (200, 500, 1000, 2000, 4000)
DEGREES: Final = (0.0, 1.0)
"""Of variation: of none, images are as they are proposed."""

_PART: Final = 1000  # images at once


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidate:
    """A set of digits, and the classifier that learned on it."""

    num_images: int
    degree: float
    model: Extractor


class Counts(NamedTuple):
    """Records that a classifier gets right, as released and as they are."""

    released: float
    true: int


def candidates(
    fonts: FontProposer, recipe: ScoreRecipe, sizes: Iterable[int], seed: int
) -> Iterator[Candidate]:
    """Yield candidates of each number of images, as proposed and varied."""
    for degree in DEGREES:
        for num_images in sizes:
            randomness = torch.Generator().manual_seed(seed)
            images, labels = _digits(fonts, num_images, degree, randomness)
            public = PublicImages(images_NCHW=images, labels_N=labels, digest="")
            architecture = recipe.mechanism.architecture
            with torch.device("meta"):  # torch would draw from the global random state
                model = build_extractor(architecture, SHAPE, SHAPE.num_classes)
            initialise(model, randomness)
            fit(model, recipe.source, public, randomness, paces=[(model, 1.0)])
            yield Candidate(num_images=num_images, degree=degree, model=model)


def _digits(
    fonts: FontProposer, num_images: int, degree: float, randomness: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Return images of all classes in turn, and their labels."""
    each = num_images // SHAPE.num_classes
    images = []
    for label in range(SHAPE.num_classes):
        drawn = fonts.propose(each, label, randomness)
        images.append(fonts.vary(drawn, label, degree, randomness) if degree else drawn)
    return torch.cat(images), torch.arange(SHAPE.num_classes).repeat_interleave(each)


@torch.no_grad()
def true_count(model: Extractor, records: Images) -> int:
    """Return how many records a classifier gets right, in floats."""
    images, labels = torch.from_numpy(records.images), torch.from_numpy(records.labels)
    right = 0
    for some, of in zip(torch.split(images, _PART), torch.split(labels, _PART), strict=True):
        right += int((model(some.float() / 127.5 - 1).argmax(dim=1) == of).sum())
    return right


class Asked:
    """A run of scores in this process, on records that are public."""

    def __init__(self, recipe: ScoreRecipe, records: Images, num_steps: int, delta: float) -> None:
        """Start the run.

        Args:
            recipe: Classifier and noise.
            records: All of them.
            num_steps: Candidates.
            delta: Of the budget by whose rule the epsilon is.

        Raises:
            TypeError: If the recipe is of another mechanism.
        """
        space = ImageSpace(channels=1, height=28, width=28, max_level=255, num_classes=10)
        size = len(records.labels)
        sizes: Any = argparse.Namespace(nominal_size=size, capacity=size)
        parameters = json.dumps(recipe.mechanism.parameters(sizes))
        mechanism = parse_mechanism("score", parameters, space)
        if not isinstance(mechanism, Score):
            raise TypeError(parameters)
        self._mechanism, self._noise, self._step = mechanism, OsEntropy(), 0
        private = PrivateRecords(
            LabelledImages(levels=records.images, labels=records.labels), mechanism.spec.max_size
        )
        self._state = mechanism.start(private_batches(mechanism, private, self._noise))
        rule = BudgetRule.register(Budget(epsilon=1.0, delta=delta))
        self.epsilon = rule.spent_epsilon(event_cost(mechanism.step_event()) * num_steps)

    def count(self, model: Extractor) -> float:
        """Return the noised number of records that a classifier gets right."""
        samples = Samples(
            images_ND=torch.zeros((1, 1)),
            labels_N=torch.zeros(1, dtype=torch.int64),
            weights=weight_bytes(model),
        )
        self._mechanism.check_samples(samples)
        self._step += 1
        self._state, release = state_step(
            self._mechanism, self._state, self._step, samples, self._noise
        )
        return float(release_values(release).sum())


def make_rows(given: argparse.Namespace) -> None:
    """Print a row for each candidate, and one of all."""
    compute_as_the_curator()
    changes = {"mechanism.architecture": given.architecture, "mechanism.counts": "total"}
    recipe = SCORES.load("score-mnist", changes)
    records = read_data("mnist", given.data, size=given.size).private
    fonts = FontProposer(SHAPE, [str(label) for label in range(10)], given.fonts)
    made = list(candidates(fonts, recipe, given.images, given.seed))
    asked = Asked(recipe, records, len(made), given.delta)
    told = {
        "set": "mnist",
        "records": len(records.labels),
        "architecture": given.architecture,
        "noise_std": recipe.mechanism.noise_multiplier,
        "seed": given.seed,
        "command": f"python -m benchmarks.scores --seed {given.seed} --data FOLDER",
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "processor": processor(),
    }
    counts = []
    for one in made:
        found = Counts(asked.count(one.model), true_count(one.model, records))
        counts.append(found)
        which = {"num_images": one.num_images, "degree": one.degree}
        print_row(**told, **which, released=round(found.released, 1), true=found.true)
    print_row(
        **told,
        candidates=len(made),
        delta=given.delta,
        epsilon=asked.epsilon,
        **told_of(counts, recipe.mechanism.noise_multiplier),
    )


def told_of(counts: list[Counts], noise_std: float) -> dict[str, float]:
    """Return how near released counts are to true ones, and whether their order is the same."""
    errors = [one.released - one.true for one in counts]
    best = max(counts, key=lambda one: one.released)
    return {
        "rank_correlation": round(float(spearmanr(*zip(*counts, strict=True)).statistic), 4),
        "root_mean_square_error": round(math.sqrt(sum(e * e for e in errors) / len(errors)), 1),
        "largest_error_in_stds": round(max(map(abs, errors)) / noise_std, 2),
        "best_is_behind_by": max(one.true for one in counts) - best.true,
    }


def main() -> int:
    """Print the rows."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.scores",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="with mnist.npz")
    parser.add_argument("--fonts", type=Path, metavar="FOLDER", help="[those installed]")
    parser.add_argument("--size", type=int, default=60000, help="records [60000]")
    parser.add_argument("--images", type=int, nargs="+", default=list(NUM_IMAGES))
    parser.add_argument("--architecture", default="mlp-features")
    parser.add_argument("--delta", type=float, default=1e-5)
    parser.add_argument("--seed", type=int, default=0, help="of candidates; noise is the system's")
    make_rows(parser.parse_args())
    return 0


if __name__ == "__main__":
    sys.exit(main())
