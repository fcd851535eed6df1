"""A saved embedding in the place of a curator: the training loop does not notice the difference.

Nothing is charged: what was released may be used as often as one likes.

Shapes: N images, K classes, R features.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NoReturn, final

import torch
from torch import Tensor

from analyst.embedding.captured import CapturedObjective
from analyst.embedding.feature_maps import FeatureMap, FourierPart, fourier_parts, joined
from analyst.embedding.file import SavedEmbedding
from analyst.embedding.networks import network_map
from analyst.errors import EmbeddingError, RecipeError, RunClosed
from analyst.facts import ImageFacts
from analyst.recipes.mechanisms import RELEASED_ONCE
from analyst.training.generated_means import GeneratedMeans, others_of

_MIN_COUNT_IN_STDS = 2.0


@final
class EmbeddingObjective:
    """Answers gradients from a saved embedding as the curator would."""

    def __init__(self, embedding: SavedEmbedding, *, num_turns: int = 1) -> None:
        """Draw the map's frequencies and divide sums by counts.

        Args:
            embedding: What was released.
            num_turns: The frequencies take turns in so many sets, so that a step takes less time.

        Raises:
            EmbeddingError: If there are none to take turns, or a network is missing.
        """
        means_KR = class_means(embedding).to(torch.float32)
        self._turns = [(map_of(embedding), means_KR)]
        if num_turns > 1:
            if "network" in embedding.parameters:
                message = "training.turns is of frequencies, and statistics of a network have none"
                raise EmbeddingError(message, "Train with --set training.turns=1.")
            parts = fourier_parts(embedding.parameters, embedding.shape)
            self._turns = [_turn(parts, means_KR, num_turns, turn) for turn in range(num_turns)]

    @property
    def num_turns(self) -> int:
        """How many sets of frequencies take turns."""
        return len(self._turns)

    def gradient(
        self,
        images_NCHW: Tensor,
        labels_N: Tensor,
        past: GeneratedMeans | None = None,
        *,
        step: int = 0,
    ) -> Tensor:
        """Return the gradient of the mean over classes of the unbiased MMD^2.

        Args:
            images_NCHW: Pixels in [-1, 1]; codes [N, E] where the release is of codes.
            labels_N: Class numbers.
            past: What is remembered of earlier images; not where frequencies take turns.
            step: Says whose turn it is. At the same images the mean over all turns is the gradient
                of all frequencies.

        Returns:
            As large as what was given; a class without images contributes nothing.
        """
        turn = step % len(self._turns)
        rows_of, means_KR = self._turns[turn]
        if means_KR.device != images_NCHW.device:
            means_KR = means_KR.to(images_NCHW.device)
            self._turns[turn] = rows_of, means_KR
        means_KR = means_KR.to(images_NCHW.dtype)
        return mmd_gradient(rows_of, means_KR, images_NCHW, labels_N, past)


def _turn(
    parts: list[FourierPart], means_KR: Tensor, num_turns: int, turn: int
) -> tuple[FeatureMap, Tensor]:
    """Return the map of every n-th frequency, its rows of norm 1 too, and its means."""
    chosen, places, before = [], [], 0
    for part in parts:
        features, places_of_part = part.features.every(num_turns, turn)
        chosen.append(replace(part, features=features, share=part.share * num_turns))
        places.append(before + places_of_part)
        before += 2 * part.features.frequencies.number
    return joined(chosen), means_KR[:, torch.cat(places)] * math.sqrt(num_turns)


def map_of(embedding: SavedEmbedding) -> FeatureMap:
    """Return the map to the rows of which the embedding holds sums.

    Raises:
        EmbeddingError: If it is of a public network, which is not there.
    """
    if "network" not in embedding.parameters:
        return joined(fourier_parts(embedding.parameters, embedding.shape))
    if not embedding.network:
        message = f"the network {embedding.parameters['network']} is not in the embedding's file"
        remedy = f"Download it again for free: --run {embedding.run_id} --network FILE."
        raise EmbeddingError(message, remedy)
    return network_map(embedding.parameters, embedding.shape, embedding.network)


def mmd_gradient(
    rows_of: FeatureMap,
    means_KR: Tensor,
    images_NCHW: Tensor,
    labels_N: Tensor,
    past: GeneratedMeans | None = None,
) -> Tensor:
    """Return the gradient of the mean over classes of the unbiased MMD^2, as large as the images.

    Args:
        rows_of: A map to rows of one norm; differentiable.
        means_KR: What the rows of each class should have as their mean.
        images_NCHW: Pixels in [-1, 1], or codes.
        labels_N: Class numbers.
        past: What is remembered of earlier images: less spread, a little behind.
    """
    with torch.enable_grad():
        moving = images_NCHW.detach().requires_grad_()
        rows_NR: Tensor = rows_of(moving)
    values_NR = rows_NR.detach()
    sums_KR = torch.zeros_like(means_KR).index_add_(0, labels_N, values_NR)
    one_N1 = values_NR.new_ones((len(labels_N), 1))  # a graph cannot hold torch.bincount
    sizes_K1 = means_KR.new_zeros((len(means_KR), 1)).index_add_(0, labels_N, one_N1)
    others_KR = (others_of if past is None else past.others)(sums_KR, sizes_K1)
    weights_KR = (others_KR - means_KR) * (2 / (len(means_KR) * sizes_K1.clamp_min(1)))
    (gradient,) = torch.autograd.grad(rows_NR, moving, weights_KR[labels_N])
    return gradient


def class_means(embedding: SavedEmbedding) -> Tensor:
    """Return noisy mean embeddings [K, R]; a noisy count is not let below twice its noise.

    Returns:
        float64 rows.
    """
    shrink = _shrink(embedding)
    return embedding.sums_KR[:, :-1] / (shrink * class_counts(embedding).unsqueeze(1))


def class_counts(embedding: SavedEmbedding) -> Tensor:
    """Return noisy counts [K], none of them below twice its noise."""
    value: float = embedding.parameters["count_scale"] * _shrink(embedding)
    noise_std: float = embedding.parameters["noise_multiplier"] / value
    least = max(1.0, _MIN_COUNT_IN_STDS * noise_std)
    return (embedding.sums_KR[:, -1] / value).clamp_min(least)


def _shrink(embedding: SavedEmbedding) -> float:
    """Return what brings features of norm 1 and the count below them to norm 1."""
    scale: float = embedding.parameters["count_scale"]
    return 1 / math.sqrt(1 + scale**2)


@final
class OfflineRun:
    """Steps that cost nothing; where it stands is the checkpoint's business."""

    spent_epsilon = 0.0
    is_made_here = True

    def __init__(
        self,
        embedding: SavedEmbedding,
        *,
        num_steps: int,
        next_step: int,
        past: GeneratedMeans | None = None,
        num_turns: int = 1,
        is_captured: bool = False,
    ) -> None:
        """Start at a step."""
        objective = _objective(embedding, num_turns)
        self._objective: EmbeddingObjective | CapturedObjective = objective
        if is_captured:
            self._objective = CapturedObjective(objective)
        self._past = past
        self.run_id = embedding.run_id
        self.budget_epsilon = embedding.dataset["epsilon"]
        self.num_steps = num_steps
        self.next_step = next_step

    def gradient(self, images: Tensor, labels: Tensor) -> Tensor:
        """Return the gradient with respect to `images`, of the same shape.

        Raises:
            RunClosed: If the declared steps are used.
        """
        if self.next_step > self.num_steps:
            reason, message = "RUN_CLOSED", "The declared steps are used."
            raise RunClosed(reason, message, remedy="Start a new run.")
        if self._past is not None:
            self._past.reached((self.next_step - 1) / self.num_steps)
        gradient = self._objective.gradient(images, labels, self._past, step=self.next_step)
        self.next_step += 1
        return gradient

    def close(self) -> None:
        """Do nothing: nothing was reserved."""


@final
class OfflineBarrier:
    """The part of a curator that training needs, played by a saved embedding."""

    def __init__(
        self,
        embedding: SavedEmbedding,
        *,
        reached: tuple[int, int] | None = None,
        past: GeneratedMeans | None = None,
        num_turns: int = 1,
        is_captured: bool = False,
    ) -> None:
        """Take an embedding, how far a run is on it, and what is remembered beside it."""
        self._embedding, self._past, self._num_turns = embedding, past, num_turns
        self._is_captured = is_captured
        self._reached = reached

    def describe(self, dataset: str) -> ImageFacts:
        """Return the facts that were saved.

        Args:
            dataset: Must be the embedding's data set.

        Raises:
            EmbeddingError: If it is another data set's.
        """
        facts = self._embedding.facts
        if dataset != facts.name:
            message = f"this embedding is of '{facts.name}', not of '{dataset}'"
            raise EmbeddingError(message, f"Add --dataset {facts.name}, or take its own embedding.")
        return facts

    def plan(
        self,
        dataset: str,
        mechanism: str,
        parameters: dict[str, Any],
        *,
        num_steps: int | None = None,
        epsilon: float | None = None,
    ) -> NoReturn:
        """Refuse: there is nothing to plan.

        Raises:
            EmbeddingError: Always.
        """
        del mechanism, parameters, num_steps, epsilon
        message = f"training on a saved embedding of '{dataset}' costs nothing"
        raise EmbeddingError(message, "State a number of steps.")

    def open_run(
        self, dataset: str, mechanism: str, parameters: dict[str, Any], *, num_steps: int
    ) -> OfflineRun:
        """Return a run over the saved embedding.

        Args:
            dataset: Its data set.
            mechanism: Must be one that releases an embedding.
            parameters: Must be those that the release was made with.
            num_steps: Declared steps.

        Raises:
            RecipeError: If the recipe asks for another release.
        """
        saved = self._embedding.parameters
        other = sorted(
            name
            for name in saved.keys() | parameters.keys()
            if saved.get(name) != parameters.get(name)
        )
        if mechanism not in RELEASED_ONCE or other:
            what = ", ".join(f"mechanism.{name}" for name in other) or "mechanism.kind"
            message = f"the recipe asks for another release than this one of '{dataset}': {what}"
            raise RecipeError(message, "Use the recipe that the run was opened with.")
        return self._run(num_steps, 1)

    def resume_run(self, run_id: str) -> OfflineRun:
        """Return the run of a checkpoint.

        Returns:
            The run at the checkpoint's step.

        Raises:
            EmbeddingError: If the checkpoint was trained on another release.
        """
        if self._reached is None or run_id != self._embedding.run_id:
            message = f"this checkpoint was trained on the release of run {run_id}"
            raise EmbeddingError(message, "Give the embedding of that run.")
        num_steps, next_step = self._reached
        return self._run(num_steps, next_step)

    def _run(self, num_steps: int, next_step: int) -> OfflineRun:
        return OfflineRun(
            self._embedding,
            num_steps=num_steps,
            next_step=next_step,
            past=self._past,
            num_turns=self._num_turns,
            is_captured=self._is_captured,
        )


def _objective(embedding: SavedEmbedding, num_turns: int) -> EmbeddingObjective:
    """Return what the embedding asks to be made small.

    Raises:
        EmbeddingError: If its parameters are not those of a mechanism that this version knows.
    """
    try:
        return EmbeddingObjective(embedding, num_turns=num_turns)
    except (ValueError, KeyError, TypeError, AttributeError, RuntimeError) as error:
        message = f"the embedding's parameters do not fit: {error}"
        raise EmbeddingError(message, "Download it again; it costs nothing.") from None
