"""Where critics are trained: in this process, or some of them on each of several workers."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from curator.divergences.adam import Ensemble
from curator.divergences.critic_training import (
    CriticOptimizer,
    Minibatch,
    update,
)
from curator.divergences.critics import CriticShape

Update = Callable[[CriticShape, CriticOptimizer, Ensemble, Iterable[Minibatch]], Ensemble]

_chosen: dict[str, Update] = {}


def place_critics(num_workers: int, address: str = "", device: str = "cpu") -> None:
    """Choose who trains critics for every run of this process.

    Args:
        num_workers: Of Ray; 0 for this process alone.
        address: Of a Ray cluster; empty for workers on this machine.
        device: Of each worker.

    Raises:
        RayUnavailable: If Ray is not installed, or does not start.
    """
    _chosen.clear()
    if num_workers:
        from curator.divergences.ray_workers import RayWorkers  # seconds to import

        _chosen["trainer"] = RayWorkers(num_workers, address, device.partition(":")[0]).update


def placed_update(
    shape: CriticShape,
    optimizer: CriticOptimizer,
    ensemble: Ensemble,
    batches: Iterable[Minibatch],
) -> Ensemble:
    """Return the ensemble after one step of Adam a batch, wherever that is computed."""
    return _chosen.get("trainer", update)(shape, optimizer, ensemble, batches)
