"""What was written before events and mechanisms moved into rooms of their own is read after it.

The fixtures were made by the code of that time and are never made again: the text of each event
with what it cost, each mechanism's specification, events and kept state, and a ledger's export.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
import torch
from safetensors.torch import load

from curator.accounting.cost import Cost, event_cost
from curator.accounting.epsilon_alone import pld_epsilon
from curator.accounting.event_text import event_from_text, event_to_text
from curator.data.images import LabelledImages
from curator.data.sampling import PrivateRecords
from curator.ledger.export import verify_export
from curator.mechanisms.catalogue import canonical_json, mechanism_names, parse_mechanism
from curator.privacy.batches import ImageSpace, Samples
from curator.state.asking import private_batches, state_step
from tests.fakes.noise import SeededNoise

FIXTURES: Final = Path(__file__).resolve().parent.parent / "fixtures"
WRITTEN: Final[dict[str, Any]] = json.loads((FIXTURES / "before_the_move.json").read_text())
SPACE: Final = ImageSpace(**WRITTEN["space"])
RUNS: Final[list[dict[str, Any]]] = WRITTEN["mechanisms"]
KEPT: Final = [run for run in RUNS if run["state"] is not None]


def opened(run: dict[str, Any]) -> Any:
    return parse_mechanism(run["mechanism"], run["parameters"], SPACE)


def nearly(cost: Cost) -> Any:
    """Costs of another processor's floats agree to one part in 10^9, as an export demands."""
    return [None if unit is None else pytest.approx(unit, rel=2e-9) for unit in cost.units]


@pytest.mark.parametrize(
    "written", WRITTEN["events"], ids=lambda one: json.loads(one["text"])["event"]
)
def test_an_event_has_its_text_and_its_price(written: dict[str, Any]) -> None:
    event = event_from_text(written["text"])
    assert event_to_text(event) == written["text"]
    assert list(event_cost(event).units) == nearly(Cost.from_json(written["cost"]))
    alone = pld_epsilon(event, written["num_steps"], written["delta"])
    assert alone == pytest.approx(written["pld_epsilon"], rel=1e-6)


def test_every_mechanism_was_written() -> None:
    assert {run["mechanism"] for run in RUNS} <= set(mechanism_names())
    assert len({run["mechanism"] for run in RUNS}) == 12


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run["target"])
def test_a_run_opens_as_it_was(run: dict[str, Any]) -> None:
    mechanism = opened(run)
    assert canonical_json(mechanism.spec) == run["parameters"]
    assert event_to_text(mechanism.setup_event()) == run["setup"]
    assert event_to_text(mechanism.step_event()) == run["step"]
    assert mechanism.rows_per_step == run["rows_per_step"]
    assert mechanism.noise_multiplier == run["noise_multiplier"]
    assert mechanism.spec.kept_bytes(SPACE) == run["kept_bytes"]
    assert mechanism.spec.journal_bytes(SPACE) == run["journal_bytes"]


@pytest.mark.parametrize("run", KEPT, ids=lambda run: run["target"])
def test_a_kept_state_is_read_bit_for_bit_and_goes_on(run: dict[str, Any]) -> None:
    mechanism, noise = opened(run), SeededNoise(3)
    kept = load(base64.b64decode(run["state"]))
    side = SPACE.height
    levels = np.arange(6 * side * side, dtype=np.uint8).reshape(6, 1, side, side) % 16
    records = PrivateRecords(LabelledImages(levels=levels, labels=np.zeros(6, np.int64)), 6)
    state = mechanism.unpack(kept, private_batches(mechanism, records, noise))
    packed = mechanism.pack(state)
    assert packed.keys() == kept.keys()
    assert all(torch.equal(packed[name], kept[name]) for name in kept)
    rows = mechanism.rows_per_step
    images = torch.linspace(-1, 1, rows * SPACE.dimension).reshape(rows, -1)
    samples = Samples(images_ND=images, labels_N=torch.zeros(rows, dtype=torch.int64))
    following, release = state_step(mechanism, state, 9, samples, noise)
    assert release.blocks
    assert mechanism.pack(following).keys() == kept.keys()


def test_a_ledger_holds_by_the_rules_of_now() -> None:
    lines = (FIXTURES / "before_the_move.ledger.jsonl").read_text().splitlines()
    (totals,) = verify_export(lines).totals
    assert totals.spent_epsilon == pytest.approx(0.26559426011278636, rel=1e-12)
