"""What DP-CGAN costs as published: claimed 9.6."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.papers.accounting.cgan import PublishedCgan, cgan_bounds
from benchmarks.papers.accounting.settings import read_setting
from benchmarks.papers.accounting.words import setting_lines

PARAMETERS: dict[str, Any] = {
    "sampling_rate": 600 / 60000,
    "noise_multiplier": 1.12,
    "clip_norm": 1.1,
    "num_tensors": 4,
}


def declared(num_steps: int = 30_304, **changes: Any) -> Any:
    table = {
        "mechanism": "dp-cgan-published",
        "parameters": PARAMETERS | changes,
        "num_steps": num_steps,
    }
    return read_setting(table, {"epsilon": 10.0, "delta": 1e-5})


def test_the_published_run_costs_six_times_what_it_claims() -> None:
    bounds = cgan_bounds(PublishedCgan(**PARAMETERS), 30_304, 1e-5)
    assert bounds.claimed == 9.6
    assert bounds.reported == pytest.approx(9.6, rel=1e-3)
    assert bounds.one_tensor == pytest.approx(11.2, rel=1e-2)
    assert bounds.renyi == pytest.approx(65.0, rel=1e-2)
    assert bounds.losses == pytest.approx(59.0, rel=1e-2)
    text = "\n".join(setting_lines(declared()))
    for piece in ("does not fit", "claimed 9.6", "65.0 by Renyi", "59.0 by loss distributions"):
        assert piece in text


def test_other_parameters_have_no_claim_and_one_tensor_costs_one_tensor() -> None:
    told = declared(100, num_tensors=1).told
    bounds = cgan_bounds(told, 100, 1e-5)
    assert bounds.claimed is None
    assert bounds.renyi == bounds.one_tensor > bounds.losses


def test_other_runs_are_not_compared() -> None:
    table = {"mechanism": "gaussian", "parameters": {"noise_multiplier": 1.0}, "num_steps": 1}
    setting = read_setting(table, {"epsilon": 10.0, "delta": 1e-5})
    assert setting.told is None
    assert "published" not in "".join(setting_lines(setting))


@pytest.mark.parametrize(
    "changes",
    [
        {"num_tensors": 0},
        {"num_tensors": 100},
        {"noise_multiplier": 0.0},
        {"clip_norm": "1"},
        {"sampling_rate": 1.0},
    ],
)
def test_numbers_out_of_range_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="must be"):
        PublishedCgan(**(PARAMETERS | changes))


def test_an_absurd_number_of_steps_is_refused() -> None:
    with pytest.raises(ValueError, match="num_steps"):
        cgan_bounds(PublishedCgan(**PARAMETERS), 1 << 21, 1e-5)
