"""The lines that open a run from a loop of one's own work as they are printed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import analyst
from tests.fakes.barrier import FakeBarrier, FakeDataset

ROOT = Path(__file__).resolve().parents[3]
_BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", ["README.md", "docs/how-to/your-own-loop.md"])
def test_a_recipe_s_parameters_open_a_run(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    barrier = FakeBarrier(FakeDataset(capacity=91, epsilon=3000.0))
    monkeypatch.setattr(analyst, "connect", lambda *_, **__: barrier, raising=False)
    blocks = _BLOCK.findall((ROOT / page).read_text())
    (block,) = (block for block in blocks if "load_recipe" in block)
    names = {"analyst": analyst, "curator": "localhost:1", "file": "me.json", "num_steps": 7}
    exec(block.partition("    for _ in")[0], names)  # noqa: S102 - a page of this repository
    ((mechanism, parameters, num_steps),) = barrier.opened
    assert mechanism == "dp-sinkhorn"
    assert parameters["capacity"] == 91
    assert num_steps in {7, 2000}
