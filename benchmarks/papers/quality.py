"""Cells of any recipe or chain at a budget: what it costs, what classifiers learn of its images.

A recipe has the least noise for its steps; a chain shares the budget among its stages. Both train
through a curator of their own, and go on where they were stopped.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from analyst.chains.folder import holds_chain, read_chain
from analyst.chains.recipe import ChainRecipe, GeneratorStage, is_chain, load_chain, recipes_of
from analyst.evaluation.image_file import LabelledImages, load_images
from analyst.recipes import Recipe
from benchmarks.papers import trained
from benchmarks.papers.barrier import facts_for, prepare, serving, spent_epsilon
from benchmarks.papers.data import read_data, visible
from benchmarks.papers.deep import measure_deep
from benchmarks.papers.measure import kept, measure, write_grid
from benchmarks.papers.rows import Measured
from benchmarks.papers.work import Work, run_analyst
from curator.folder import CuratorFolder


def make(work: Work) -> Measured:
    """Serve, train, sample and measure; last the deep classifier, if the settings ask for one."""
    if is_chain(work.settings["recipe"]):
        measured, synthetic = _chained(work)
    else:
        measured = trained.make(work)
        synthetic = load_images(work.folder / "synthetic.npz")
    if not work.settings.get("deep_epochs", 0):
        return measured
    name = measured.details["data"]
    data = read_data(name, work.data, size=work.settings.get("size"))
    shown = visible(data, data.private), visible(data, data.test)
    folder = CuratorFolder(work.folder / "curator")
    deep = kept(
        work.folder / "deep.json", lambda: measure_deep(work, synthetic, *shown, folder, name)
    )
    return replace(measured, values=measured.values | {"deep": deep.pop("deep")}, details={
        **measured.details, **deep
    })  # fmt: skip


def _chained(work: Work) -> tuple[Measured, LabelledImages]:
    """Train a chain, or go on; return what was measured, and its images."""
    changes = {**work.settings.get("set", {}), "training.seed": work.seed}
    chain = load_chain(work.settings["recipe"], changes)
    data = read_data(chain.training.dataset, work.data, size=work.settings.get("size"))
    folder = prepare(work, facts_for(work, _first(chain), data), data.private)
    out = work.folder / "run"
    with trained.timed(work.folder) as done:
        if not done.exists():
            _train(work, changes, folder)
            done.touch()
    begun = read_chain(out)
    synthetic = load_images(begun.images())
    write_grid(work.folder / "grid.png", synthetic)
    measured = Measured(
        values=measure(work, synthetic, visible(data, data.test)),
        seconds=round(json.loads((work.folder / "seconds.json").read_bytes()), 1),
        epsilon=round(spent_epsilon(folder, chain.training.dataset), 6),
        details={
            "data": chain.training.dataset,
            "count": len(synthetic.labels),
            "parts": {part.stage: part.noise_multiplier for part in begun.parts},
            "changes": changes,
        },
    )
    return measured, synthetic


def _train(work: Work, changes: dict[str, Any], folder: CuratorFolder) -> None:
    out = work.folder / "run"
    how: tuple[str, ...] = ("--resume",)
    if not holds_chain(out):
        how = ("--recipe", work.settings["recipe"], "--budget", str(work.settings["epsilon"]))
        pairs = (f"{key}={json.dumps(value)}" for key, value in changes.items())
        how += ("--device", work.device, *(word for one in pairs for word in ("--set", one)))
    with serving(work, folder) as (access,):
        run_analyst(work, ("train", *access.words, *how, "--out", str(out)))


def _first(chain: ChainRecipe) -> Recipe:
    """Return the recipe of the first generator, for whose batches a data set is declared.

    Raises:
        SystemExit: If there is none.
    """
    recipes = recipes_of(chain)
    for name, stage in chain.stage.items():
        recipe = recipes.get(name)
        if isinstance(stage, GeneratorStage) and isinstance(recipe, Recipe):
            return recipe
    message = "a chain without a generator makes no images"
    raise SystemExit(message)
