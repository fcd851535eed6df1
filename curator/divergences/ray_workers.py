"""Critics on workers of a Ray cluster, an equal part on each; the extra `ray` installs it.

Workers are given critics and records, which are private: they must be the curator's own machines on
a closed network. Ray encrypts only if RAY_USE_TLS is set up, and checks who joins a cluster only if
RAY_AUTH_MODE says so. Of workers on this machine a fresh token does, and what does not fit into
memory goes to a folder that nobody else may enter: Ray's own is open to every user.
"""

from __future__ import annotations

import atexit
import importlib
import os
import secrets
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, Final, final

import torch
from torch import Tensor

from curator.divergences.adam import Ensemble
from curator.divergences.critic_training import CriticOptimizer, Minibatch, update
from curator.divergences.critics import CriticShape, Parameters
from curator.system.core_dumps import forbid_core_dumps

_AT_ONCE: Final = 16  # minibatches that travel together
_STORE_BYTES: Final = 1 << 28


class RayUnavailable(RuntimeError):
    """Ray is not installed, or does not start."""


@final
class RayWorkers:
    """Trains parts of an ensemble on workers, with the results of one process."""

    def __init__(self, num_workers: int, address: str = "", device: str = "cpu") -> None:
        """Start local workers, or join a cluster.

        Args:
            num_workers: How many parts.
            address: Of a cluster; empty for processes on this machine.
            device: Of each worker: `cpu`, or `cuda` for a graphics card each.

        Raises:
            RayUnavailable: If Ray is not installed, or does not start.
        """
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # tell nobody
        here = {} if address else _on_this_machine(num_workers)
        try:
            self._ray: Any = importlib.import_module("ray")
            self._ray.init(
                address=address or "local",
                include_dashboard=None if address else False,
                log_to_driver=False,
                **here,
            )
        except Exception as error:
            msg = "Ray does not start here: pip install 'weir-dp[ray]', and check its address"
            raise RayUnavailable(msg) from error
        needs = {"num_cpus": 1, "num_gpus": int(device == "cuda")}
        self._part = self._ray.remote(**needs)(_part)
        self._num_workers = num_workers
        self._device = device

    def stop(self) -> None:
        """Leave the cluster; local workers end."""
        self._ray.shutdown()

    def update(
        self,
        shape: CriticShape,
        optimizer: CriticOptimizer,
        ensemble: Ensemble,
        batches: Iterable[Minibatch],
    ) -> Ensemble:
        """Return the ensemble after one step of Adam a batch: see `critic_training.update`."""
        num_critics = len(ensemble.critics["score"])
        home = ensemble.critics["score"].device
        size = -(-num_critics // self._num_workers)
        parts = [slice(start, start + size) for start in range(0, num_critics, size)]
        learned = [_cut_ensemble(ensemble, part) for part in parts]
        remaining = iter(batches)
        while group := list(islice(remaining, _AT_ONCE)):
            sent = [
                self._part.remote(
                    shape, optimizer, one, [_cut_batch(b, part) for b in group], self._device
                )
                for one, part in zip(learned, parts, strict=True)
            ]
            learned = self._ray.get(sent)
        return _joined(learned, home)


def _on_this_machine(num_workers: int) -> dict[str, Any]:
    """Return how Ray starts here: with a token of its own, and files that only the owner sees."""
    if "ray" not in sys.modules:  # it reads how it is protected when it is imported
        os.environ.setdefault("RAY_AUTH_MODE", "token")
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    own = Path(tempfile.mkdtemp(prefix="weir-"))  # for its owner alone; Ray opens what it makes
    atexit.register(shutil.rmtree, own, ignore_errors=True)  # before Ray's, so after Ray ends
    return {
        "num_cpus": num_workers,
        "object_store_memory": _STORE_BYTES,
        "_temp_dir": str(own / "ray"),
    }


def _part(
    shape: CriticShape,
    optimizer: CriticOptimizer,
    ensemble: Ensemble,
    batches: list[Minibatch],
    device: str,
) -> Ensemble:
    """Train some critics in a worker, computing as the curator does."""
    forbid_core_dumps()  # one that is not started by fork is dumpable again
    torch.set_flush_denormal(True)
    torch.set_num_threads(1)
    there = _moved(ensemble, torch.device(device))
    sent = [Minibatch(**dict(_tensors(batch, torch.device(device)))) for batch in batches]
    return _moved(update(shape, optimizer, there, sent), torch.device("cpu"))


def _tensors(batch: Minibatch, device: torch.device) -> Iterator[tuple[str, Tensor]]:
    for name in Minibatch.__slots__:
        yield name, getattr(batch, name).to(device)


def _cut_batch(batch: Minibatch, some: slice) -> Minibatch:
    cpu = torch.device("cpu")
    return replace(
        Minibatch(**dict(_tensors(batch, cpu))),
        records_KRD=batch.records_KRD[some].to(cpu).clone(),
        record_labels_KRL=batch.record_labels_KRL[some].to(cpu).clone(),
        mixing_KR=batch.mixing_KR[some].to(cpu).clone(),
    )


def _cut_ensemble(ensemble: Ensemble, some: slice) -> Ensemble:
    return _of_parts(ensemble, lambda value: value[some].cpu().clone())


def _moved(ensemble: Ensemble, device: torch.device) -> Ensemble:
    return _of_parts(ensemble, lambda value: value.to(device))


def _of_parts(ensemble: Ensemble, made: Any) -> Ensemble:
    critics, means, squares = (
        {name: made(value) for name, value in part.items()}
        for part in (ensemble.critics, ensemble.means, ensemble.squares)
    )
    return Ensemble(critics=critics, means=means, squares=squares, num_updates=ensemble.num_updates)


def _joined(parts: list[Ensemble], device: torch.device) -> Ensemble:
    def whole(kind: str) -> Parameters:
        tables = [getattr(part, kind) for part in parts]
        return {name: torch.cat([table[name] for table in tables]).to(device) for name in tables[0]}

    return Ensemble(
        critics=whole("critics"),
        means=whole("means"),
        squares=whole("squares"),
        num_updates=parts[0].num_updates,
    )
