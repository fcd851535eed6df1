"""The adaptation loop: learn the source's labels, and now and then draw its features to the target.

What goes to the curator are the extractor's weights and features of public images; what comes back
is a gradient with respect to these features. As in training a generator, the ledger knows the next
step, and a step that fails for good leaves weights and randomness as they were before it, so that a
resumed run asks the same.

Shapes: N rows, F features.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from analyst.adaptation.config import AdaptationRecipe, MoveSourceConfig
from analyst.adaptation.networks import weight_bytes
from analyst.adaptation.source import PublicImages
from analyst.adaptation.state import AdaptationState, half_cosine, rate
from analyst.errors import CuratorUnreachable, RunClosed, StepLost
from analyst.training.loop import Observer, Outcome, Stop, Update

_FIRST_DELAY_S = 0.5
_LONGEST_DELAY_S = 15.0


class FeatureRunPort(Protocol):
    """An open run of a mechanism on features."""

    @property
    def run_id(self) -> str: ...  # noqa: D102 - the name says it
    @property
    def num_steps(self) -> int: ...  # noqa: D102
    @property
    def next_step(self) -> int: ...  # noqa: D102
    @property
    def spent_epsilon(self) -> float: ...  # noqa: D102
    @property
    def budget_epsilon(self) -> float: ...  # noqa: D102

    def feature_gradient(self, features: Tensor, weights: bytes) -> Tensor:
        """Return a releasable gradient with respect to `features`, of the same shape."""
        ...

    def close(self) -> None:
        """End the run; what was not used goes back to the budget."""
        ...


def adapt(
    state: AdaptationState,
    run: FeatureRunPort,
    recipe: AdaptationRecipe,
    source: PublicImages,
    *,
    observer: Observer,
    stop: Stop,
) -> Outcome:
    """Take steps until the declared ones are used or a stop is asked.

    Args:
        state: What changes, in place.
        run: An open run.
        recipe: What to do.
        source: Labelled public images.
        observer: Told of every step.
        stop: Asked between updates and while waiting.

    Returns:
        Why it ended. Any error of the barrier other than a lost step is raised.
    """
    ask = _Asker(run, recipe.session.retry_for_s, observer, stop)
    while run.next_step <= run.num_steps:
        if stop.asked:
            return Outcome.STOPPED
        if not _is_time_to_ask(state, recipe):
            _learn(state, recipe, *_batch(state, recipe, source))
        elif not _take_step(state, recipe, source, ask):
            return Outcome.STOPPED
    return Outcome.COMPLETED


def _take_step(
    state: AdaptationState, recipe: AdaptationRecipe, source: PublicImages, ask: _Asker
) -> bool:
    """Take an update with a gradient of the curator's; return whether it was taken."""
    run, before = ask.run, state.randomness.get_state()
    step = run.next_step
    images_NCHW, labels_N = _batch(state, recipe, source)
    compared = state.model.extractor if state.source_map is None else state.source_map.lens
    features_NF = compared(_seen(state, images_NCHW))[: recipe.mechanism.num_samples]
    try:
        answer = ask(features_NF.detach(), weight_bytes(compared))
    except BaseException:
        state.randomness.set_state(before)
        raise
    if answer is _NoGradient.STOPPED:
        state.randomness.set_state(before)
        return False
    applied = run.next_step - 1
    if answer is _NoGradient.SKIPPED:
        ask.observer.skipped(step, applied)
        _learn(state, recipe, images_NCHW, labels_N)
        return True
    if applied > step:
        ask.observer.skipped(step, applied - 1)
    learning_rate, pulled = rate(recipe, state.num_updates), (features_NF * answer).sum()
    if isinstance(recipe.move, MoveSourceConfig):
        _move_source(state, recipe.move, pulled, (step - 1) / run.num_steps)
        _learn(state, recipe, images_NCHW, labels_N)
    else:
        _learn(state, recipe, images_NCHW, labels_N, recipe.move.weight * pulled)
    ask.observer.updated(
        Update(
            step=applied,
            num_updates=state.num_updates,
            learning_rate=learning_rate,
            gradient_norm=torch.linalg.vector_norm(answer).item(),
        )
    )
    return True


def _is_time_to_ask(state: AdaptationState, recipe: AdaptationRecipe) -> bool:
    done = state.num_updates - recipe.training.warm_up
    return done >= 0 and (done + 1) % recipe.training.updates_per_step == 0


def _batch(
    state: AdaptationState, recipe: AdaptationRecipe, source: PublicImages
) -> tuple[Tensor, Tensor]:
    """Return a uniform batch of the source."""
    size = (recipe.training.source_batch,)
    rows_N = torch.randint(len(source.labels_N), size, generator=state.randomness)
    return source.images_NCHW[rows_N], source.labels_N[rows_N]


def _seen(state: AdaptationState, images_NCHW: Tensor) -> Tensor:
    """Return images as the classifier sees them."""
    if state.source_map is None:
        return images_NCHW
    seen_NCHW: Tensor = state.source_map(images_NCHW)
    return seen_NCHW


def _learn(
    state: AdaptationState,
    recipe: AdaptationRecipe,
    images_NCHW: Tensor,
    labels_N: Tensor,
    pull: Tensor | None = None,
) -> None:
    """Update the classifier by the source's labels, and the pull of the target if it has one."""
    for group in state.optimizer.param_groups:
        group["lr"] = rate(recipe, state.num_updates)
    state.optimizer.zero_grad(set_to_none=True)
    loss = cross_entropy(state.model(_seen(state, images_NCHW).detach()), labels_N)
    if pull is not None:
        loss = loss + pull
    torch.autograd.backward([loss])
    state.optimizer.step()
    state.ema.update(state.model)
    state.num_updates += 1


def _move_source(
    state: AdaptationState, move: MoveSourceConfig, pulled: Tensor, share: float
) -> None:
    """Update the map of the source."""
    if state.map_optimizer is None:
        return
    for group in state.map_optimizer.param_groups:
        group["lr"] = move.lr * half_cosine(share)
    state.map_optimizer.zero_grad(set_to_none=True)
    torch.autograd.backward([pulled])
    state.map_optimizer.step()


class _NoGradient(Enum):
    SKIPPED = "skipped"  # the ledger went on without an answer
    STOPPED = "stopped"  # somebody asked while the run waited


@dataclass(frozen=True, slots=True)
class _Asker:
    """Asks for one gradient, patiently."""

    run: FeatureRunPort
    patience_s: float
    observer: Observer
    stop: Stop

    def __call__(self, features_NF: Tensor, weights: bytes) -> Tensor | _NoGradient:
        """Return the gradient, or why there is none.

        Raises:
            StepLost: If the ledger does not go on after it.
            RunClosed: If the run ended before its declared steps.
            CuratorUnreachable: If patience is over.
        """
        step, start, delay = self.run.next_step, time.monotonic(), _FIRST_DELAY_S
        while True:
            try:
                return self.run.feature_gradient(features_NF, weights)
            except (StepLost, RunClosed):
                if self.run.next_step <= step:
                    raise
                return _NoGradient.SKIPPED
            except CuratorUnreachable:
                left = self.patience_s - (time.monotonic() - start)
                if left <= 0:
                    raise
                delay = min(delay, left)
                self.observer.waiting(delay, left)
                if self.stop.wait(delay):
                    return _NoGradient.STOPPED
                delay = min(2 * delay, _LONGEST_DELAY_S)
