"""Critics on two workers of this machine learn what they learn in one process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from curator.divergences import placement
from curator.divergences.adam import Ensemble
from curator.divergences.critic_training import CriticOptimizer, update
from curator.divergences.critics import initial_critics
from curator.divergences.placement import place_critics, placed_update
from curator.divergences.ray_workers import RayUnavailable
from tests.unit.curator.divergences.test_critics import CONV, MLP, K, minibatch

OPTIMIZER = CriticOptimizer(learning_rate=1e-3, penalty=10.0)


@pytest.fixture
def workers() -> Iterator[None]:
    ray = pytest.importorskip("ray")
    place_critics(2)
    yield
    placement._chosen.clear()
    ray.shutdown()


@pytest.mark.filterwarnings("ignore")  # of a package that tests start and do not own
def test_two_workers_are_as_one_process(workers: None) -> None:
    for shape in (MLP, CONV):
        batch, first = minibatch(shape), Ensemble.start(initial_critics(shape, K, 1))
        here = update(shape, OPTIMIZER, first, [batch] * 20)
        there = placed_update(shape, OPTIMIZER, first, [batch] * 20)
        assert there.num_updates == here.num_updates == 20
        for name, value in here.critics.items():
            torch.testing.assert_close(there.critics[name], value, rtol=1e-6, atol=1e-6)
            torch.testing.assert_close(there.squares[name], here.squares[name])


def test_without_workers_critics_stay_here(monkeypatch: pytest.MonkeyPatch) -> None:
    place_critics(0)
    first = Ensemble.start(initial_critics(MLP, K, 1))
    found = placed_update(MLP, OPTIMIZER, first, [minibatch(MLP)])
    wanted = update(MLP, OPTIMIZER, first, [minibatch(MLP)])
    assert all(torch.equal(found.critics[name], wanted.critics[name]) for name in wanted.critics)
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    with pytest.raises(RayUnavailable, match="pip install"):
        place_critics(2)
    assert not placement._chosen
