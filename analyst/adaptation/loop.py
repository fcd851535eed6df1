"""The adaptation loop: learn the source's labels, and now and then draw its features to the target.

What goes to the curator are the extractor's weights and features of public images; what comes back
is a gradient with respect to these features. As in training a generator, the ledger knows the next
step, and a step that fails for good leaves weights and randomness as they were before it, so that a
resumed run asks the same.

Shapes: N rows, F features.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from analyst.adaptation.networks import weight_bytes
from analyst.adaptation.public_images import PublicImages
from analyst.adaptation.recipe import AdaptationRecipe, MoveSourceConfig
from analyst.adaptation.state import AdaptationState, rate
from analyst.training.loop import (
    Asker,
    Observer,
    Outcome,
    Stop,
    StopAsked,
    Update,
    put_back_on_error,
)
from analyst.training.run_source import FeatureRun
from analyst.training.state import half_cosine


def adapt(
    state: AdaptationState,
    run: FeatureRun,
    recipe: AdaptationRecipe,
    source: PublicImages,
    *,
    observer: Observer,
    stop: Stop,
) -> Outcome:
    """Take steps until the declared ones are used or a stop is asked.

    Returns:
        Why it ended. Any error of the barrier other than a lost step is raised.
    """
    ask = Asker(run, recipe.session.retry_for_s, observer, stop)
    try:
        while run.next_step <= run.num_steps:
            if stop.asked:
                return Outcome.STOPPED
            if _is_time_to_ask(state, recipe):
                _take_step(state, run, recipe, source, ask)
            else:
                _learn(state, recipe, *_batch(state, recipe, source))
    except StopAsked:
        return Outcome.STOPPED
    return Outcome.COMPLETED


def _take_step(
    state: AdaptationState,
    run: FeatureRun,
    recipe: AdaptationRecipe,
    source: PublicImages,
    ask: Asker,
) -> None:
    """Take an update with a gradient of the curator's, or without if it is lost."""
    step = run.next_step
    with put_back_on_error(state.randomness):
        images_NCHW, labels_N = _batch(state, recipe, source)
        compared = state.model.extractor if state.source_map is None else state.source_map.lens
        features_NF = compared(_seen(state, images_NCHW))[: recipe.mechanism.num_samples]
        sent_NF, weights = features_NF.detach(), weight_bytes(compared)
        answer = ask(lambda: run.feature_gradient(sent_NF, weights))
    if answer is None:
        _learn(state, recipe, images_NCHW, labels_N)
        return
    learning_rate, pulled = rate(recipe, state.num_updates), (features_NF * answer).sum()
    if isinstance(recipe.move, MoveSourceConfig):
        _move_source(state, recipe.move, pulled, (step - 1) / run.num_steps)
        _learn(state, recipe, images_NCHW, labels_N)
    else:
        _learn(state, recipe, images_NCHW, labels_N, recipe.move.weight * pulled)
    ask.observer.updated(
        Update(
            step=run.next_step - 1,
            num_updates=state.num_updates,
            learning_rate=learning_rate,
            gradient_norm=torch.linalg.vector_norm(answer).item(),
        )
    )


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
