"""Rows that only a replace-one ledger would need: computed by the tests' own functions.

They guard the numbers from which such a ledger would start, and what the design says about them:
the replace-one curve lies above the add-or-remove curve that this version charges.
"""

from __future__ import annotations

import math
from typing import Any

import mpmath
import pytest

from curator.accounting.events.sampled_gaussian import fractional_rdp_bound, sampled_gaussian_rdp
from curator.accounting.hypergeometric import log_1f1
from curator.accounting.profile_composition import Floats, composed_epsilon, remove_profile
from curator.accounting.rdp import gaussian_rdp as plain_rdp
from tests.reference import golden_rows
from tests.reference_accounting import replace_one
from tests.reference_accounting.contour import contour_epsilon
from tests.reference_accounting.mixture import Mixture, gaussian, sliced

pytestmark = pytest.mark.golden


def rows(mechanism: str, method: str) -> list[dict[str, Any]]:
    found = [row for row in golden_rows(method) if row["mechanism"] == mechanism]
    assert found, "no golden row"
    return found


def agrees(row: dict[str, Any], value: float) -> bool:
    tolerance = row.get("atol", 0.0) + row.get("rtol", 0.0) * abs(row["value"])
    return bool(abs(value - row["value"]) <= tolerance)


def mixture_of(p: dict[str, Any]) -> Mixture:
    if "noise_multiplier" in p:
        return gaussian(p["q"], p["noise_multiplier"])
    return sliced(p["q"], p["d"], p["k"], p["noise_std"] / p["Delta2"])


def moments(p: dict[str, Any]) -> dict[int, float]:
    z = p["noise_std"] / p["Delta2"]
    return {
        j: p["k"] * log_1f1(p["d"] / 2, j * (j - 1) / (2 * z * z)) for j in range(2, p["alpha"] + 1)
    }


def test_tight() -> None:
    whole_batch = "gaussian_wor_replace_or_poisson_replace(whole-batch clip)"
    found = rows(whole_batch, "rdp_per_step tight") + rows("swd_wor_replace_tight", "rdp_per_step")
    for row in found:
        p = row["params"]
        mixture = mixture_of(p)
        tight = mixture.rdp(p["alpha"], "replace")
        assert agrees(row, tight), row["id"]
        assert tight > mixture.rdp(p["alpha"], "remove"), row["id"]


def test_closed_form_lies_between() -> None:
    for row in rows("swd_wor_replace_closed", "rdp_per_step"):
        p = row["params"]
        closed = replace_one.closed_form_rdp(p["q"], p["alpha"], moments(p))
        assert agrees(row, closed), row["id"]
        assert mixture_of(p).rdp(p["alpha"], "replace") <= closed
        assert closed <= replace_one.general_rdp(p["q"], p["alpha"], moments(p))


def test_general_theorem() -> None:
    for row in rows("swd_wor_replace_WangThm9", "rdp_per_step"):
        p = row["params"]
        found = replace_one.general_rdp(p["q"], p["alpha"], moments(p))
        assert agrees(row, found), row["id"]


def test_theorem_for_the_gaussian() -> None:
    for row in rows("gaussian_wor_replace", "rdp_per_step WBK19 Thm 27"):
        p = row["params"]
        found = replace_one.gaussian_rdp(p["q"], p["alpha"], p["noise_multiplier"])
        assert agrees(row, found), row["id"]
        assert found >= mixture_of(p).rdp(p["alpha"], "replace")


def test_privacy_loss_distributions() -> None:
    whole_batch = rows(
        "poisson_or_wor_gaussian_wholebatchclip", "pld of profile q*d_G(1+(t-1)/q) both sides"
    )
    for row in whole_batch + rows("swd_wor_replace_tight", "pld"):
        p = row["params"]
        mixture = mixture_of(p)
        exact = contour_epsilon(mixture, p["T"], p["delta"], "replace", 1.0)
        assert agrees(row, exact), row["id"]

        def profile(losses: Floats, mixture: Mixture = mixture) -> Floats:
            return remove_profile(losses, mixture.q, mixture.shifts, mixture.weights)

        above = composed_epsilon(profile, profile, p["T"], p["delta"], 2e-5)
        assert exact - 1e-6 <= above <= exact + 3e-3, row["id"]


def test_steps_that_a_target_affords_exactly() -> None:
    for row in rows("poisson_gaussian", "pld exact"):
        p = row["params"]
        mixture = gaussian(p["q"], p["noise_multiplier"])
        for steps, fits in (
            (row["value"] - row["atol"], True),
            (row["value"] + row["atol"], False),
        ):
            epsilon = contour_epsilon(mixture, round(steps), p["delta"], "remove", p["eps"])
            assert (epsilon <= p["eps"]) == fits, row["id"]


def test_contour_against_the_pessimistic_rows() -> None:
    for row in rows("poisson_gaussian", "pld_exact(remove dominates)"):
        p = row["params"]
        exact = contour_epsilon(mixture_of(p), p["T"], p["delta"], "remove", 1.0)
        assert math.isclose(exact, row["value"], abs_tol=2e-5), row["id"]


def test_discrete_gaussian_on_a_line() -> None:
    for row in rows("discrete_gaussian_1d", "rdp"):
        p = row["params"]
        exact = discrete_rdp(p["s"], p["shift"], p["alpha"], p["q"])
        assert agrees(row, exact), row["id"]
        z, q, alpha = p["s"] / p["shift"], p["q"], p["alpha"]
        if q == 1:
            charged = plain_rdp(z, alpha)
        elif alpha == int(alpha):
            charged = sampled_gaussian_rdp(q, z, int(alpha))
        else:
            charged = fractional_rdp_bound(q, z, alpha)
        assert charged >= exact * (1 - 1e-10), row["id"]


def discrete_rdp(s: float, shift: int, alpha: float, q: float) -> float:
    """By definition: a sum over the integers in 40 digits."""
    with mpmath.workdps(40):
        reach = math.ceil(14 * s + alpha * shift)
        variance = mpmath.mpf(s) ** 2
        weights = {n: mpmath.exp(-mpmath.mpf(n * n) / (2 * variance)) for n in range(-reach, reach)}
        total = mpmath.fsum(weights.values())

        def ratio(n: int) -> mpmath.mpf:
            return 1 - q + q * mpmath.exp(mpmath.mpf(2 * n * shift - shift**2) / (2 * variance))

        moment = mpmath.fsum(ratio(n) ** mpmath.mpf(alpha) * w for n, w in weights.items()) / total
        return float(mpmath.log(moment) / (mpmath.mpf(alpha) - 1))
