"""The noise's table, made wrong in a copy: interval arithmetic must find it."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from proofs import table
from proofs.copied import module
from proofs.subjects import GAUSSIAN
from tests.proofs.copies import MUTANTS, ROOT, copy_of_code


@pytest.mark.parametrize("name", MUTANTS["table"])
def test_a_mutant_is_found(name: str, tmp_path: Path) -> None:
    assert is_wrong(copy_of_code(tmp_path, MUTANTS["table"][name]))


def is_wrong(root: Path) -> bool:
    try:
        return table.check(root) != []
    except (ArithmeticError, ValueError, IndexError):
        return True  # it does not even draw


def test_the_code_is_right() -> None:
    assert not is_wrong(ROOT)


def test_a_word_that_is_one_off_is_found() -> None:
    gaussian = module(ROOT / GAUSSIAN)
    words, law = list(gaussian.one_sided_cdf()), table.law()
    assert table.wrong_words(words, law) == []
    for place in (0, 700, len(words) - 2):
        changed = [*words[:place], words[place] + 1, *words[place + 1 :]]
        (line,) = table.wrong_words(changed, law)
        assert f"word {place} " in line


def test_intervals_hold_what_they_are_of() -> None:
    low, high = table.exp_minus(Fraction(1, 2))
    assert 0 < high - low < 8
    square = table.times((low, high), (low, high))
    whole = table.exp_minus(Fraction(1))
    assert square[0] <= whole[1]
    assert whole[0] <= square[1]
    assert table.over(whole, (low, high))[0] <= high
