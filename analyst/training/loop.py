"""The training loop: generate, ask, step. It knows no mechanism and no file.

The ledger says which step is next. If it moves ahead (the curator crashed, or an answer was lost)
the loop goes on from there. When a request fails for good, the randomness is put back to before the
batch was drawn: a resumed run asks with the same images, and a curator that has already answered
that step answers with the same bytes. With `training.depth` above 1 batches that were sent and not
answered are part of the state, so that holds for them too.

Shapes: N rows, C channels, H height, W width.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, cast

import torch
from torch import Tensor

from analyst.errors import CuratorUnreachable, RunClosed, StepLost
from analyst.generators.generator import draw_latents
from analyst.recipes import Recipe
from analyst.training.run_source import AheadRun, ImageRun, OpenRun, WaitingRun, is_made_here
from analyst.training.state import SentBatch, TrainingState, learning_rate
from analyst.training.updates import Updates, updates_of

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


class StopAsked(Exception):
    """Somebody asked for a stop while the run waited for the curator."""


def train(
    state: TrainingState,
    run: ImageRun,
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
        recipe: Mechanism, optimizer and how long to wait for a curator.
        observer: Told of every step.
        stop: Asked between steps and while waiting.
        clock: Seconds, for the waiting.

    Returns:
        Why it ended. Any error of the barrier other than a lost step is raised, with `state` as
        before the failed step.
    """
    updates = updates_of(state, recipe, are_images_sent=not is_made_here(run))
    waiting = run if isinstance(run, WaitingRun) else None
    before = None if waiting is None else waiting.while_waiting
    ask = Asker(run, recipe.session.retry_for_s, observer, stop, clock)
    take_step = _take_step if recipe.training.depth == 1 else _take_step_ahead
    try:
        if waiting is not None:
            waiting.while_waiting = updates.catch_up
        while run.next_step <= run.num_steps:
            if stop.asked:
                return Outcome.STOPPED
            take_step(state, run, recipe, updates, ask)
    except StopAsked:
        return Outcome.STOPPED
    finally:
        if waiting is not None and before is not None:
            waiting.while_waiting = before
    state.sent.clear()  # the steps that they were for went otherwise
    return Outcome.COMPLETED


def _take_step(
    state: TrainingState, run: ImageRun, recipe: Recipe, updates: Updates, ask: Asker
) -> None:
    rate = learning_rate(recipe.optimizer, run.next_step, run.num_steps)
    with put_back_on_error(state.randomness):
        labels_N = recipe.mechanism.draw_labels(state.model.num_classes, state.randomness)
        images_NCHW = updates.images(_latents(state, len(labels_N)), labels_N)
        sent_N = labels_N.to(images_NCHW.device, non_blocking=True)
        gradient_NCHW = ask(lambda: run.gradient(images_NCHW, sent_N))
    if gradient_NCHW is not None:
        _update(state, updates, gradient_NCHW, rate, ask)


def _take_step_ahead(
    state: TrainingState, run: ImageRun, recipe: Recipe, updates: Updates, ask: Asker
) -> None:
    """Make batches until as many as the depth are on their way, and apply the first answer.

    The released gradient is of images as they were sent, `depth - 1` updates ago. It is pulled
    through the generator as it is now: the images are made once more from their latents. So a
    checkpoint needs no older weights to go on from exactly here, only what was sent.
    """
    rate = learning_rate(recipe.optimizer, run.next_step, run.num_steps)
    sent, left = state.sent, run.num_steps - run.next_step + 1
    while len(sent) < min(recipe.training.depth, left):
        with put_back_on_error(state.randomness):
            labels_N = recipe.mechanism.draw_labels(state.model.num_classes, state.randomness)
            latents_NZ = _latents(state, len(labels_N))
            images_NCHW = updates.images(latents_NZ, labels_N).clone()  # the next is made in place
        sent.append(SentBatch(latents_NZ, labels_N, images_NCHW))
    batches = [(batch.images_NCHW, batch.labels_N) for batch in sent]
    gradient_NCHW = ask(lambda: cast("AheadRun", run).first_gradient(batches[:left]))
    answered = sent.popleft()
    if gradient_NCHW is not None:
        updates.images(answered.latents_NZ, answered.labels_N)
        _update(state, updates, gradient_NCHW, rate, ask)


def _update(
    state: TrainingState, updates: Updates, gradient_NCHW: Tensor, rate: float, ask: Asker
) -> None:
    """Apply a gradient to the images that were made last, and tell of it."""
    norm = torch.linalg.vector_norm(gradient_NCHW).item()  # waits for no more than the copy
    if norm != 0:
        updates.apply(gradient_NCHW, rate)
        state.num_updates += 1
    ask.observer.updated(
        Update(
            step=ask.run.next_step - 1,
            num_updates=state.num_updates,
            learning_rate=rate,
            gradient_norm=norm,
        )
    )


@contextmanager
def put_back_on_error(randomness: torch.Generator) -> Iterator[None]:
    """Leave the randomness as it was before the block if the block does not end as it should.

    Yields:
        Nothing.
    """
    before = randomness.get_state()
    try:
        yield
    except BaseException:
        randomness.set_state(before)
        raise


@dataclass(frozen=True, slots=True)
class Asker:
    """Asks a run for one gradient after the other, and waits for a curator that does not answer."""

    run: OpenRun
    patience_s: float
    observer: Observer
    stop: Stop
    clock: Callable[[], float] = time.monotonic

    def __call__(self, question: Callable[[], Tensor]) -> Tensor | None:
        """Return the gradient of the next step; none if the ledger went on without an answer.

        Raises:
            StepLost: If the ledger does not go on after it.
            RunClosed: If the run ended before its declared steps.
        """
        step = self.run.next_step
        try:
            answer = self._patiently(question)
        except (StepLost, RunClosed):
            if self.run.next_step <= step:
                raise
            answer = None
        lost = self.run.next_step - 1 - (answer is not None)
        if lost >= step:
            self.observer.skipped(step, lost)
        return answer

    def _patiently(self, question: Callable[[], Tensor]) -> Tensor:
        """Repeat a question while nothing answers.

        Raises:
            CuratorUnreachable: If patience is over.
            StopAsked: If somebody asked while the run waited.
        """
        start, delay = self.clock(), _FIRST_DELAY_S
        while True:
            try:
                return question()
            except CuratorUnreachable:
                left = self.patience_s - (self.clock() - start)
                if left <= 0:
                    raise
                delay = min(delay, left)
                self.observer.waiting(delay, left)
                if self.stop.wait(delay):
                    raise StopAsked from None
                delay = min(2 * delay, _LONGEST_DELAY_S)


def _latents(state: TrainingState, num_rows: int) -> Tensor:
    return draw_latents(state.model.latent, num_rows, state.model.latent_dim, state.randomness)
