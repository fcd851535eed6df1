"""Candidates by the noised number of private records that a classifier of their samples gets right.

Every classifier learns before the run opens, so that what is wrong with a candidate costs nothing.
How many records there are is not known: shares are of the public nominal size.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import torch

from analyst.adaptation.networks import Extractor, build_extractor, weight_bytes
from analyst.adaptation.public_images import PublicImages, public_of
from analyst.errors import RecipeError
from analyst.evaluation.image_file import load_images
from analyst.evaluation.sample import sample_run
from analyst.facts import ImageFacts, PlanQuestion
from analyst.generators.generator import ImageShape, initialise
from analyst.rehearsal import BANNER, is_rehearsal
from analyst.score.recipe import ScoreRecipe
from analyst.screen import table_text
from analyst.teacher.classifier import fit
from analyst.training.checkpoint import image_shape
from analyst.training.progress import Progress
from analyst.training.run_source import Curator

LARGEST_WEIGHT: Final = 16.0
"""What a curator takes."""

_HEADS = ("rank", "candidate", "right", "of nominal", "std error", "behind by")


@dataclass(frozen=True, kw_only=True, slots=True)
class Scored:
    """One candidate: the noised counts, and their sum over the nominal size."""

    name: str
    counts: tuple[float, ...]
    accuracy: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Ranking:
    """Candidates, the best first.

    `std_error` is of each accuracy, from the noise alone; `noise_multiplier` may come of an
    epsilon.
    """

    candidates: tuple[Scored, ...]
    std_error: float
    noise_multiplier: float
    run_id: str
    spent_epsilon: float

    def text(self) -> str:
        """Return a table; how far behind is in standard errors of a difference."""
        best = self.candidates[0].accuracy
        rows = [
            (
                str(place),
                one.name,
                f"{sum(one.counts):,.0f}",
                f"{100 * one.accuracy:.2f}%",
                f"{100 * self.std_error:.2f}",
                f"{(best - one.accuracy) / (math.sqrt(2) * self.std_error):.1f} errors",
            )
            for place, one in enumerate(self.candidates, start=1)
        ]
        return table_text(_HEADS, rows)

    def to_json(self) -> dict[str, Any]:
        """Return the same numbers."""
        return {
            "run_id": self.run_id,
            "noise_multiplier": self.noise_multiplier,
            "std_error": self.std_error,
            "spent_epsilon": self.spent_epsilon,
            "candidates": [
                {"name": one.name, "accuracy": one.accuracy, "counts": list(one.counts)}
                for one in self.candidates
            ],
        }


def rank(
    curator: Curator,
    recipe: ScoreRecipe,
    candidates: Sequence[Path],
    *,
    epsilon: float | None,
    progress: Progress,
) -> Ranking:
    """Train a classifier on each candidate, and ask how many records it gets right.

    Args:
        curator: With the private records.
        recipe: Classifier, noise and data set.
        candidates: Folders of runs, or labelled NPZ files.
        epsilon: What all of them together may spend, in the place of the recipe's noise.
        progress: The screen.

    Returns:
        All candidates. What was answered is said at once, too: an error ends the run's reading,
        and what was charged is not lost.

    Raises:
        RecipeError: If a classifier does not fit the images, or did not converge.
        ImageFileError: If a candidate's images are not the data set's.
        CheckpointError: If a folder has no run of a generator.
    """
    facts = curator.describe(recipe.training.dataset)
    if is_rehearsal(facts.name):
        progress.warn(BANNER)
    shape = image_shape(facts.image())
    asked = []
    for path in candidates:
        progress.say(f"learning on {path}, which asks no curator")
        asked.append(weight_bytes(_classifier(recipe, shape, _images(path, recipe, shape))))
    recipe = _with_noise(curator, recipe, facts, len(asked), epsilon)
    mechanism = recipe.mechanism
    std = mechanism.noise_multiplier * mechanism.max_records_per_unit
    num_counts = shape.num_classes if mechanism.counts == "by-class" else 1
    run = curator.open_run(
        facts.name, mechanism.wire_name, mechanism.parameters(facts), num_steps=len(asked)
    )
    scored = []
    try:
        for path, weights in zip(candidates, asked, strict=True):
            places = torch.zeros((num_counts, 1), dtype=torch.float64)
            counts = run.feature_gradient(places, weights).flatten().tolist()
            one = Scored(
                name=str(path), counts=tuple(counts), accuracy=sum(counts) / facts.nominal_size
            )
            right = f"{sum(counts):,.0f} of nominally {facts.nominal_size:,}"
            progress.say(f"{path}: {right} are right")
            scored.append(one)
    except BaseException:  # an interrupt, too
        progress.warn(f"'analyst close {run.run_id}' gives back what was not asked")
        raise
    run.close()
    return Ranking(
        candidates=tuple(sorted(scored, key=lambda one: -one.accuracy)),
        std_error=std * math.sqrt(num_counts) / facts.nominal_size,
        noise_multiplier=mechanism.noise_multiplier,
        run_id=run.run_id,
        spent_epsilon=run.spent_epsilon,
    )


def _with_noise(
    curator: Curator, recipe: ScoreRecipe, facts: ImageFacts, steps: int, epsilon: float | None
) -> ScoreRecipe:
    """Return a recipe whose noise is the least that keeps within an epsilon, if one is given."""
    if epsilon is None:
        return recipe
    mechanism = recipe.mechanism
    until = curator.budget(facts.name).reserved + epsilon  # open runs are counted, too
    plan = curator.plan_range(
        facts.name,
        mechanism.wire_name,
        mechanism.parameters(facts),
        PlanQuestion(num_steps=steps, epsilon=until, points=1),
    )
    changed = mechanism.model_copy(update={"noise_multiplier": plan.noise_multiplier})
    return replace(recipe, mechanism=changed)


def _images(path: Path, recipe: ScoreRecipe, shape: ImageShape) -> PublicImages:
    """Return the labelled images of one candidate."""
    if path.is_dir():
        training = recipe.training
        data = sample_run(path, training.num_images, seed=training.seed, weights="ema")
    else:
        data = load_images(path)
    return public_of(data, shape, name=str(path))


def _classifier(recipe: ScoreRecipe, shape: ImageShape, images: PublicImages) -> Extractor:
    """Return a network with an output for each class, trained on images.

    Raises:
        RecipeError: If it does not fit the images, or its weights are not what a curator takes.
    """
    randomness = torch.Generator().manual_seed(recipe.training.seed)
    try:
        with torch.device("meta"):  # torch would draw from the global random state
            model = build_extractor(recipe.mechanism.architecture, shape, shape.num_classes)
        initialise(model, randomness)
        fit(model, recipe.source, images, randomness, paces=[(model, 1.0)])
    except (ValueError, RuntimeError, ZeroDivisionError) as error:
        message = f"the classifier of this recipe does not fit: {error}"
        raise RecipeError(message, "Change mechanism.architecture.") from None
    if not all(bool((one.abs() <= LARGEST_WEIGHT).all()) for one in model.parameters()):
        message = "the classifier did not converge: weights are huge, or not finite"
        raise RecipeError(message, "Choose a smaller source.lr, with --set.")
    return model
