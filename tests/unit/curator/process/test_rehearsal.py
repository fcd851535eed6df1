"""A rehearsal has no limit, and no single mistake makes one of private images."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from curator.administration.add_dataset import add_dataset
from curator.administration.open_ledger import open_ledger
from curator.config import CuratorConfig
from curator.data.errors import SourceError
from curator.folder import CuratorFolder, NotInitialised, initialise
from curator.ledger.datasets_and_runs import DatasetRegistration
from curator.ledger.problems import LedgerConflict
from curator.privacy.budget import MAX_EPSILON, REHEARSAL_EPSILON, Budget
from curator.privacy.facts import DatasetFacts
from curator.process.load_datasets import load_dataset, load_datasets
from curator.process.rehearsal import MARKER, Rehearsal, prepare_rehearsal
from curator.sources.options import SourceOptions
from tests.fakes.awkward import encoded, grey
from tests.fakes.facts import small_facts

DIGITS = Rehearsal(source="sklearn:digits", options=SourceOptions(), is_public=False)
UNLIMITED: dict[str, Any] = {
    "name": "rehearsal-small", "epsilon": REHEARSAL_EPSILON, "rehearsal": True,
}  # fmt: skip


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    path = tmp_path / "My Set.npz"
    images = np.arange(4 * 64, dtype=np.uint8).reshape(4, 8, 8)
    np.savez(path, images=images, labels=np.array([0, 1, 2, 1]))
    return path


@pytest.mark.parametrize("left_out", ["name", "epsilon", "rehearsal"])
def test_name_flag_and_budget_go_together_or_not_at_all(left_out: str) -> None:
    assert small_facts(**UNLIMITED).rehearsal
    changes = {key: value for key, value in UNLIMITED.items() if key != left_out}
    with pytest.raises(ValidationError, match="curator rehearse"):
        small_facts(**changes)
    with pytest.raises(ValidationError, match="curator rehearse"):
        small_facts(**{left_out: UNLIMITED[left_out]})


@pytest.mark.parametrize("epsilon", [MAX_EPSILON * 2, REHEARSAL_EPSILON * 2, float("inf")])
def test_no_other_number_is_without_a_limit(epsilon: float) -> None:
    with pytest.raises(ValueError, match="promises nothing"):
        Budget(epsilon=epsilon, delta=1e-5)


def test_digits_by_themselves(tmp_path: Path) -> None:
    root = tmp_path / "rehearsal"
    prepared = prepare_rehearsal(root, DIGITS)
    assert prepared.dataset == "rehearsal-digits"
    assert prepared.credentials.exists()
    assert "certifies nothing" in (root / MARKER).read_text()
    assert prepare_rehearsal(root, DIGITS) == prepared  # again is the same
    facts = _facts(prepared.folder)
    assert (facts.nominal_size, facts.max_level, facts.classes) == (1797, 16, tuple("0123456789"))
    assert facts.sampling_rate == pytest.approx(50 / 1797)
    assert facts.rehearsal


def test_other_images_if_they_are_said_to_be_public(archive: Path, tmp_path: Path) -> None:
    asked = dataclasses.replace(DIGITS, source=str(archive), nominal_size=60000, capacity=112)
    root = tmp_path / "rehearsal"
    with pytest.raises(SourceError, match="--source-is-public"):
        prepare_rehearsal(root, asked)
    assert not root.exists()
    prepared = prepare_rehearsal(root, dataclasses.replace(asked, is_public=True))
    assert prepared.dataset == "rehearsal-my-set"
    facts = _facts(prepared.folder)
    assert (facts.nominal_size, facts.capacity, facts.height) == (60000, 112, 8)
    assert facts.classes == ("0", "1", "2")


def test_a_folder_of_images_needs_its_shape(tmp_path: Path) -> None:
    for number, name in enumerate(("cat/a.png", "cat/b.png", "dog/c.png")):
        path = tmp_path / "photos" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encoded(grey(number)))
    asked = dataclasses.replace(DIGITS, source=str(tmp_path / "photos"), is_public=True)
    with pytest.raises(SourceError, match="--image-shape"):
        prepare_rehearsal(tmp_path / "rehearsal", asked)


def test_images_out_of_a_curator_s_folder_are_not_public(archive: Path, tmp_path: Path) -> None:
    private = initialise(tmp_path / "curator")
    inside = private.images("set")
    inside.mkdir(parents=True)
    moved = archive.rename(inside / "set.npz")
    asked = dataclasses.replace(DIGITS, source=str(moved), is_public=True)
    with pytest.raises(SourceError, match="not public"):
        prepare_rehearsal(tmp_path / "rehearsal", asked)


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    private = initialise(tmp_path / "curator")
    before = sorted(private.root.rglob("*"))
    with pytest.raises(NotInitialised, match="of its own"):
        prepare_rehearsal(private.root, DIGITS)
    assert sorted(private.root.rglob("*")) == before


def test_a_shared_database_never_holds_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEIR_LEDGER_URL", "postgresql://nowhere")
    with pytest.raises(NotInitialised, match="WEIR_LEDGER_URL"):
        prepare_rehearsal(tmp_path / "rehearsal", DIGITS)


def test_private_data_never_join_a_rehearsal(tmp_path: Path, archive: Path) -> None:
    folder = prepare_rehearsal(tmp_path / "rehearsal", DIGITS).folder
    facts = small_facts(height=8, width=8, max_level=255)
    with pytest.raises(ValueError, match="never share a curator"):
        add_dataset(folder, facts, str(archive))
    assert not folder.images("small").exists()


def test_a_rehearsal_never_joins_private_data(tmp_path: Path, archive: Path) -> None:
    folder = initialise(tmp_path / "curator")
    add_dataset(folder, small_facts(height=8, width=8, max_level=255), str(archive))
    changes = {**UNLIMITED, "nominal_size": 1797, "max_size": 1797, "classes": tuple("0123456789")}
    facts = small_facts(height=8, width=8, capacity=1200, **changes)
    with pytest.raises(ValueError, match="never share a curator"):
        add_dataset(folder, facts, "sklearn:digits")


def test_a_ledger_with_both_is_not_served(tmp_path: Path, archive: Path) -> None:
    folder = initialise(tmp_path / "curator")
    add_dataset(folder, small_facts(height=8, width=8, max_level=255), str(archive))
    facts = small_facts(**UNLIMITED)
    ledger = open_ledger(folder, CuratorConfig())
    try:
        ledger.register_dataset(  # as a hand that goes around the commands would
            DatasetRegistration(
                name=facts.name,
                budget=facts.budget,
                adjacency=facts.adjacency,
                facts_json=facts.model_dump_json(),
            )
        )
        with pytest.raises(LedgerConflict, match="never share a curator"):
            load_datasets(folder, ledger)
        for state in ledger.datasets():  # nor while it serves
            assert load_dataset(folder, ledger, state.registration.name) is None
    finally:
        ledger.close()


def _facts(folder: CuratorFolder) -> DatasetFacts:
    ledger = open_ledger(folder, CuratorConfig())
    try:
        (state,) = ledger.datasets()
        return DatasetFacts.model_validate_json(state.registration.facts_json)
    finally:
        ledger.close()
