"""Cells of domain adaptation: what the barrier costs, beside methods without one.

`private` runs through a real curator whose data set has no labels; all others read the target
freely, in process:

source    the labelled source alone
swd       sliced Wasserstein distance as published: it moves the extractor, through both domains
noiseless the recipe's own method without noise: what `private` would be at epsilon infinity
dann      adversarial, with a gradient reversal
dp-dann   the same with DP-SGD on the target's domain loss, in simulation
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from analyst.adaptation.loop import adapt
from analyst.adaptation.networks import DomainClassifier
from analyst.adaptation.public_images import accuracy, read_public
from analyst.adaptation.recipe import AdaptationRecipe, MoveSourceConfig, load_adaptation
from analyst.adaptation.session import load_adapted
from analyst.adaptation.state import new_adaptation
from analyst.evaluation.image_file import LabelledImages, save_images
from analyst.generators.generator import ImageShape
from analyst.training.stop import StopRequest
from benchmarks.papers.adaptation_baselines import (
    NoiselessRun,
    Penalty,
    adversarial,
    averaged,
    private_adversarial,
    run_baseline,
    sliced,
)
from benchmarks.papers.barrier import prepare, serving, spent_epsilon
from benchmarks.papers.data import DataSet, read_data, scaled
from benchmarks.papers.rows import Measured
from benchmarks.papers.work import Work, run_analyst
from curator.privacy.budget import Budget
from curator.privacy.facts import DatasetFacts


def make(work: Work) -> Measured:
    """Run one method; its value is the accuracy on the target's public test part."""
    changes = {**work.settings.get("set", {}), "training.seed": work.seed}
    recipe = load_adaptation(work.settings["recipe"], changes)
    source = read_data(work.settings["data_from"], work.data, size=work.settings.get("size"))
    target = read_data(recipe.training.dataset, work.data, size=work.settings.get("size"))
    task = _Task(work, recipe, source, target)
    started, epsilon = time.monotonic(), None
    if work.settings["way"] == "private":
        model, epsilon = _through_the_barrier(task)
    else:
        model = _METHODS[work.settings["way"]](task)
    right = accuracy(model, read_public(task.file("test", target.test), task.shape))
    return Measured(
        values={"accuracy": round(100 * right, 2)},
        seconds=round(time.monotonic() - started, 1),
        epsilon=epsilon,
        true_epsilon=_TRUE.get(work.settings["way"], ""),
        details={"data": f"{work.settings['data_from']} to {recipe.training.dataset}"},
    )


class _Task:
    """One method's images and recipe."""

    def __init__(
        self, work: Work, recipe: AdaptationRecipe, source: DataSet, target: DataSet
    ) -> None:
        self.work, self.recipe, self.target = work, recipe, target
        _, channels, height, width = target.private.images.shape
        classes = recipe.training.num_classes
        self.shape = ImageShape(channels=channels, height=height, width=width, num_classes=classes)
        self.source_file = self.file("source", source.private)
        self.pixels = scaled(target, target.private)
        self.budget = Budget(epsilon=work.settings["epsilon"], delta=work.settings["delta"])

    def file(self, name: str, images: LabelledImages) -> Path:
        """Write public images and return where."""
        path = self.work.folder / f"{name}.npz"
        path.parent.mkdir(parents=True, exist_ok=True)
        save_images(path, images, force=True)
        return path

    def facts(self) -> DatasetFacts:
        """Return what a steward would declare: one class, since there are no labels."""
        given = self.recipe.mechanism
        rate = (given.expected_batch_size or 0) / self.target.nominal_size
        limits = {"epsilon": self.budget.epsilon, "delta": self.budget.delta}
        declared = {"sampling_rate": rate, "capacity": given.capacity, **limits}
        facts = self.target.facts(self.recipe.training.dataset, declared)
        return facts.model_copy(update={"classes": ("image",), "max_size": given.max_size})


def _through_the_barrier(task: _Task) -> tuple[DomainClassifier, float]:
    """Serve the target, adapt to it through gRPC, and return the classifier and spent epsilon."""
    work, target = task.work, task.target.private
    unlabelled = LabelledImages(target.images, np.zeros(len(target.labels), dtype=np.int64))
    folder, out = prepare(work, task.facts(), unlabelled), work.folder / "run"
    how = ["--source", str(task.source_file), "--out", str(out)]
    if any((out / "checkpoints").glob("*.json")):
        how.append("--resume")
    else:
        changed = {**work.settings.get("set", {}), "training.seed": work.seed}
        how += ["--recipe", work.settings["recipe"]]
        how += [word for key, value in changed.items() for word in ("--set", f"{key}={value}")]
    with serving(work, folder) as (served,):
        run_analyst(work, ("adapt", "train", *served.words, *how))
    return load_adapted(out)[0], round(spent_epsilon(folder, task.recipe.training.dataset), 6)


def _noiseless(task: _Task) -> DomainClassifier:
    recipe = task.recipe
    mapped = isinstance(recipe.move, MoveSourceConfig)
    raw = read_public(task.source_file, task.shape, resized=not mapped)
    state = new_adaptation(recipe, task.shape, raw.images_NCHW)
    run = NoiselessRun(recipe, task.shape, task.pixels)
    adapt(state, run, recipe, raw, observer=_Nobody(), stop=StopRequest())
    return averaged(state)


def _baseline(penalty: Callable[[_Task], Penalty | None]) -> Callable[[_Task], DomainClassifier]:
    def trained(task: _Task) -> DomainClassifier:
        source = read_public(task.source_file, task.shape)
        return run_baseline(task.recipe, task.shape, source, penalty(task))

    return trained


_WEIGHT = 1.0  # of the distance, as published
_REVERSAL = 0.3  # of the reversed gradient
_METHODS: Mapping[str, Callable[[_Task], DomainClassifier]] = {
    "source": _baseline(lambda _: None),
    "swd": _baseline(lambda task: sliced(task.recipe, task.pixels, _WEIGHT)),
    "dann": _baseline(lambda task: adversarial(task.recipe, task.pixels, _REVERSAL)),
    "dp-dann": _baseline(
        lambda task: private_adversarial(task.recipe, task.pixels, _REVERSAL, task.budget)
    ),
    "noiseless": _noiseless,
}
_TRUE = {
    "source": "0",
    "swd": "infinite",
    "dann": "infinite",
    "noiseless": "infinite",
    "dp-dann": "that of the budget by the same rule, in process and never served",
}


class _Nobody:
    """Takes no notice of an update."""

    def updated(self, update: object) -> None:
        """Take no notice."""

    def skipped(self, first: int, last: int) -> None:
        """Take no notice."""

    def waiting(self, delay: float, left: float) -> None:
        """Take no notice."""
