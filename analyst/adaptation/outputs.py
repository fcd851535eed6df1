"""What an adaptation leaves on disk and on the screen, called once a step.

OUT/checkpoints/    the newest two
OUT/metrics.jsonl   updates and events
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any, final

from analyst.adaptation.config import AdaptationRecipe
from analyst.adaptation.load import adaptation_to_dict
from analyst.adaptation.loop import FeatureRunPort
from analyst.adaptation.state import AdaptationState, adaptation_tensors
from analyst.new_file import write_file
from analyst.training.checkpoint import CheckpointStore, Manifest
from analyst.training.loop import Update
from analyst.training.metrics import MetricsFile, Value
from analyst.training.progress import Position, Progress


def adaptation_store(out: Path) -> CheckpointStore:
    """Return the checkpoints of an output directory."""
    return CheckpointStore(out / "checkpoints")


@final
class AdaptationOutputs:
    """Metrics, progress and checkpoints of one sitting."""

    def __init__(
        self,
        out: Path,
        state: AdaptationState,
        run: FeatureRunPort,
        recipe: AdaptationRecipe,
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
            dataset: Public facts of the target, and the source's digest.
            progress: The screen.
        """
        self._out = out
        self._state = state
        self._run = run
        self._recipe = recipe
        self._dataset = dataset
        self._progress = progress
        self._store = adaptation_store(out)
        self._metrics = MetricsFile(out / "metrics.jsonl")

    def updated(self, update: Update) -> None:
        """Write what is due after a step."""
        run, session = self._run, self._recipe.session
        spent = {"spent_epsilon": run.spent_epsilon, "budget_epsilon": run.budget_epsilon}
        self._progress.update(Position(step=update.step, num_steps=run.num_steps, **spent))
        if update.step % session.metrics_every == 0 or update.step == run.num_steps:
            details = getattr(run, "details", {})  # where each of several curators is
            self._metrics.write("update", {**asdict(update), **spent, **details})
        if update.step % session.checkpoint_every == 0:
            self.save_checkpoint()

    def skipped(self, first: int, last: int) -> None:
        """Say that charged steps are gone; the ledger is the truth."""
        self._progress.say(f"steps {first:,} to {last:,} were charged but no gradient came of them")
        self.event("skipped", {"first": first, "last": last})

    def waiting(self, delay: float, left: float) -> None:
        """Say that the curator does not answer."""
        self.event("waiting", {"delay_s": round(delay, 3), "left_s": round(left, 3)})
        self._progress.say(f"the curator does not answer; trying again in {delay:.0f} s")

    def event(self, kind: str, values: dict[str, Value]) -> None:
        """Write an event with the step that is next."""
        self._metrics.write(kind, {"next_step": self._run.next_step, **values})

    def save_certificate(self) -> None:
        """Keep the privacy certificate of the closed run beside its classifier."""
        certificate = getattr(self._run, "certificate", "")
        if certificate:
            path = self._out / "certificate.json"
            write_file(path, f"{certificate}\n".encode(), replace=True)

    def save_checkpoint(self, *, finished: bool = False) -> None:
        """Write a checkpoint of the state as it is now."""
        run = self._run
        manifest = Manifest(
            run_id=run.run_id,
            num_updates=self._state.num_updates,
            next_step=run.next_step,
            num_steps=run.num_steps,
            finished=finished,
            dataset=self._dataset,
            recipe=adaptation_to_dict(self._recipe),
        )
        self._store.save(adaptation_tensors(self._state), manifest)

    def close(self) -> None:
        """End the live line and close the metrics."""
        self._progress.finish()
        self._metrics.close()
