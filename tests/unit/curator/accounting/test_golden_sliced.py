"""The sliced Gaussian against values computed independently, each to its stated tolerance."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from curator.accounting.epsilon_alone import pld_epsilon
from curator.accounting.events.sliced_gaussian import (
    SampledSlicedGaussianEvent,
    SlicedGaussianEvent,
)
from curator.accounting.hypergeometric import log_1f1
from curator.accounting.rdp import epsilon_from_rdp, rdp_at
from curator.privacy.event_numbers import SamplingRate
from tests.reference import golden_rows
from tests.reference_accounting.contour import contour_epsilon
from tests.reference_accounting.mixture import sliced
from tests.reference_accounting.orders import parse_orders
from tests.reference_accounting.replace_one import closed_form_rdp

pytestmark = pytest.mark.golden

INTEGERS = [float(a) for a in range(2, 65)]


def multiplier(p: dict[str, Any]) -> float:
    return float(p["noise_std"]) / float(p["Delta2"])


def base(p: dict[str, Any], z: float | None = None) -> SlicedGaussianEvent:
    return SlicedGaussianEvent(
        dimension=p["d"],
        num_projections=p["k"],
        noise_multiplier=multiplier(p) if z is None else z,
    )


def sampled(p: dict[str, Any], z: float | None = None) -> SampledSlicedGaussianEvent:
    return SampledSlicedGaussianEvent(
        sampling_rate=SamplingRate.at_least(p["q"]), base=base(p, z), overflow_probability=0.0
    )


def rows(mechanism: str, method: str) -> list[dict[str, Any]]:
    found = [row for row in golden_rows(method) if row["mechanism"] == mechanism]
    assert found, "no golden row"
    return found


def agrees(row: dict[str, Any], value: float) -> bool:
    tolerance = row.get("atol", 0.0) + row.get("rtol", 0.0) * abs(row["value"])
    return bool(abs(value - row["value"]) <= tolerance)


def renyi_epsilon(
    orders: list[float], rdp: Callable[[float], float], steps: int, delta: float
) -> float:
    return min(epsilon_from_rdp(a, rdp(a) * steps, delta) for a in orders)


def test_log_1f1() -> None:
    for row in rows("log_1F1(1/2;d/2;t)", "log1F1"):
        found = log_1f1(row["params"]["d"] / 2, row["params"]["t"])
        assert agrees(row, found), row["id"]
        assert math.isclose(found, row["value"], rel_tol=1e-13), row["id"]


def test_one_release_of_everything() -> None:
    for row in rows("swd_base", "rdp_per_release"):
        assert agrees(row, rdp_at(base(row["params"]), row["params"]["alpha"])), row["id"]


def test_one_release_of_a_sample() -> None:
    for row in rows("swd_poisson_addremove", "rdp_per_step"):
        assert agrees(row, rdp_at(sampled(row["params"]), row["params"]["alpha"])), row["id"]


def test_composed() -> None:
    for row in rows("swd_poisson_addremove", "rdp+CKS"):
        p = row["params"]
        event = sampled(p)

        def rdp(alpha: float, event: SampledSlicedGaussianEvent = event) -> float:
            return rdp_at(event, alpha)

        epsilon = renyi_epsilon(parse_orders(p["orders"]), rdp, p["T"], p["delta"])
        assert agrees(row, epsilon), row["id"]


def test_privacy_loss_distributions() -> None:
    for row in rows("swd_poisson_addremove", "pld"):
        p = row["params"]
        reported = pld_epsilon(sampled(p), p["T"], p["delta"])
        assert agrees(row, reported), row["id"]
        mixture = sliced(p["q"], p["d"], p["k"], multiplier(p))
        exact = contour_epsilon(mixture, p["T"], p["delta"], "remove", reported)
        assert math.isclose(exact, row["value"], abs_tol=2e-5), row["id"]
        assert exact <= reported + 1e-6, row["id"]


def test_noise_that_a_target_needs_by_renyi_divergence() -> None:
    for row in rows("swd", "sigma needed"):
        p = row["params"]

        def poisson(z: float, p: dict[str, Any] = p) -> float:
            event = sampled(p, z)
            return renyi_epsilon(INTEGERS, lambda a: rdp_at(event, a), p["T"], p["delta"])

        def closed(z: float, p: dict[str, Any] = p) -> float:
            moments = {
                j: p["k"] * log_1f1(p["d"] / 2, j * (j - 1) / (2 * z * z)) for j in range(2, 65)
            }
            return renyi_epsilon(
                INTEGERS, lambda a: closed_form_rdp(p["q"], int(a), moments), p["T"], p["delta"]
            )

        brackets(row, "poisson_rdp", poisson)
        brackets(row, "wor_replace_closed_rdp", closed)


def test_noise_that_a_target_needs_by_privacy_loss_distributions() -> None:
    for row in rows("swd", "sigma needed"):
        p = row["params"]

        def poisson(z: float, p: dict[str, Any] = p) -> float:
            mixture = sliced(p["q"], p["d"], p["k"], z)
            return contour_epsilon(mixture, p["T"], p["delta"], "remove", p["eps"])

        def replace_one(z: float, p: dict[str, Any] = p) -> float:
            mixture = sliced(p["q"], p["d"], p["k"], z)
            return contour_epsilon(mixture, p["T"], p["delta"], "replace", p["eps"])

        brackets(row, "poisson_pld", poisson)
        brackets(row, "wor_replace_pld", replace_one)


def test_noise_that_a_target_needs_by_the_tight_replace_one_curve() -> None:
    for row in rows("swd", "sigma needed"):
        p = row["params"]

        def tight(z: float, p: dict[str, Any] = p) -> float:
            mixture = sliced(p["q"], p["d"], p["k"], z)
            return renyi_epsilon(INTEGERS, lambda a: mixture.rdp(a, "replace"), p["T"], p["delta"])

        brackets(row, "wor_replace_tight_rdp", tight)


def brackets(row: dict[str, Any], name: str, epsilon_of: Callable[[float], float]) -> None:
    """The noise that reaches the target lies within the tolerance around the row's value."""
    z, target = row["value"][name] / row["params"]["Delta2"], row["params"]["eps"]
    assert epsilon_of(z * (1 + row["rtol"])) <= target, (row["id"], name)
    assert epsilon_of(z * (1 - row["rtol"])) >= target, (row["id"], name)
