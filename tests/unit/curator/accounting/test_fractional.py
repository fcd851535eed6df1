from __future__ import annotations

import numpy as np
import pytest

from curator.accounting.fractional import fractional_rdp_bound
from curator.accounting.rdp import rdp_at
from curator.privacy.event import SampledGaussianEvent, SamplingRate

GRID = [(q, z) for q in (1e-6, 1e-3, 0.02, 0.2, 0.5, 0.9) for z in (0.3, 0.5, 0.8, 1.1, 3.0, 30.0)]


@pytest.mark.parametrize("alpha", [1.5, 2.5, 3.5])
def test_never_below_the_divergence(alpha: float) -> None:
    for q, z in GRID:
        event = SampledGaussianEvent(sampling_rate=SamplingRate.at_least(q), noise_multiplier=z)
        truth = rdp_at(event, alpha)
        assert fractional_rdp_bound(float(event.sampling_rate), z, alpha) >= truth * (1 - 1e-9)


@pytest.mark.parametrize("alpha", [1.5, 2.5, 3.5])
def test_close_where_training_happens(alpha: float) -> None:
    for q, z in ((1 / 1200, 1.1), (0.00123, 0.8)):
        event = SampledGaussianEvent(sampling_rate=SamplingRate.at_least(q), noise_multiplier=z)
        assert fractional_rdp_bound(q, z, alpha) == pytest.approx(rdp_at(event, alpha), rel=6e-4)


@pytest.mark.parametrize(("alpha", "fourth"), [(1.5, 1 / 16), (2.5, 0.0), (3.5, 5 / 16)])
def test_the_polynomial_lies_above_the_power(alpha: float, fourth: float) -> None:
    # The inequality that the quartic rests on, on a grid fine around the touching point.
    y = np.concatenate([np.linspace(-1, 3, 4001), np.logspace(0.5, 6, 500)])
    second = alpha * (alpha - 1) / 2
    third = second * (alpha - 2) / 3
    polynomial = 1 + alpha * y + second * y**2 + third * y**3 + fourth * y**4
    power = (1 + y) ** alpha
    assert np.all(polynomial - power >= -1e-13 * np.maximum(1.0, polynomial))


def test_other_orders_get_the_chord() -> None:
    event = SampledGaussianEvent(sampling_rate=SamplingRate.at_least(0.01), noise_multiplier=1.0)
    assert fractional_rdp_bound(0.01, 1.0, 5.5) >= rdp_at(event, 5.5)
