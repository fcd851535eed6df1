"""Epsilon of one declared run alone by privacy loss distributions: information, never a charge.

It is tighter than the ledger's rule because every parameter, the number of steps included, is
fixed in advance; it is no guarantee for a run that was stopped early by choice, nor for several.
"""

from __future__ import annotations

import functools
import math
from typing import Final

from curator.accounting.cost import UNIT, event_cost
from curator.accounting.hidden_critic import hidden_part_pld_epsilon
from curator.accounting.orders import ORDERS
from curator.accounting.profile import grid_interval
from curator.accounting.rdp import epsilon_from_rdp
from curator.accounting.sampled_sum_pld import (
    sampled_sum_pld_epsilon,
    sums_then_gaussian_pld_epsilon,
)
from curator.accounting.sliced_pld import sliced_pld_epsilon
from curator.privacy.event import (
    HiddenPartEvent,
    NoEvent,
    PrivacyEvent,
    SampledGaussianEvent,
    SampledSlicedGaussianEvent,
    SampledSumEvent,
    SlicedGaussianEvent,
    SumsThenGaussianEvent,
    check_num_steps,
)

_MIN_NOISE_MULTIPLIER: Final = 0.2  # below, one step's losses would fill gigabytes
_MAX_EPSILON: Final = 50.0  # above, the composed losses would; nobody needs the digits
_FINE: Final = 5e-5
_COARSE: Final = 1e-4  # finer than 2e-5 the add direction drifts by cancellation
_FINE_FROM: Final = 0.5
_BLOCK: Final = 16
_FEW: Final = 3000  # dp-accounting keeps at most a thousand losses as a small distribution
_MAX_STEPS: Final = 20_000_000
_FFT_ERROR: Final = 1e-14  # of the composed probabilities, per step; delta must be above it


@functools.lru_cache(maxsize=1024)
def pld_epsilon(event: PrivacyEvent, num_steps: int, delta: float) -> float:
    """Return an upper bound of the epsilon of `num_steps` releases that were declared in advance.

    Every loss is rounded pessimistically and both directions of add-or-remove-one are composed;
    the larger counts. Where the distribution would be too large to compute, the bound from the
    Renyi divergence is returned, which is higher and also holds. Of the sliced Gaussian the average
    over the projections' lengths is a quadrature, accurate but not proved to err upward.

    Args:
        event: One release.
        num_steps: The declared number of releases.
        delta: In (0, 1).

    Returns:
        A finite epsilon, at least 0.

    Raises:
        ValueError: If `num_steps` or `delta` is out of range.

    References:
        [doroshenko:22]; [zhu:22], Theorem 11.
    """
    check_num_steps(num_steps)
    if not 0 < delta < 1:
        msg = "delta must be in (0, 1)"
        raise ValueError(msg)
    if isinstance(event, NoEvent):
        return 0.0
    if isinstance(event, SlicedGaussianEvent | SampledSlicedGaussianEvent):
        return _sliced(event, num_steps, delta)
    if isinstance(event, SampledSumEvent | SumsThenGaussianEvent):
        return _sum(event, num_steps, delta)
    if isinstance(event, HiddenPartEvent):
        return _hidden_part(event, num_steps, delta)
    rate = float(event.sampling_rate) if isinstance(event, SampledGaussianEvent) else 1.0
    z = event.noise_multiplier
    ceiling = renyi_epsilon(event, num_steps, delta)
    if rate >= 1:  # Gaussians compose exactly
        z, num_steps = z / math.sqrt(num_steps) * (1 - 1e-12), 1
    computable = z >= _MIN_NOISE_MULTIPLIER and ceiling <= _MAX_EPSILON
    if not computable or num_steps > _MAX_STEPS or num_steps * _FFT_ERROR > delta:
        return ceiling
    return min(ceiling, _composed(rate, z, num_steps, delta))


def renyi_epsilon(event: PrivacyEvent, num_steps: int, delta: float) -> float:
    """Return the epsilon of releases declared in advance from the charged costs, best order.

    The order may be chosen with the full delta only because nothing is chosen adaptively.
    """
    total = event_cost(event) * num_steps
    if total.is_zero:
        return 0.0
    return min(
        epsilon_from_rdp(alpha, unit / UNIT, delta)
        for alpha, unit in zip(ORDERS, total.units, strict=True)
        if unit is not None
    )


def _sliced(
    event: SlicedGaussianEvent | SampledSlicedGaussianEvent, num_steps: int, delta: float
) -> float:
    """Return the epsilon of the sliced Gaussian, or the Renyi bound where it is not computable."""
    base = event.base if isinstance(event, SampledSlicedGaussianEvent) else event
    ceiling = renyi_epsilon(event, num_steps, delta)
    length = math.sqrt(base.num_projections / base.dimension)
    computable = base.noise_multiplier >= _MIN_NOISE_MULTIPLIER * length and ceiling <= _MAX_EPSILON
    few = num_steps <= _MAX_STEPS and num_steps * _FFT_ERROR <= delta
    if not computable or not few:
        return ceiling
    interval = grid_interval(ceiling, num_steps, delta)
    return min(ceiling, sliced_pld_epsilon(event, num_steps, delta, interval))


def _sum(event: SampledSumEvent | SumsThenGaussianEvent, num_steps: int, delta: float) -> float:
    """Return the epsilon of sampled sums, or the Renyi bound where it is not computable."""
    sums = event if isinstance(event, SampledSumEvent) else event.sums
    ceiling = renyi_epsilon(event, num_steps, delta)
    num_releases = num_steps * (sums.num_releases + (sums is not event))
    computable = (
        sums.noise_multiplier >= 2 * _MIN_NOISE_MULTIPLIER  # that of an overflow is half of it
        and event.noise_multiplier >= _MIN_NOISE_MULTIPLIER
        and ceiling <= _MAX_EPSILON
        and num_releases <= _MAX_STEPS
        and num_releases * _FFT_ERROR <= delta
    )
    if not computable:
        return ceiling
    interval = grid_interval(ceiling, num_releases, delta)
    if isinstance(event, SampledSumEvent):
        return min(ceiling, sampled_sum_pld_epsilon(event, num_steps, delta, interval))
    return min(ceiling, sums_then_gaussian_pld_epsilon(event, num_steps, delta, interval))


def _hidden_part(event: HiddenPartEvent, num_steps: int, delta: float) -> float:
    """Return the epsilon of hidden parts, or the Renyi bound where it is not computable."""
    ceiling = renyi_epsilon(event, num_steps, delta)
    computable = event.noise_multiplier >= _MIN_NOISE_MULTIPLIER
    if not computable or num_steps > _MAX_STEPS or num_steps * _FFT_ERROR > delta:
        return ceiling
    return min(ceiling, hidden_part_pld_epsilon(event, num_steps, delta))


def _composed(rate: float, noise_multiplier: float, num_steps: int, delta: float) -> float:
    """Return the epsilon of the composed distributions, the worse direction of the two."""
    from dp_accounting.pld import privacy_loss_distribution  # a second to import

    interval = _FINE if noise_multiplier >= _FINE_FROM else _COARSE
    one = privacy_loss_distribution.from_gaussian_mechanism(
        noise_multiplier,
        pessimistic_estimate=True,
        value_discretization_interval=interval,
        sampling_prob=rate,
    )
    if num_steps < _BLOCK or _loss_range(rate, noise_multiplier) > _FEW * interval:
        total = one.self_compose(num_steps)
    else:
        # dp-accounting raises the size of a small distribution to the power num_steps, in digits:
        # a block of steps first makes it large.
        whole, rest = divmod(num_steps, _BLOCK)
        total = one.self_compose(_BLOCK, tail_mass_truncation=0).self_compose(whole)
        total = total.compose(one.self_compose(rest)) if rest else total
    return max(0.0, float(total.get_epsilon_for_delta(delta)))


def _loss_range(q: float, z: float) -> float:
    """Return about the width of one step's losses, from -10 to +10 standard deviations."""
    if q >= 1:
        return 20.0 / z
    low = math.log1p(q * math.expm1(min(700.0, (-20.0 * z - 1.0) / (2.0 * z * z))))
    high = math.log1p(q * math.expm1(min(700.0, (20.0 * z + 1.0) / (2.0 * z * z))))
    return high - low
