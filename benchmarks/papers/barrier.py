"""The steward's side of a cell: curators of its own, each with a budget, served by processes."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from analyst.evaluation.image_file import LabelledImages
from analyst.evolution.recipe import EvolutionRecipe
from analyst.recipes import Recipe
from benchmarks.papers.data import DataSet
from benchmarks.papers.work import Work, stop
from benchmarks.rows import ROOT
from curator.accounting.calibrate import least_noise_near
from curator.accounting.cost import event_cost
from curator.accounting.rule import BudgetRule
from curator.administration.add_dataset import Choices, add_dataset
from curator.administration.open_ledger import open_ledger_reader
from curator.config import load_config
from curator.folder import CuratorFolder, initialise
from curator.mechanisms.catalogue import MECHANISMS, read_specification
from curator.privacy.event_numbers import MAX_NOISE_MULTIPLIER
from curator.privacy.facts import DatasetFacts

MakesImages: TypeAlias = Recipe | EvolutionRecipe
"""Recipes of `analyst train` and of `analyst evolve`."""

_TOLERANCE = 1e-4
_UPWARDS = Context(prec=5, rounding=ROUND_CEILING)
_READY = re.compile(r"grpc \S+:(\d+) ")
_ANALYST = "analyst"


@dataclass(frozen=True, kw_only=True, slots=True)
class Served:
    """A curator that answers."""

    address: str
    credentials: Path

    @property
    def words(self) -> tuple[str, ...]:
        """The options that reach it."""
        return "--curator", self.address, "--credentials", str(self.credentials)


def facts_for(work: Work, recipe: MakesImages, data: DataSet) -> DatasetFacts:
    """Return what a steward would declare for the batches of a recipe."""
    mechanism = recipe.mechanism
    size = data.nominal_size
    batch = getattr(mechanism, "expected_batch_size", None)
    rate = getattr(mechanism, "sampling_rate", None) or (batch or size / 600) / size
    rows = rate * size
    capacity = max(getattr(mechanism, "capacity", None) or 0, round(rows + 8 * rows**0.5) + 1)
    limits = {"epsilon": float(work.settings["epsilon"]), "delta": float(work.settings["delta"])}
    declared = {"sampling_rate": rate, "capacity": capacity, **limits}
    return data.facts(recipe.training.dataset, declared)


def calibrated_noise(recipe: MakesImages, facts: DatasetFacts, *, num_in_turn: int = 1) -> float:
    """Return the least noise, within 1e-4, with which the budget affords the recipe's steps.

    Args:
        recipe: Of a run.
        facts: Of the data set.
        num_in_turn: Curators that are asked in turn, each with a budget of its own.

    Raises:
        ValueError: If the recipe takes all steps that there are.
    """
    if recipe.training.steps == "all":
        msg = "noise is calibrated to a number of steps, not to 'all'"
        raise ValueError(msg)
    steps = -(-recipe.training.steps // num_in_turn) if recipe.mechanism.pays_per_step else 1
    (mechanism,) = (one for one in MECHANISMS if one.name == recipe.mechanism.wire_name)
    parameters, rule = recipe.mechanism.parameters(facts), BudgetRule.register(facts.budget)

    def enough(noise_multiplier: float) -> bool:
        changed = {**parameters, "noise_multiplier": noise_multiplier}
        spec = read_specification(mechanism.name, json.dumps(changed))
        setup, step = mechanism.costs_of(spec, facts.space)
        return rule.admits(event_cost(setup) + event_cost(step) * steps)

    guess = recipe.mechanism.noise_multiplier
    least = least_noise_near(guess, enough, tolerance=_TOLERANCE, most=MAX_NOISE_MULTIPLIER)
    return float(_UPWARDS.create_decimal(Decimal(least)))


def prepare(
    work: Work, facts: DatasetFacts, images: LabelledImages, name: str = "curator"
) -> CuratorFolder:
    """Make a curator with one data set and one analyst, unless a whole one is there."""
    root = work.folder / name
    folder, ready = CuratorFolder(root), work.folder / f"{name}.ready"
    if ready.exists():
        return folder
    shutil.rmtree(root, ignore_errors=True)
    root.parent.mkdir(parents=True, exist_ok=True)
    source = work.folder / f"{name}.npz"
    np.savez(source, images=images.images, labels=images.labels)
    initialise(root)
    add_dataset(folder, facts, str(source), choices=Choices(most_shared=1.0))
    source.unlink()
    folder.add_analyst(_ANALYST)
    text = folder.config.read_text()
    folder.config.write_text(
        text.replace('\ndevice = "cpu"', f'\ndevice = "{work.curator_device}"')
    )
    ready.touch()
    return folder


@contextmanager
def serving(work: Work, *folders: CuratorFolder) -> Iterator[tuple[Served, ...]]:
    """Serve curators until the end of the block.

    Yields:
        How each is reached.
    """
    with ExitStack() as stack:
        yield tuple(stack.enter_context(_serving(work, folder)) for folder in folders)


@contextmanager
def _serving(work: Work, folder: CuratorFolder) -> Iterator[Served]:
    """Serve one.

    Raises:
        SystemExit: If it does not start.
    """
    log_file = work.folder / f"{folder.root.name}.log"
    words = ("serve", "--dir", str(folder.root), "--grpc-port", "0", "--rest-port", "0")
    with (
        log_file.open("ab") as log,
        subprocess.Popen(
            [sys.executable, "-m", "curator.cli", *words],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=log,
        ) as process,
    ):
        try:
            line = process.stdout.readline().decode() if process.stdout else ""
            found = _READY.search(line)
            if not found:
                sys.exit(f"the curator did not start; see {log_file}")
            credentials = folder.root / "analysts" / f"{_ANALYST}.credentials.json"
            yield Served(address=f"localhost:{found[1]}", credentials=credentials)
        finally:
            stop(process)


def spent_epsilon(folder: CuratorFolder, dataset: str) -> float:
    """Return what the ledger says."""
    with contextlib.closing(open_ledger_reader(folder, load_config(folder.config))) as ledger:
        return ledger.statement(dataset).spent_epsilon


def charged_run(folder: CuratorFolder, dataset: str) -> str | None:
    """Return the run whose release an earlier session paid for, if there is one."""
    with contextlib.closing(open_ledger_reader(folder, load_config(folder.config))) as ledger:
        runs = [one.run_id for one in ledger.runs(dataset) if ledger.setup_payload(one.run_id)]
    return runs[0] if runs else None


def federation_toml(served: Mapping[str, Served]) -> str:
    """Return a federation's file with curators by name."""
    lines: list[str] = []
    for name, one in served.items():
        values: dict[str, Any] = {
            "name": name,
            "address": one.address,
            "credentials": str(one.credentials),
        }
        lines += ["[[curator]]", *(f"{key} = {json.dumps(text)}" for key, text in values.items())]
    return "\n".join(lines) + "\n"
