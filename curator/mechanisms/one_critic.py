"""Critics on a public schedule of updates, of which one answers a step.

An ensemble here counts steps, not updates: critics are updated in windows of `per_step`, one window
a step, so how often a critic was updated follows from the number of steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import final

from torch import Tensor

from curator.divergences.adam import Ensemble
from curator.divergences.critic_training import image_gradients, update
from curator.divergences.placement import placed_update
from curator.divergences.progress import told
from curator.mechanisms.gs_wgan_mean import GsWganMeanSpec
from curator.mechanisms.shard_networks import NetworkState, ShardNetworks
from curator.privacy.batches import Samples
from curator.privacy.noise import NoiseSource
from curator.privacy.release import Release
from curator.sanitizer.averaged import release_critic_mean


@final
class OneCritic:
    """Trains critics in turn and releases what one of them makes of the images."""

    def __init__(self, networks: ShardNetworks, spec: GsWganMeanSpec, per_step: int) -> None:
        """Keep the public parameters; `per_step` critics a step divide their number."""
        self._networks = networks
        self._spec = spec
        self._per_step = per_step

    def step(
        self, state: NetworkState, samples: Samples, noise: NoiseSource, *, index: int, first: int
    ) -> tuple[NetworkState, Release]:
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
        spec = self._spec
        images = self._networks.images(samples)
        following = state

        def compute() -> Iterator[Tensor]:
            nonlocal following
            following = self._trained(state, images, first)
            critics = following.ensemble.critics
            one = {name: value[index : index + 1] for name, value in critics.items()}
            taken = float(state.shards.counts_K[index] > 0)
            for part in image_gradients(self._networks.shape, one, *images):
                yield part * taken  # the critic of an empty shard says nothing

        release = release_critic_mean(
            compute,
            num_critics=1,
            shape=(spec.num_samples, self._networks.space.dimension),
            clip_norm=spec.clip_norm,
            noise_multiplier=spec.noise_multiplier,
            noise=noise,
        )
        return following, release

    def _trained(
        self, state: NetworkState, images: tuple[Tensor, Tensor], first: int
    ) -> NetworkState:
        """Return the state after the updates of one step; what depends on its number is public.

        Privacy:
            Only ever called inside the sanitizer's guard.
        """
        spec, networks = self._spec, self._networks
        ensemble, step = state.ensemble, state.ensemble.num_updates
        if step == 0:
            warm = (
                networks.minibatch(state, f"warm|{turn}", spec.critic_batch, images)
                for turn in told(range(spec.warm_start_steps))
            )
            ensemble = placed_update(networks.shape, spec.optimizer, ensemble, warm)
        windows = spec.num_critics // self._per_step
        some = slice(first, first + self._per_step)
        batches = (
            networks.minibatch(state, f"step|{step}|{turn}", spec.critic_batch, images, some)
            for turn in range(spec.critic_steps)
        )
        done = spec.warm_start_steps + step // windows * spec.critic_steps
        moved = update(networks.shape, spec.optimizer, _cut(ensemble, some, done), batches)
        for name, critics in moved.critics.items():
            ensemble.critics[name][some] = critics
            ensemble.means[name][some] = moved.means[name]
            ensemble.squares[name][some] = moved.squares[name]
        counted = replace(ensemble, num_updates=step + 1)
        return NetworkState(shards=state.shards, ensemble=counted)


def _cut(ensemble: Ensemble, some: slice, num_updates: int) -> Ensemble:
    parts = (ensemble.critics, ensemble.means, ensemble.squares)
    critics, means, squares = ({n: v[some] for n, v in part.items()} for part in parts)
    return Ensemble(critics=critics, means=means, squares=squares, num_updates=num_updates)
