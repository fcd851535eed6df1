from __future__ import annotations

import itertools
import math

import mpmath
import pytest

from curator.accounting.hypergeometric import log_1f1


@pytest.mark.parametrize("t", [1e-13, 1e-3, 0.9, 17.0, 1234.5, 4e4])
@pytest.mark.parametrize("d", [1, 2, 3, 16, 784, 8192, 1 << 20])
def test_forty_digits_agree(d: int, t: float) -> None:
    with mpmath.workdps(40):
        value = mpmath.hyp1f1(mpmath.mpf(0.5), mpmath.mpf(d) / 2, mpmath.mpf(t), maxterms=10**7)
        truth = float(mpmath.log(value))
    assert log_1f1(d / 2, t) == pytest.approx(truth, rel=1e-14)


@pytest.mark.parametrize("t", [1e-9, 1.0, 300.0, 1e6, 1e9])
def test_one_dimension_is_the_exponential(t: float) -> None:
    assert log_1f1(0.5, t) == pytest.approx(t, rel=1e-14)


@pytest.mark.parametrize("d", [784, 8192])
def test_far_out_the_asymptotic_series_agrees(d: int) -> None:
    b, t = d / 2, 1e10
    first = t + math.lgamma(b) - math.lgamma(0.5) + (0.5 - b) * math.log(t)
    assert log_1f1(b, t) == pytest.approx(first + math.log1p((b - 0.5) / (2 * t)), rel=1e-12)


def test_nothing_is_nothing() -> None:
    assert log_1f1(392.0, 0.0) == 0.0


def test_it_grows_where_the_method_changes() -> None:
    # The largest term leaves the first one at about t = b + sqrt(2 b).
    values = [log_1f1(392.0, 380.0 + i / 7) for i in range(700)]
    steps = [b - a for a, b in itertools.pairwise(values)]
    assert all(0 < a < b for a, b in itertools.pairwise(steps))


@pytest.mark.parametrize(
    ("b", "t"),
    [(0.4, 1.0), (math.nan, 1.0), (math.inf, 1.0), (1.0, -1.0), (1.0, math.nan), (1.0, 1e12)],
)
def test_other_arguments_are_refused(b: float, t: float) -> None:
    with pytest.raises(ValueError, match="expected b"):
        log_1f1(b, t)
