"""Which device is chosen, which body goes with it, and what a steward is told without it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from curator.cli import ExitCode, main
from curator.divergences import agreement, backend, device
from curator.divergences.backend import Backend, BackendUnavailable, choose_backend, dense_solver
from curator.divergences.cost import LabelledCost
from curator.divergences.device import DeviceUnavailable, choose_device, compute_device
from curator.divergences.schedule import Schedule, published
from curator.divergences.sinkhorn import DenseSinkhorn

COST = LabelledCost(l1_weight=1.0, label_scale=2.0)


@pytest.fixture(autouse=True)
def _no_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "_chosen", {})
    monkeypatch.setattr(backend, "_chosen", {})


def with_cards(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: number)
    monkeypatch.setattr(device, "multiplies_exactly", lambda _: True)


def on_a_card(monkeypatch: pytest.MonkeyPatch, solver: Any) -> None:
    """Let a body that computes here stand in the place of one on a card."""
    with_cards(monkeypatch, 1)
    choose_device("cuda")
    monkeypatch.setattr(backend, "find_spec", lambda _: object())
    monkeypatch.setattr(backend, "_compiled", solver)
    monkeypatch.setattr(
        backend,
        "disagreement",
        lambda one, problem, _: agreement.disagreement(one, problem, torch.device("cpu")),
    )


def plain(cost: LabelledCost, schedule: Schedule) -> DenseSinkhorn:
    return DenseSinkhorn(cost=cost, schedule=schedule)


def test_the_processor_serves_unless_something_else_is_chosen() -> None:
    assert compute_device() == torch.device("cpu")
    assert choose_device("cpu") == compute_device() == torch.device("cpu")


def test_a_card_that_is_there_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    with_cards(monkeypatch, 2)
    assert choose_device("cuda:1") == torch.device("cuda:1")
    assert compute_device() == torch.device("cuda:1")


@pytest.mark.parametrize(("wanted", "number"), [("cuda", 0), ("cuda:2", 2)])
def test_a_card_that_is_not_there_is_refused(
    monkeypatch: pytest.MonkeyPatch, wanted: str, number: int
) -> None:
    with_cards(monkeypatch, number)
    with pytest.raises(DeviceUnavailable, match=f"compute.device = '{wanted}'"):
        choose_device(wanted)
    assert compute_device() == torch.device("cpu")


def test_integers_are_multiplied_exactly_here() -> None:
    assert device.multiplies_exactly(torch.device("cpu"))


@pytest.mark.parametrize("lost_bits", [4, 29])
def test_a_product_that_is_rounded_is_noticed(
    monkeypatch: pytest.MonkeyPatch, lost_bits: int
) -> None:
    exact = torch.Tensor.__matmul__

    def rounded(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        product = exact(left, right)
        if product.dtype is not torch.float64:
            return product
        short = 2.0 ** (product.abs().max().log2().ceil() - 53 + lost_bits)
        return (product / short).round() * short

    monkeypatch.setattr(torch.Tensor, "__matmul__", rounded)
    assert not device.multiplies_exactly(torch.device("cpu"))


def test_a_card_whose_products_are_not_exact_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with_cards(monkeypatch, 1)
    monkeypatch.setattr(device, "multiplies_exactly", lambda _: False)
    with pytest.raises(DeviceUnavailable, match="'cuda' cannot be used: its float64 products"):
        choose_device("cuda")

    def broken(_: torch.device) -> bool:
        raise RuntimeError("no kernel image is available")

    monkeypatch.setattr(device, "multiplies_exactly", broken)
    with pytest.raises(DeviceUnavailable, match="does not multiply: no kernel image"):
        choose_device("cuda")
    assert compute_device() == torch.device("cpu")


def test_a_card_cuts_no_factor_short(monkeypatch: pytest.MonkeyPatch) -> None:
    with_cards(monkeypatch, 1)
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        choose_device("cuda")
        assert torch.get_float32_matmul_precision() == "highest"
    finally:
        torch.set_float32_matmul_precision(before)


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ('device = "cuda"', "compute.device = 'cuda' is not there"),
        ('solver = "triton"', "compute.solver = 'triton' cannot be used: it does not run on cpu"),
    ],
)
def test_the_steward_is_told_in_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    key: str,
    words: str,
) -> None:
    with_cards(monkeypatch, 0)
    folder = tmp_path / "c"
    assert main(["init", str(folder)]) == ExitCode.OK
    config = folder / "curator.toml"
    name = key.split()[0]
    lines = [line for line in config.read_text().splitlines() if not line.startswith(f"{name} =")]
    config.write_text("\n".join(lines).replace("[compute]", f"[compute]\n{key}"))
    assert main(["serve", "--dir", str(folder)]) == ExitCode.FAILED
    said = capsys.readouterr().err
    assert words in said
    assert "Traceback" not in said


def test_a_card_has_a_body_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    on_a_card(monkeypatch, plain)
    assert choose_backend(Backend.AUTO).body is Backend.TRITON
    assert choose_backend(Backend.TRITON).body is Backend.TRITON
    assert choose_backend(Backend.TORCH).body is Backend.TORCH
    with pytest.raises(BackendUnavailable, match="does not run on cuda"):
        choose_backend(Backend.NUMBA)


def test_fused_kernels_that_disagree_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(cost: LabelledCost, schedule: Schedule) -> DenseSinkhorn:
        return plain(LabelledCost(l1_weight=1.01, label_scale=cost.label_scale), schedule)

    on_a_card(monkeypatch, wrong)
    assert choose_backend(Backend.AUTO).body is Backend.TORCH
    solver = dense_solver(COST, published(9.0, 0.5), torch.float32)
    assert isinstance(solver, DenseSinkhorn)
    with pytest.raises(BackendUnavailable, match="differ from float64"):
        choose_backend(Backend.TRITON)


def test_fused_kernels_that_give_no_number_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    class Silent:
        def both_gradients(self, first: Any, second: Any) -> tuple[torch.Tensor, torch.Tensor]:
            return first.images_ND * torch.nan, second.images_ND * torch.nan

        def self_gradient(self, points: Any) -> torch.Tensor:
            return torch.zeros_like(points.images_ND)

    on_a_card(monkeypatch, lambda *_: Silent())
    assert choose_backend(Backend.AUTO).body is Backend.TORCH
