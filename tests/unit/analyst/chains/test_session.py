"""What a chain would do after its charges is looked at before them."""

from __future__ import annotations

from pathlib import Path

import pytest

from analyst.chains.recipe import load_chain
from analyst.chains.session import begin_chain
from analyst.errors import RecipeError
from tests.fakes.barrier import FakeBarrier, FakeDataset


def test_codes_are_not_to_be_turned(tmp_path: Path) -> None:
    recipe = load_chain("two-stage-digits", {"second.augment": 0.5})
    barrier = FakeBarrier(FakeDataset(channels=32, height=4, width=4))
    with pytest.raises(RecipeError, match="32 channels") as caught:
        begin_chain(barrier, recipe, tmp_path / "chain")
    assert "--set second.augment=0" in caught.value.remedy
    assert not (tmp_path / "chain").exists()
