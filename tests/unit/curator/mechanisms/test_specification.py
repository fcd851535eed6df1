"""Shared rules of every specification."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from curator.mechanisms.specification import Specification, canonical_json


class Example(Specification):
    alpha: int


def test_is_frozen_and_closed() -> None:
    spec = Example(noise_multiplier=1.0, alpha=2)
    with pytest.raises(ValidationError):
        spec.alpha = 3
    with pytest.raises(ValidationError):
        Example(noise_multiplier=1.0, alpha=2, beta=1)  # type: ignore[call-arg]


def test_canonical_text_is_sorted_and_without_blanks() -> None:
    assert (
        canonical_json(Example(noise_multiplier=1, alpha=2)) == '{"alpha":2,"noise_multiplier":1.0}'
    )


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 0.0, -1.0, 1e5, True, "1"])
def test_noise_that_no_lattice_realises_is_refused(value: float) -> None:
    with pytest.raises(ValidationError):
        Example(noise_multiplier=value, alpha=2)


def test_errors_do_not_repeat_the_input() -> None:
    with pytest.raises(ValidationError) as refused:
        Example(noise_multiplier=1.0, alpha="swordfish")  # type: ignore[arg-type]
    assert "swordfish" not in str(refused.value)
