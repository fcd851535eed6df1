"""Every body is measured; one that is refused is told with its error and what serves instead."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch

from curator.config import ComputeSection, CuratorConfig
from curator.divergences import backend, device
from curator.divergences.backend import Backend
from curator.divergences.cost import LabelledCost
from curator.divergences.schedule import Schedule
from curator.divergences.sinkhorn import DenseSinkhorn
from curator.doctor.bodies import bodies
from curator.doctor.finding import Finding, State
from curator.doctor.subject import Subject


@pytest.fixture(autouse=True)
def _as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    threads = torch.get_num_threads()
    monkeypatch.setattr(device, "_chosen", {})
    monkeypatch.setattr(backend, "_chosen", {})
    yield
    torch.set_num_threads(threads)


def look(solver: Backend = Backend.AUTO, where: str = "cpu") -> Finding:
    config = CuratorConfig(compute=ComputeSection(solver=solver, device=where))
    return bodies(replace(Subject.of(None), config=config))


def stand_in(monkeypatch: pytest.MonkeyPatch, factor: float) -> None:
    """Let plain torch with another weight be the compiled body."""

    def made(cost: LabelledCost, schedule: Schedule) -> DenseSinkhorn:
        scaled = LabelledCost(l1_weight=factor * cost.l1_weight, label_scale=cost.label_scale)
        return DenseSinkhorn(cost=scaled, schedule=schedule)

    monkeypatch.setattr(backend, "find_spec", lambda _: object())
    monkeypatch.setattr(backend, "_compiled", made)


def test_both_bodies_are_measured_and_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, 1.0)
    finding = look()
    assert finding.state is State.OK
    assert finding.words.startswith("numba serves on cpu")
    measured = finding.facts["bodies"]
    assert isinstance(measured, list)
    assert [one["body"] for one in measured] == ["numba", "torch"]
    for one in measured:
        assert 0 < one["error"] < one["allowed"]
        assert one["seconds"] > 0


def test_nothing_is_chosen_by_looking(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, 1.0)
    look()
    assert not backend._chosen


def test_a_body_that_is_refused_is_told_with_its_error(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, 1.1)
    finding = look()
    assert finding.state is State.ATTENTION
    assert finding.words.startswith("torch serves on cpu")
    measured = finding.facts["bodies"]
    assert isinstance(measured, list)
    assert f"numba differs from float64 by {measured[0]['error']:.1e}" in finding.words
    assert "refused" in finding.words
    wanted = look(Backend.NUMBA)
    assert wanted.state is State.FAULT
    assert "'auto'" in wanted.next_step


def test_a_body_that_cannot_be_compiled_shows_its_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: LabelledCost, __: Schedule) -> DenseSinkhorn:
        msg = "no room for the cache\nand more"
        raise OSError(msg)

    stand_in(monkeypatch, 1.0)
    monkeypatch.setattr(backend, "_compiled", broken)
    finding = look()
    assert finding.state is State.ATTENTION
    assert "numba cannot be used: OSError: no room for the cache;" in finding.words


def test_a_body_that_is_not_installed_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "find_spec", lambda _: None)
    finding = look()
    assert finding.state is State.ATTENTION
    assert finding.next_step.startswith("pip install numba")


def test_a_card_that_is_not_there_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    finding = look(where="cuda")
    assert finding.state is State.FAULT
    assert "compute.device" in finding.words
