"""Published claims, and what this version computes for exactly those workloads."""

from __future__ import annotations

import pytest

from benchmarks.papers.accounting.claims import CLAIMS
from benchmarks.papers.accounting.settings import read_setting
from benchmarks.papers.accounting.words import setting_lines

BUDGET = {"epsilon": 10.0, "delta": 1e-5}


def test_every_claim_has_its_source() -> None:
    assert len({claim.what for claim in CLAIMS}) == len(CLAIMS)
    for claim in CLAIMS:
        assert claim.source
        assert claim.epsilon == 10.0


def test_the_published_workload_is_recognised() -> None:
    parameters = {"sampling_rate": 50 / 60000, "noise_multiplier": 1.1}
    table = {"mechanism": "sampled-gaussian", "parameters": parameters, "num_steps": 1000}
    (line,) = (
        line for line in setting_lines(read_setting(table, BUDGET)) if line.startswith("published")
    )
    assert "DP-Sinkhorn on MNIST" in line
    assert "3,400,000 steps claimed at (10, 1e-05)" in line
    assert "here 9.09 by Renyi, 8.46 by loss distributions" in line


def test_dp_merf_ae_claims_more_than_it_costs() -> None:
    table = {
        "mechanism": "dp-merf-ae-published",
        "parameters": {"num_batches": 120, "noise_multiplier": 0.686},
        "num_steps": 2040,
    }
    text = "\n".join(setting_lines(read_setting(table, BUDGET)))
    assert "6.56 by loss distributions" in text


def test_the_bounds_of_dp_swd_are_beside_the_exact_curve() -> None:
    parameters = {
        "sampling_rate": 0.01,
        "dimension": 64,
        "num_projections": 40,
        "noise_multiplier": 1.2,
        "overflow_probability": 0.0,
    }
    table = {"mechanism": "sampled-sliced-gaussian", "parameters": parameters, "num_steps": 500}
    text = "\n".join(setting_lines(read_setting(table, {"epsilon": 3.0, "delta": 1e-5})))
    assert "Bernstein" in text
    assert "not rigorous" in text


@pytest.mark.parametrize("name", ["laplace", "gs-wgan"])
def test_what_is_not_known_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="mechanism: expected one of"):
        read_setting({"mechanism": name, "parameters": {}}, BUDGET)
