from __future__ import annotations

import math

import pytest

from curator.accounting.events.gaussian import GaussianEvent
from curator.accounting.events.none import NoEvent
from curator.accounting.events.sampled_gaussian import SampledGaussianEvent, sampled_gaussian_rdp
from curator.accounting.rdp import epsilon_from_rdp, rdp_at
from curator.privacy.event_numbers import SamplingRate


def sampled(q: float, z: float) -> SampledGaussianEvent:
    return SampledGaussianEvent(sampling_rate=SamplingRate.at_least(q), noise_multiplier=z)


def test_nothing_costs_nothing() -> None:
    assert rdp_at(NoEvent(), 2.0) == 0.0


@pytest.mark.parametrize("alpha", [1.01, 2.0, 3.5, 512.0])
def test_gaussian(alpha: float) -> None:
    assert rdp_at(GaussianEvent(noise_multiplier=2.0), alpha) == pytest.approx(alpha / 8)
    assert rdp_at(sampled(1.0, 2.0), alpha) == pytest.approx(alpha / 8)


@pytest.mark.parametrize("alpha", [1.0, 0.5, math.nan, math.inf, -3.0])
def test_an_order_is_above_one(alpha: float) -> None:
    with pytest.raises(ValueError, match="alpha"):
        rdp_at(NoEvent(), alpha)


def test_order_two_in_closed_form() -> None:
    q, z = 0.03, 0.9
    assert rdp_at(sampled(q, z), 2) == pytest.approx(
        math.log1p(q * q * math.expm1(1 / z**2)), rel=1e-13
    )


@pytest.mark.parametrize("alpha", [2, 3, 8, 20])
@pytest.mark.parametrize(("q", "z"), [(0.01, 1.0), (0.3, 2.0), (0.001, 0.5)])
def test_series_and_quadrature_agree(q: float, z: float, alpha: int) -> None:
    at_integer = sampled_gaussian_rdp(q, z, alpha)
    beside = rdp_at(sampled(q, z), alpha * (1 + 1e-12))
    assert beside == pytest.approx(at_integer, rel=1e-9)


@pytest.mark.parametrize("alpha", [1.5, 2, 3.5, 4.5, 16, 64])
@pytest.mark.parametrize(("q", "z"), [(0.01, 1.0), (1 / 1200, 1.1), (0.05, 4.0)])
def test_opacus_agrees(q: float, z: float, alpha: float) -> None:
    from opacus.accountants.analysis import rdp as opacus_rdp  # here: it imports all of Opacus

    theirs = opacus_rdp.compute_rdp(q=q, noise_multiplier=z, steps=1, orders=[alpha])
    assert rdp_at(sampled(q, z), alpha) == pytest.approx(float(theirs[0]), rel=1e-6)


@pytest.mark.parametrize("alpha", [2, 64, 512])
@pytest.mark.parametrize("q", [2.0**-64, 1e-9, 0.5, 1 - 2.0**-53])
@pytest.mark.parametrize("z", [1e-2, 0.3, 100.0, 1e6])
def test_extremes_are_finite_positive_and_below_no_sampling(q: float, z: float, alpha: int) -> None:
    rdp = sampled_gaussian_rdp(q, z, alpha)
    assert 0 < rdp <= alpha / (2 * z * z) * (1 + 1e-10)


def test_conversion_is_clamped() -> None:
    assert epsilon_from_rdp(32, 0.0, 0.9) == 0.0
