"""What a run leaves on disk and on the screen, called once a step.

OUT/checkpoints/        the newest two
OUT/metrics.jsonl       updates and events
OUT/samples/step-*.png  a row per class, always from the same latents
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any, final

import torch
from torch import Tensor

from analyst.generators.generator import ImageShape, draw_latents
from analyst.new_file import write_file
from analyst.recipes import Recipe, recipe_to_dict
from analyst.training.checkpoint import CheckpointError, CheckpointStore, Manifest
from analyst.training.grid import save_grid, to_pixels
from analyst.training.loop import Update
from analyst.training.metrics import MetricsFile, Value
from analyst.training.ports import RunPort
from analyst.training.progress import Position, Progress, format_seconds
from analyst.training.state import TrainingState, state_tensors

_GRID_SEED_OFFSET = 1_000_003  # grids show other latents than training starts with
_SAY_WAITING_FROM_S = 2.0


def checkpoint_store(out: Path) -> CheckpointStore:
    """Return the checkpoints of an output directory."""
    return CheckpointStore(out / "checkpoints")


def read_run(directory: Path) -> tuple[dict[str, Tensor], Manifest]:
    """Read the newest checkpoint of a run that is not to go on.

    Args:
        directory: A run's output directory.

    Returns:
        Its tensors and its manifest.

    Raises:
        CheckpointError: If there is no run, or the checkpoint is damaged.
    """
    store = checkpoint_store(directory)
    if not store.exists():
        message = f"there is no run in {directory}"
        raise CheckpointError(message, "Give the --out of the command that trained.")
    return store.load()


@final
class Outputs:
    """Metrics, progress, grids and checkpoints of one sitting."""

    def __init__(
        self,
        out: Path,
        state: TrainingState,
        run: RunPort,
        recipe: Recipe,
        *,
        dataset: dict[str, Any],
        progress: Progress,
    ) -> None:
        """Open the files below `out`.

        Args:
            out: Output directory, made if needed.
            state: What is trained.
            run: The open run.
            recipe: The effective recipe.
            dataset: Public facts: name, channels, height, width, classes.
            progress: The screen.
        """
        self._out = out
        self._state = state
        self._run = run
        self._recipe = recipe
        self._dataset = dataset
        self._progress = progress
        self._store = checkpoint_store(out)
        self._metrics = MetricsFile(out / "metrics.jsonl")

    def updated(self, update: Update) -> None:
        """Write what is due after an update."""
        run, session = self._run, self._recipe.session
        self._progress.update(
            Position(
                step=update.step,
                num_steps=run.num_steps,
                spent_epsilon=run.spent_epsilon,
                budget_epsilon=run.budget_epsilon,
            )
        )
        is_last = update.step == run.num_steps
        if update.gradient_norm == 0 and not is_last:
            return  # nothing was updated
        if update.num_updates % session.metrics_every == 0 or is_last:
            self._metrics.write(
                "update",
                {
                    **asdict(update),
                    "spent_epsilon": run.spent_epsilon,
                    "budget_epsilon": run.budget_epsilon,
                    "steps_per_s": round(self._progress.steps_per_s(), 3),
                    **getattr(run, "details", {}),  # where each of several curators is
                },
            )
        if update.num_updates % session.sample_every == 0:
            self.save_grid(update.step)
        if update.num_updates % session.checkpoint_every == 0:
            self.save_checkpoint()

    def skipped(self, first: int, last: int) -> None:
        """Say that charged steps are gone; the ledger is the truth."""
        steps = f"step {first:,} was" if first == last else f"steps {first:,} to {last:,} were"
        counted = "charged" if self._recipe.mechanism.pays_per_step else "counted, for free,"
        self._progress.warn(
            f"{steps} {counted} but no update came of them; going on with step {last + 1:,}"
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
        """Keep the privacy certificate of the closed run beside its generator."""
        certificate = getattr(self._run, "certificate", "")
        if certificate:
            path = self._out / "certificate.json"
            write_file(path, f"{certificate}\n".encode(), replace=True)
            self._progress.say(f"the privacy certificate is {self._out / 'certificate.json'}")

    def save_checkpoint(self, *, finished: bool = False) -> Path:
        """Write a checkpoint of the state as it is now."""
        run = self._run
        manifest = Manifest(
            run_id=run.run_id,
            num_updates=self._state.num_updates,
            next_step=run.next_step,
            num_steps=run.num_steps,
            finished=finished,
            dataset=self._dataset,
            recipe=recipe_to_dict(self._recipe),
        )
        return self._store.save(state_tensors(self._state), manifest)

    @torch.no_grad()
    def save_grid(self, step: int) -> Path:
        """Write a sample grid of the averaged weights, a row per class."""
        state, session = self._state, self._recipe.session
        seed = self._recipe.training.seed + _GRID_SEED_OFFSET
        randomness = torch.Generator().manual_seed(seed % 2**63)
        labels = torch.arange(state.model.num_classes).repeat_interleave(session.grid_columns)
        model = state.model
        latents = draw_latents(model.latent, len(labels), model.latent_dim, randomness)
        with state.ema.applied_to(model):
            images = model(latents.to(session.device), labels.to(session.device))
        path = self._out / "samples" / f"step-{step:08d}.png"
        save_grid(path, to_pixels(images), session.grid_columns)
        return path

    def close(self) -> None:
        """End the live line and close the metrics."""
        self._progress.finish()
        self._metrics.close()


def image_shape(dataset: dict[str, Any]) -> ImageShape:
    """Return the shape that a manifest's data set facts describe.

    Raises:
        CheckpointError: If they are those of an adaptation, which has no generator.
    """
    if "classes" not in dataset:
        message = "the checkpoint is not of a generator: its data set has no classes"
        raise CheckpointError(message, "Give the --out of 'analyst train'.")
    return ImageShape(
        channels=dataset["channels"],
        height=dataset["height"],
        width=dataset["width"],
        num_classes=len(dataset["classes"]),
    )
