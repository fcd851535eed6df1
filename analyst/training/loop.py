"""The training loop: generate, ask, step. It knows no mechanism and no file.

The ledger says which step is next. If it moves ahead (the curator crashed, or an answer was lost)
the loop goes on from there. When a request fails for good, the randomness is put back to before the
batch was drawn: a resumed run asks with the same images, and a curator that has already answered
that step answers with the same bytes.

Shapes: N rows, C channels, H height, W width.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

import torch
from torch import Tensor

from analyst.errors import CuratorUnreachable, RunClosed, StepLost
from analyst.generators.generator import draw_latents
from analyst.recipes import Recipe
from analyst.training.ports import RunPort
from analyst.training.state import TrainingState, learning_rate
from analyst.training.updates import updates_of

_FIRST_DELAY_S = 0.5
_LONGEST_DELAY_S = 15.0


class Outcome(Enum):
    """Why the loop ended without an error."""

    COMPLETED = "completed"  # every declared step is used
    STOPPED = "stopped"  # somebody asked


@dataclass(frozen=True, kw_only=True, slots=True)
class Update:
    """One step that was answered; the gradient is a release, so all of it is public.

    It was applied, unless it was zeros: then the curator's critic is to learn more first, the
    generator and its optimizer stay as they are, and `num_updates` is that of before.
    """

    step: int
    num_updates: int
    learning_rate: float
    gradient_norm: float


class Observer(Protocol):
    """What happens around a step: metrics, progress, checkpoints."""

    def updated(self, update: Update) -> None:
        """Note an answered step."""
        ...

    def skipped(self, first: int, last: int) -> None:
        """Note steps that were charged and never applied here."""
        ...

    def waiting(self, delay: float, left: float) -> None:
        """Note that the curator does not answer: next try in `delay` seconds of `left`."""
        ...


class Stop(Protocol):
    """A request to stop, and the way to sleep."""

    @property
    def asked(self) -> bool:
        """Return whether a stop was asked."""
        ...

    def wait(self, seconds: float) -> bool:
        """Sleep; return whether a stop was asked."""
        ...


def train(
    state: TrainingState,
    run: RunPort,
    recipe: Recipe,
    *,
    observer: Observer,
    stop: Stop,
    clock: Callable[[], float] = time.monotonic,
) -> Outcome:
    """Take steps until the declared ones are used or a stop is asked.

    Args:
        state: What training changes, in place.
        run: An open run.
        recipe: Mechanism, optimizer and patience.
        observer: Told of every step.
        stop: Asked between steps and while waiting.
        clock: Seconds, for the patience.

    Returns:
        Why it ended. Any error of the barrier other than a lost step is raised, with `state` as
        before the failed step.
    """
    updates = updates_of(state, recipe)
    while run.next_step <= run.num_steps:
        if stop.asked:
            return Outcome.STOPPED
        before = state.randomness.get_state()
        step = run.next_step
        rate = learning_rate(recipe.optimizer, step, run.num_steps)
        try:
            labels_N = recipe.mechanism.draw_labels(state.model.num_classes, state.randomness)
            images_NCHW = updates.images(_latents(state, len(labels_N)), labels_N)
            ask = _Asker(run, recipe.session.retry_for_s, observer, stop, clock)
            gradient_NCHW = ask(images_NCHW, labels_N.to(images_NCHW.device))
        except BaseException:
            state.randomness.set_state(before)
            raise
        applied = run.next_step - 1
        if gradient_NCHW is _NoGradient.STOPPED:
            state.randomness.set_state(before)
            return Outcome.STOPPED
        if gradient_NCHW is _NoGradient.SKIPPED:
            observer.skipped(step, applied)
            continue
        if applied > step:
            observer.skipped(step, applied - 1)
        norm = torch.linalg.vector_norm(gradient_NCHW).item()  # waits for no more than the copy
        if norm != 0:
            updates.apply(gradient_NCHW, rate)
            state.num_updates += 1
        observer.updated(
            Update(
                step=applied,
                num_updates=state.num_updates,
                learning_rate=rate,
                gradient_norm=norm,
            )
        )
    return Outcome.COMPLETED


class _NoGradient(Enum):
    SKIPPED = "skipped"  # the ledger went on without an answer
    STOPPED = "stopped"  # somebody asked while the run waited


@dataclass(frozen=True, slots=True)
class _Asker:
    """Asks for one gradient, patiently."""

    run: RunPort
    patience_s: float
    observer: Observer
    stop: Stop
    clock: Callable[[], float]

    def __call__(self, images_NCHW: Tensor, labels_N: Tensor) -> Tensor | _NoGradient:
        """Return the gradient, or why there is none.

        Raises:
            StepLost: If the ledger does not go on after it.
            RunClosed: If the run ended before its declared steps.
            CuratorUnreachable: If patience is over.
        """
        step = self.run.next_step
        start = self.clock()
        delay = _FIRST_DELAY_S
        while True:
            try:
                return self.run.gradient(images_NCHW, labels_N)
            except (StepLost, RunClosed):
                if self.run.next_step <= step:
                    raise
                return _NoGradient.SKIPPED
            except CuratorUnreachable:
                left = self.patience_s - (self.clock() - start)
                if left <= 0:
                    raise
                delay = min(delay, left)
                self.observer.waiting(delay, left)
                if self.stop.wait(delay):
                    return _NoGradient.STOPPED
                delay = min(2 * delay, _LONGEST_DELAY_S)


def _latents(state: TrainingState, num_rows: int) -> Tensor:
    return draw_latents(state.model.latent, num_rows, state.model.latent_dim, state.randomness)
