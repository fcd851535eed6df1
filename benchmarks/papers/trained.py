"""Cells that are recipes of `analyst train` or `evolve`, through a real curator, or several.

Every cell has curators of its own with a budget of its own, so the epsilon of a row is that of this
run alone, read from the ledger and never from the recipe. What pays once is fetched once and
trained without the curator. A training that was stopped goes on from its checkpoint.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from analyst.evaluation.image_file import LabelledImages, load_images, save_images
from analyst.evaluation.sample import sample_run
from analyst.evolution.recipe import EvolutionRecipe
from analyst.recipes import Recipe
from analyst.recipes.books import load_any
from analyst.training.checkpoint import checkpoint_store
from benchmarks.papers.barrier import (
    MakesImages,
    calibrated_noise,
    charged_run,
    facts_for,
    federation_toml,
    prepare,
    serving,
    spent_epsilon,
)
from benchmarks.papers.data import DataSet, pictures_of, read_data, visible
from benchmarks.papers.measure import measure, write_grid
from benchmarks.papers.rows import Measured
from benchmarks.papers.work import OutOfTimeError, Work, run_analyst
from curator.folder import CuratorFolder

_NOISE = "mechanism.noise_multiplier"
_KEEP = "session.keep_checkpoints"
_EVERY = "session.checkpoint_every"
_METRICS = "session.metrics_every"


def make(work: Work) -> Measured:
    """Serve, train, sample and measure."""
    recipe, changes = _recipe(work)
    data = read_data(recipe.training.dataset, work.data, size=work.settings.get("size"))
    facts = facts_for(work, recipe, data)
    if work.settings.get("calibrated", False):
        in_turn = work.settings.get("combine") == "round-robin"
        num_in_turn = work.settings["curators"] if in_turn else 1
        changes[_NOISE] = calibrated_noise(recipe, facts, num_in_turn=num_in_turn)
    folders = _curators(work, recipe, data)
    seconds = _train(work, recipe, changes, folders)
    synthetic = pictures_of(data, _sampled(work, work.folder / "synthetic.npz"))
    test = visible(data, data.test)
    write_grid(work.folder / "grid.png", synthetic)
    manifest = checkpoint_store(work.folder / "run").manifest()
    dataset = recipe.training.dataset
    return Measured(
        values=measure(work, synthetic, test),
        seconds=round(seconds, 1),
        epsilon=round(max(spent_epsilon(folder, dataset) for folder in folders), 6),
        points=list(_points(work, data, test)),
        details={"data": dataset, "steps": manifest.num_updates, "changes": changes},
    )


def _recipe(work: Work) -> tuple[MakesImages, dict[str, Any]]:
    """Return the recipe, and what is changed in it, by dotted key.

    Raises:
        SystemExit: If it makes no images.
    """
    changes = dict(work.settings.get("set", {}))
    changes["training.seed"] = work.seed
    num_points = work.settings.get("points", 0)
    if num_points:
        steps = _loaded(work, changes).training.steps
        every = max(1, int(steps) // num_points)
        changes |= {_KEEP: num_points + 2, _EVERY: every, _METRICS: every}
    return _loaded(work, changes), changes


def _loaded(work: Work, changes: Mapping[str, Any]) -> MakesImages:
    recipe = load_any(work.settings["recipe"], changes)
    if not isinstance(recipe, Recipe | EvolutionRecipe):
        sys.exit(f"recipe '{work.settings['recipe']}' makes no images")
    return recipe


def _curators(work: Work, recipe: MakesImages, data: DataSet) -> tuple[CuratorFolder, ...]:
    """Return the curators' folders: one, or as many as `curators` says, with a part each.

    The first `flipped` of them have inverted images: a mistake that the generated ones show.
    """
    count, flipped = work.settings.get("curators", 1), work.settings.get("flipped", 0)
    folders = []
    for number in range(count):
        part = part_of(data, number, count)
        if number < flipped:
            images = LabelledImages(data.max_level - part.private.images, part.private.labels)
            part = replace(part, private=images)
        name = "curator" if count == 1 else f"curator-{number + 1}"
        folders.append(prepare(work, facts_for(work, recipe, part), part.private, name))
    return tuple(folders)


def part_of(data: DataSet, number: int, count: int) -> DataSet:
    """Return the part of one of `count` curators; all of it for one."""
    if count == 1:
        return data
    places = np.random.default_rng(0).permutation(len(data.private.labels))
    mine = places % count == number  # labels may come in turn, so parts are drawn
    images = LabelledImages(data.private.images[mine], data.private.labels[mine])
    size = len(images.labels)
    return replace(data, private=images, nominal_size=size, max_size=round(size * 7 / 6))


def _train(
    work: Work, recipe: MakesImages, changes: Mapping[str, Any], folders: tuple[CuratorFolder, ...]
) -> float:
    """Train, or go on; return the seconds of all sessions.

    Raises:
        OutOfTimeError: If time is over and what is unfinished is not to be measured.
    """
    with timed(work.folder) as done:
        if not done.exists():
            try:
                _sessions(work, recipe, changes, folders)
            except OutOfTimeError:
                if not work.measures_unfinished:
                    raise
            else:
                done.touch()
    seconds: float = json.loads((work.folder / "seconds.json").read_bytes())
    return seconds


def _sessions(
    work: Work, recipe: MakesImages, changes: Mapping[str, Any], folders: tuple[CuratorFolder, ...]
) -> None:
    how = _how_to_train(work, recipe, changes)
    has_depth = isinstance(recipe, Recipe) and recipe.training.depth > 1  # so a curator is asked
    if not recipe.mechanism.pays_per_step and len(folders) == 1 and not has_depth:
        released = work.folder / "released.safetensors"
        if not released.exists():
            charged = charged_run(folders[0], recipe.training.dataset)
            with serving(work, *folders) as (access,):
                what = _new(work, changes) if charged is None else ("--run", charged)
                words = (*access.words, *what, "--out", str(released))
                run_analyst(work, ("embedding", "download", *words))
        run_analyst(work, ("embedding", "train", str(released), *how))
        return
    with serving(work, *folders) as reached:
        if len(folders) == 1:
            train = "train" if isinstance(recipe, Recipe) else "evolve"
            run_analyst(work, (train, *reached[0].words, *how))
            return
        file = work.folder / "federation.toml"
        named = {folder.root.name: one for folder, one in zip(folders, reached, strict=True)}
        file.write_text(federation_toml(named), encoding="utf-8")
        combine = ("--combine", work.settings.get("combine", "mean"))
        run_analyst(work, ("train", "--federation", str(file), *combine, *how))


@contextmanager
def timed(folder: Path) -> Iterator[Path]:
    """Add the seconds of the block to a file.

    Yields:
        The file that says that training is done.
    """
    seconds = folder / "seconds.json"
    before = json.loads(seconds.read_bytes()) if seconds.exists() else 0.0
    started = time.monotonic()
    done = folder / "trained"
    was_done = done.exists()
    try:
        yield done
    finally:
        spent = 0.0 if was_done else time.monotonic() - started
        seconds.write_text(json.dumps(before + spent))


def _how_to_train(work: Work, recipe: MakesImages, changes: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the options of a new training, or of one to go on with."""
    out = work.folder / "run"
    place: tuple[str, ...] = ("--out", str(out))
    place += ("--device", work.device) if isinstance(recipe, Recipe) else ()  # votes train nothing
    if any((out / "checkpoints").glob("*.json")):
        return ("--resume", *place)
    return (*_new(work, changes), *place)


def _new(work: Work, changes: Mapping[str, Any]) -> tuple[str, ...]:
    pairs = (f"{key}={json.dumps(value)}" for key, value in changes.items())
    return ("--recipe", work.settings["recipe"], *(w for pair in pairs for w in ("--set", pair)))


def _sampled(work: Work, path: Path, *, step: int | None = None) -> LabelledImages:
    """Return synthetic images of the newest checkpoint, or of a kept one, with averaged weights."""
    if not path.exists():
        count = work.settings["count"]
        images = sample_run(
            work.folder / "run", count, seed=work.seed, weights="ema", device=work.device, step=step
        )
        partial = path.with_suffix(".partial.npz")
        partial.parent.mkdir(parents=True, exist_ok=True)
        save_images(partial, images, force=True)
        partial.replace(path)
    return load_images(path)


def _points(work: Work, data: DataSet, test: LabelledImages) -> Iterator[dict[str, Any]]:
    """Yield step, epsilon and values of the checkpoints that were kept, where they are asked for.

    The values are those of one classifier and the distances.
    """
    if not work.settings.get("points", 0):
        return
    spent = dict(_spent(work.folder / "run" / "metrics.jsonl"))
    for step in checkpoint_store(work.folder / "run").kept():
        if step not in spent:  # the start, at which nothing was learned or charged
            continue
        place = work.folder / f"step-{step}"
        here = Work(cell=work.cell, seed=work.seed, folder=place, deadline=work.deadline)
        synthetic = pictures_of(data, _sampled(work, place / "synthetic.npz", step=step))
        write_grid(place / "grid.png", synthetic)
        yield {"step": step, "epsilon": spent[step], "values": measure(here, synthetic, test)}


def _spent(metrics: Path) -> Iterator[tuple[int, float]]:
    """Yield updates and the epsilon that was spent by then."""
    for line in metrics.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if row["kind"] == "update":
            yield row["num_updates"], row["spent_epsilon"]
