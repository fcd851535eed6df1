"""What a run leaves on disk and on the screen, called once a step.

OUT/checkpoints/        the newest two, or as many as the recipe keeps
OUT/metrics.jsonl       updates and events
OUT/samples/step-*.png  of a generator: a row per class, always from the same latents
OUT/certificate.json    of a closed run of one curator

Everything in the metrics is public: releases, the ledger's numbers and wall time.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, final

import torch
from torch import Tensor

from analyst.facts import Budget
from analyst.generators.generator import draw_latents
from analyst.new_file import write_file
from analyst.os_errors import naming
from analyst.recipes import Recipe
from analyst.rehearsal import is_rehearsal
from analyst.reports.budgets import reserved_text
from analyst.training.checkpoint import Manifest, checkpoint_store
from analyst.training.grid import save_grid, to_pixels
from analyst.training.loop import Outcome, Update
from analyst.training.progress import Position, Progress, format_seconds
from analyst.training.run_source import OpenRun
from analyst.training.state import TrainingState

_CHUNK = 1 << 16
Value = float | int | str | bool | None


@final
class MetricsFile:
    """One file of JSON lines."""

    def __init__(self, path: Path) -> None:
        """Open `path` for appending; half a line that a killed process left is cut off."""
        path.parent.mkdir(parents=True, exist_ok=True)
        _cut_partial_line(path)
        self._path = path
        self._file = path.open("a", encoding="utf-8")

    def write(self, kind: str, values: Mapping[str, Value]) -> None:
        """Append one line, flushed to the operating system.

        Args:
            kind: "update" or the name of an event.
            values: Plain values; numbers must be finite.
        """
        line = json.dumps({"kind": kind, **values}, allow_nan=False)
        with naming(self._path):
            self._file.write(line + "\n")
            self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _cut_partial_line(path: Path) -> None:
    if not path.exists():
        return
    with path.open("rb+") as file:
        end = file.seek(0, os.SEEK_END)
        while end:
            start = max(0, end - _CHUNK)
            file.seek(start)
            if (found := file.read(end - start).rfind(b"\n")) >= 0:
                end = start + found + 1
                break
            end = start
        file.truncate(end)


_GRID_SEED_OFFSET = 1_000_003  # grids show other latents than training starts with
_SAY_WAITING_FROM_S = 2.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Trained:
    """What a run trains, as a checkpoint keeps it, and how often something is written."""

    tensors: Callable[[], dict[str, Tensor]]
    num_updates: Callable[[], int]
    recipe: dict[str, Any]  # the effective one
    dataset: dict[str, Any]  # public facts, as a manifest has them
    pays_per_step: bool
    count: Callable[[Update], int]  # what the next two are multiples of
    metrics_every: int
    checkpoint_every: int
    keep_checkpoints: int = 2
    grids: SampleGrids | None = None  # of a generator


@final
class SampleGrids:
    """Sample grids of the averaged weights, a row per class."""

    def __init__(self, out: Path, state: TrainingState, recipe: Recipe) -> None:
        """Write below `out`, when it is time."""
        self._folder = out / "samples"
        self._state = state
        self._session = recipe.session
        self._seed = recipe.training.seed + _GRID_SEED_OFFSET

    def is_due(self, num_updates: int) -> bool:
        """Return whether the recipe asks for one after so many updates."""
        return num_updates % self._session.sample_every == 0

    @torch.no_grad()
    def save(self, step: int) -> Path:
        """Write the grid of a step."""
        model, session = self._state.model, self._session
        randomness = torch.Generator().manual_seed(self._seed % 2**63)
        labels = torch.arange(model.num_classes).repeat_interleave(session.grid_columns)
        latents = draw_latents(model.latent, len(labels), model.latent_dim, randomness)
        with self._state.ema.applied_to(model):
            images = model(latents.to(session.device), labels.to(session.device))
        path = self._folder / f"step-{step:08d}.png"
        save_grid(path, to_pixels(images), session.grid_columns)
        return path


@final
class Outputs:
    """Metrics, progress, grids and checkpoints of one session; an `Observer` of its loop."""

    def __init__(self, out: Path, run: OpenRun, trained: Trained, progress: Progress) -> None:
        """Open the files below `out`, which is made if needed."""
        self._out = out
        self._run = run
        self._trained = trained
        self._progress = progress
        self._budget: Budget | None = getattr(run, "budget", None)  # of one curator
        self._store = checkpoint_store(out, keep=trained.keep_checkpoints)
        self._metrics = MetricsFile(out / "metrics.jsonl")

    def opened(self) -> None:
        """Say that the run was opened, and write a checkpoint from before its first step."""
        run, name = self._run, self._trained.dataset["name"]
        self._progress.say(f"opened run {run.run_id}: {run.num_steps:,} steps on '{name}'")
        if self._budget is not None and not is_rehearsal(name):
            self._progress.say(reserved_text(self._budget))
        self.save_checkpoint()
        self.event("opened", {"run_id": run.run_id, "num_steps": run.num_steps})

    def resumed(self, next_step: int) -> None:
        """Say that the run goes on, and which steps are gone since its checkpoint."""
        run, num_updates = self._run, self._trained.num_updates()
        self.event("resumed", {"run_id": run.run_id, "num_updates": num_updates})
        self._progress.say(f"resumed run {run.run_id} after {num_updates:,} updates")
        if run.next_step > next_step:
            self.skipped(next_step, run.next_step - 1)

    def ended(self, outcome: Outcome) -> None:
        """Write the last checkpoint of the session, and how it ended."""
        self.save_checkpoint(finished=outcome is Outcome.COMPLETED)
        self.event(outcome.value, {"num_updates": self._trained.num_updates()})

    def updated(self, update: Update) -> None:
        """Write what is due after a step."""
        run, trained = self._run, self._trained
        spent = {"spent_epsilon": run.spent_epsilon, "budget_epsilon": run.budget_epsilon}
        share = None if self._budget is None else self._budget.share
        own = {"share_epsilon": share.epsilon} if share is not None else {}
        self._progress.update(Position(step=update.step, num_steps=run.num_steps, **spent, **own))
        is_last = update.step == run.num_steps
        if update.gradient_norm == 0 and not is_last:
            return  # nothing was updated
        count = trained.count(update)
        if count % trained.metrics_every == 0 or is_last:
            rate = {"steps_per_s": round(self._progress.steps_per_s(), 3)}
            details = getattr(run, "details", {})  # where each of several curators is
            self._metrics.write("update", {**asdict(update), **spent, **rate, **details})
        if trained.grids is not None and trained.grids.is_due(update.num_updates):
            trained.grids.save(update.step)
        if count % trained.checkpoint_every == 0:
            self.save_checkpoint()

    def skipped(self, first: int, last: int) -> None:
        """Say that charged steps are gone; the ledger is the truth."""
        steps = f"step {first:,} was" if first == last else f"steps {first:,} to {last:,} were"
        counted = "charged" if self._trained.pays_per_step else "counted, for free,"
        self._progress.warn(
            f"{steps} {counted} but no gradient came of them; going on with step {last + 1:,}"
        )
        self.event("skipped", {"first": first, "last": last})

    def waiting(self, delay: float, left: float) -> None:
        """Say that the curator does not answer."""
        self.event("waiting", {"delay_s": round(delay, 3), "left_s": round(left, 3)})
        if delay >= _SAY_WAITING_FROM_S:
            self._progress.warn(
                f"the curator does not answer; trying again in {delay:.0f} s, "
                f"giving up in {format_seconds(left)}"
            )

    def event(self, kind: str, values: dict[str, Value]) -> None:
        """Write an event with the step that is next."""
        self._metrics.write(kind, {"next_step": self._run.next_step, **values})

    def save_certificate(self) -> None:
        """Keep the privacy certificate of the closed run beside what it trained."""
        certificate = getattr(self._run, "certificate", "")
        if certificate:
            path = self._out / "certificate.json"
            write_file(path, f"{certificate}\n".encode(), replace=True)
            self._progress.say(f"the privacy certificate is {path}")

    def save_checkpoint(self, *, finished: bool = False) -> Path:
        """Write a checkpoint of the state as it is now."""
        run, trained = self._run, self._trained
        manifest = Manifest(
            run_id=run.run_id,
            num_updates=trained.num_updates(),
            next_step=run.next_step,
            num_steps=run.num_steps,
            finished=finished,
            dataset=trained.dataset,
            recipe=trained.recipe,
        )
        return self._store.save(trained.tensors(), manifest)

    def save_after(self, error: Exception) -> None:
        """Save a checkpoint after a failure, whatever it was: no memory, a full disk, the curator.

        The failure is the caller's to raise again; if nothing can be saved either, the checkpoint
        before is still whole.
        """
        try:
            self.save_checkpoint()
            self.event("failed", {"error": type(error).__name__})
        except Exception as second:  # noqa: BLE001 - it must not hide the first
            self._progress.warn(
                f"no checkpoint could be saved ({type(second).__name__}); the last one is whole"
            )

    def close(self) -> None:
        """End the live line and close the metrics."""
        self._progress.finish()
        self._metrics.close()
