"""Rounding towards zero: the bits of torch.trunc, without its branches."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

from curator.privacy.toward_zero import toward_zero

CURATOR = Path(__file__).parents[4] / "curator"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_bits_are_those_of_trunc(dtype: torch.dtype) -> None:
    special = [0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 1.5, -2.5, 2.0**52 + 1, -(2.0**60), 5e-324]
    special += [math.inf, -math.inf, math.nextafter(1.0, 0.0), -math.nextafter(3.0, 0.0)]
    generator = torch.Generator().manual_seed(0)
    drawn = torch.randn(10_000, generator=generator, dtype=torch.float64)
    values = torch.cat((torch.tensor(special, dtype=torch.float64), drawn * drawn.exp())).to(dtype)
    rounded, wanted = toward_zero(values), torch.trunc(values)
    assert torch.equal(rounded, wanted)
    assert torch.equal(torch.signbit(rounded), torch.signbit(wanted))
    assert toward_zero(torch.tensor([math.nan], dtype=dtype)).isnan().all()


def test_nothing_in_the_curator_truncates_otherwise() -> None:
    sources = [path.read_text(encoding="utf-8") for path in CURATOR.rglob("*.py")]
    assert sum("toward_zero(" in source for source in sources) > 7
    assert not [source for source in sources if ".trunc(" in source or ".trunc_(" in source]
