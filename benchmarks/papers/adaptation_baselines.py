"""Adaptation without a barrier, for comparison only: every method here reads the target freely.

Shapes: N rows, F features, K directions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from safetensors.torch import load
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn.functional import cross_entropy

from analyst.adaptation.networks import DomainClassifier, build_classifier
from analyst.adaptation.public_images import PublicImages
from analyst.adaptation.recipe import AdaptationRecipe, MoveExtractorConfig
from analyst.adaptation.state import AdaptationState, new_adaptation, rate
from analyst.generators.generator import ImageShape, initialise
from curator.accounting.calibrate import noise_multiplier_for
from curator.accounting.events.sampled_gaussian import SampledGaussianEvent
from curator.accounting.rule import BudgetRule
from curator.ledger.ledger import NOTHING
from curator.privacy.budget import Budget
from curator.privacy.event_numbers import SamplingRate

Penalty = Callable[[AdaptationState, Tensor], Tensor]
"""From the state and the source's features to a loss, beside whatever it does to the gradients."""

_HIDDEN = 100  # of the discriminator
_CLIP_NORM = 1.0  # of a target image's gradient in DP-DANN


def run_baseline(
    recipe: AdaptationRecipe, shape: ImageShape, source: PublicImages, penalty: Penalty | None
) -> DomainClassifier:
    """Train as `analyst adapt train` does, with a penalty in the place of the curator's gradient.

    Args:
        recipe: Updates, batches, optimizer and seed.
        shape: Of the target.
        source: Labelled public images.
        penalty: Called at the updates at which the curator would be asked; None for the source
            alone.

    Returns:
        The classifier with averaged weights.
    """
    published = replace(recipe, move=MoveExtractorConfig(kind="extractor", weight=1.0))
    state, training = new_adaptation(published, shape, source.images_NCHW), recipe.training
    for update in range(recipe.num_updates):
        for group in state.optimizer.param_groups:
            group["lr"] = rate(recipe, update)
        size = (training.source_batch,)
        rows = torch.randint(len(source.labels_N), size, generator=state.randomness)
        features = state.model.extractor(source.images_NCHW[rows])
        loss = cross_entropy(state.model.scores(features), source.labels_N[rows])
        state.optimizer.zero_grad(set_to_none=True)
        done = update - training.warm_up
        if penalty is not None and done >= 0 and (done + 1) % training.updates_per_step == 0:
            loss = loss + penalty(state, features[: recipe.mechanism.num_samples])
        torch.autograd.backward([loss])
        state.optimizer.step()
        state.ema.update(state.model)
    return averaged(state)


def averaged(state: AdaptationState) -> DomainClassifier:
    """Return the classifier with its averaged weights."""
    state.model.load_state_dict({k: value.clone() for k, value in state.ema.weights.items()})
    return state.model


def sliced(recipe: AdaptationRecipe, target: Tensor, weight: float) -> Penalty:
    """Return the sliced Wasserstein distance of clipped features, as published, without noise.

    The gradient goes through the features of both domains.

    Args:
        recipe: Directions and clip norm.
        target: All images of the target.
        weight: Of the distance.
    """
    given = recipe.mechanism

    def penalty(state: AdaptationState, features: Tensor) -> Tensor:
        rows = torch.randint(len(target), (len(features),), generator=state.randomness)
        others = clipped(state.model.extractor(target[rows]), given.clip_norm)
        ours = clipped(features, given.clip_norm)
        return weight * distance(ours, others, given.num_projections, state.randomness)

    return penalty


def distance(ours: Tensor, others: Tensor, count: int, randomness: torch.Generator) -> Tensor:
    """Return the squared sliced Wasserstein distance times the dimension, on fresh directions."""
    units = torch.randn((ours.shape[1], count), generator=randomness)
    units = nn.functional.normalize(units, dim=0)
    pairs = (ours @ units).sort(dim=0).values - (others @ units).sort(dim=0).values
    return ours.shape[1] * pairs.square().mean()


class NoiselessRun:
    """What a run would be without noise: the recipe's own method, but not private."""

    run_id = "none"
    spent_epsilon = budget_epsilon = float("inf")

    def __init__(self, recipe: AdaptationRecipe, shape: ImageShape, target: Tensor) -> None:
        """Take all images of the target."""
        self.num_steps, self.next_step = recipe.training.steps, 1
        self._given, self._target = recipe.mechanism, target
        self._randomness = torch.Generator().manual_seed(recipe.training.seed + 2)
        self._extractor = build_classifier(
            recipe.mechanism.architecture,
            shape,
            self._randomness,
            num_features=recipe.mechanism.num_features,
            clip_norm=recipe.mechanism.clip_norm,
        ).extractor

    def feature_gradient(self, features: Tensor, weights: bytes) -> Tensor:
        """Return the gradient of the distance to as many images of the target."""
        given = self._given
        self._extractor.load_state_dict(load(weights))
        size = (len(features),)
        rows = torch.randint(len(self._target), size, generator=self._randomness)
        with torch.no_grad():
            others = clipped(self._extractor(self._target[rows]), given.clip_norm)
        asked = features.clone().requires_grad_()
        ours = clipped(asked, given.clip_norm)
        value = distance(ours, others, given.num_projections, self._randomness)
        self.next_step += 1
        return torch.autograd.grad(value, asked)[0]

    def close(self) -> None:
        """Do nothing."""


def clipped(features: Tensor, clip_norm: float) -> Tensor:
    """Return rows of norm at most `clip_norm`."""
    norms: Tensor = torch.linalg.vector_norm(features, dim=1, keepdim=True)
    return features * (clip_norm / norms.clamp_min(clip_norm))


def adversarial(recipe: AdaptationRecipe, target: Tensor, weight: float) -> Penalty:
    """Return DANN: a discriminator of domains, and the reverse of its gradient.

    Args:
        recipe: Features, learning rate and seed.
        target: All images of the target.
        weight: Of the reversed gradient.
    """
    discriminator = _discriminator(recipe)
    optimizer = torch.optim.Adam(discriminator.parameters(), lr=recipe.optimizer.lr)
    clip_norm = recipe.mechanism.clip_norm

    def penalty(state: AdaptationState, features: Tensor) -> Tensor:
        rows = torch.randint(len(target), (len(features),), generator=state.randomness)
        others = state.model.extractor(target[rows])
        both = clipped(torch.cat((features, others)), clip_norm)
        domains = torch.arange(2).repeat_interleave(len(features))
        own = cross_entropy(discriminator(both.detach()), domains)
        optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward([own])
        optimizer.step()
        return -weight * cross_entropy(discriminator(both), domains)

    return penalty


def private_adversarial(
    recipe: AdaptationRecipe, target: Tensor, weight: float, budget: Budget
) -> Penalty:
    """Return DP-DANN: DP-SGD on a Poisson sample, for extractor and discriminator together.

    Each target image's gradient of its domain loss is clipped to norm 1 as one vector. The noise is
    what the ledger's rule asks for; it is drawn here without a sanitizer, so this is a simulation.

    Args:
        recipe: Sampling rate, steps and seed.
        target: All images of the target.
        weight: Of the reversed gradient.
        budget: Of the whole run.
    """
    discriminator = _discriminator(recipe)
    optimizer = torch.optim.Adam(discriminator.parameters(), lr=recipe.optimizer.lr)
    expected = recipe.mechanism.expected_batch_size or 0
    sampling = SamplingRate.at_least(expected / len(target))
    multiplier = noise_multiplier_for(
        BudgetRule.register(budget),
        NOTHING,
        lambda z: SampledGaussianEvent(sampling_rate=sampling, noise_multiplier=z),
        recipe.training.steps,
    )
    clip_norm = recipe.mechanism.clip_norm

    def penalty(state: AdaptationState, features: Tensor) -> Tensor:
        extractor = state.model.extractor
        parts: dict[str, nn.Module] = {"extractor": extractor, "discriminator": discriminator}
        weights = {
            f"{part}.{name}": value.detach()
            for part, module in parts.items()
            for name, value in module.named_parameters()
        }

        def domain_loss(given: dict[str, Tensor], image: Tensor) -> Tensor:
            def of(part: str) -> dict[str, Tensor]:
                chosen = {k: v for k, v in given.items() if k.startswith(part)}
                return {k.partition(".")[2]: v for k, v in chosen.items()}

            row = functional_call(extractor, of("extractor"), (image.unsqueeze(0),))
            row = clipped(row, clip_norm)
            scores = functional_call(discriminator, of("discriminator"), (row,))
            return cross_entropy(scores, torch.ones(1, dtype=torch.int64))

        chance = torch.rand(len(target), generator=state.randomness)
        rows = target[chance < float(sampling)]
        slopes = vmap(grad(domain_loss), in_dims=(None, 0))(weights, rows)
        squares = sum(one.flatten(1).square().sum(dim=1) for one in slopes.values())
        factors = _CLIP_NORM / squares.sqrt().clamp_min(_CLIP_NORM)
        noised = {}
        for name, one in slopes.items():
            total = torch.tensordot(factors, one, dims=1)
            noise = torch.randn(total.shape, generator=state.randomness)
            noised[name] = (total + _CLIP_NORM * multiplier * noise) / expected
        ours = clipped(features, clip_norm)
        zeros = torch.zeros(len(ours), dtype=torch.int64)
        own = cross_entropy(discriminator(ours.detach()), zeros)
        optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward([own])
        for name, value in discriminator.named_parameters():
            value.grad = value.grad + noised[f"discriminator.{name}"]
        optimizer.step()
        reversed_: Tensor | float = sum(
            (value * noised[f"extractor.{name}"]).sum()
            for name, value in extractor.named_parameters()
        )
        loss: Tensor = -weight * (cross_entropy(discriminator(ours), zeros) + reversed_)
        return loss

    return penalty


def _discriminator(recipe: AdaptationRecipe) -> nn.Sequential:
    width = recipe.mechanism.num_features
    made = nn.Sequential(nn.Linear(width, _HIDDEN), nn.ReLU(), nn.Linear(_HIDDEN, 2))
    initialise(made, torch.Generator().manual_seed(recipe.training.seed + 1))
    return made
