"""Critics on a public schedule of updates, of which one answers a step.

An ensemble here counts steps, not updates: critics are updated in windows of `per_step`, one window
a step, so how often a critic was updated follows from the number of steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import final

from torch import Tensor

from curator.divergences.critic_training import Ensemble, image_gradients, update
from curator.divergences.placement import placed_update
from curator.divergences.progress import told
from curator.mechanisms.critic_state import CriticData, CriticState
from curator.privacy.noise import NoiseSource
from curator.privacy.records import Samples
from curator.privacy.release import Release
from curator.sanitizer.averaged import release_critic_mean


@final
class OneCritic:
    """Trains critics in turn and releases what one of them makes of the images."""

    def __init__(self, data: CriticData, per_step: int) -> None:
        """Keep the public parameters.

        Args:
            data: Of the run.
            per_step: How many critics a step updates; divides the number of critics.
        """
        self._data = data
        self._per_step = per_step

    def step(
        self, state: CriticState, samples: Samples, noise: NoiseSource, *, index: int, first: int
    ) -> tuple[CriticState, Release]:
        """Update the critics whose turn it is, then release one critic's gradients.

        The given state is used up: rows of critics whose turn it is are replaced in it.

        Args:
            state: Of `start`, or of the step before.
            samples: B rows that passed `check_samples`.
            noise: Secret randomness.
            index: The critic that answers.
            first: The first of the critics whose turn it is: public, whoever answers.

        Returns:
            The next state, and B noised rows: the gradients of minus the scores.

        Privacy:
            The answers of two critics are at most 2 C sqrt(B) apart, whatever the critics are.
        """
        spec = self._data.spec
        images = self._data.images(samples)
        following = state

        def compute() -> Iterator[Tensor]:
            nonlocal following
            following = self._trained(state, images, first)
            critics = following.ensemble.critics
            one = {name: value[index : index + 1] for name, value in critics.items()}
            taken = float(state.shards.counts_K[index] > 0)
            for part in image_gradients(self._data.shape, one, *images):
                yield part * taken  # the critic of an empty shard says nothing

        release = release_critic_mean(
            compute,
            num_critics=1,
            shape=(spec.num_samples, self._data.space.dimension),
            clip_norm=spec.clip_norm,
            noise_multiplier=spec.noise_multiplier,
            noise=noise,
        )
        return following, release

    def _trained(
        self, state: CriticState, images: tuple[Tensor, Tensor], first: int
    ) -> CriticState:
        """Return the state after the updates of one step; what depends on its number is public.

        Privacy:
            Only ever called inside the sanitizer's guard.
        """
        spec, shape = self._data.spec, self._data.shape
        ensemble, step = state.ensemble, state.ensemble.num_updates
        if step == 0:
            warm = (
                self._data.minibatch(state.shards, f"warm|{turn}", images, slice(None))
                for turn in told(range(spec.warm_start_steps))
            )
            ensemble = placed_update(shape, spec.optimizer, ensemble, warm)
        windows = spec.num_critics // self._per_step
        some = slice(first, first + self._per_step)
        batches = (
            self._data.minibatch(state.shards, f"step|{step}|{turn}", images, some)
            for turn in range(spec.critic_steps)
        )
        done = spec.warm_start_steps + step // windows * spec.critic_steps
        moved = update(shape, spec.optimizer, _cut(ensemble, some, done), batches)
        for name, critics in moved.critics.items():
            ensemble.critics[name][some] = critics
            ensemble.means[name][some] = moved.means[name]
            ensemble.squares[name][some] = moved.squares[name]
        return CriticState(shards=state.shards, ensemble=replace(ensemble, num_updates=step + 1))


def _cut(ensemble: Ensemble, some: slice, num_updates: int) -> Ensemble:
    parts = (ensemble.critics, ensemble.means, ensemble.squares)
    critics, means, squares = ({n: v[some] for n, v in part.items()} for part in parts)
    return Ensemble(critics=critics, means=means, squares=squares, num_updates=num_updates)
