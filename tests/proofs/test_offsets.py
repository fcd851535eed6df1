"""Offsets and charges, made wrong in a copy: ranges must find it."""

from __future__ import annotations

from pathlib import Path

import pytest
from mpmath import iv

from proofs import charges, offsets
from tests.proofs.copies import MUTANTS, ROOT, copy_of_code


@pytest.mark.parametrize("name", MUTANTS["offsets"])
def test_a_wrong_offset_is_found(name: str, tmp_path: Path) -> None:
    root = copy_of_code(tmp_path, MUTANTS["offsets"][name])
    try:
        found = offsets.check(root) != []
    except ArithmeticError:
        found = True  # fewer digits than it was proved for
    assert found


@pytest.mark.parametrize("name", MUTANTS["charges"])
def test_a_wrong_charge_is_found(name: str, tmp_path: Path) -> None:
    assert charges.check(copy_of_code(tmp_path, MUTANTS["charges"][name]))


def test_the_code_is_right() -> None:
    assert offsets.check(ROOT) == []
    assert charges.check(ROOT) == []


def test_a_range_holds_what_decimals_make() -> None:
    context = offsets.Rounding(prec=60)
    third = context.divide(offsets.exactly(1), offsets.exactly(3))
    assert third.error.a < 0 < third.error.b
    assert abs(third.error).b < iv.mpf(10) ** -59
    logarithm = context.ln(third)
    assert logarithm.exact.a <= -iv.log(iv.mpf(3)).b <= -iv.log(iv.mpf(3)).a <= logarithm.exact.b
