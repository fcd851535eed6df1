"""Adding a data set leaves either a data set or nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from curator.administration.add_dataset import add_dataset
from curator.administration.administer import administer
from curator.administration.open_ledger import open_ledger_reader
from curator.config import load_config
from curator.data.errors import SourceError
from curator.data.store import open_store
from curator.folder import CuratorFolder, initialise
from curator.ledger.ledger import DatasetExists
from curator.sources.conversion import Conversion
from curator.sources.options import SourceOptions
from tests.fakes.awkward import encoded, grey
from tests.fakes.facts import small_facts

FACTS = small_facts(height=8, width=8, classes=("cat", "dog"), max_level=255)
OPTIONS = SourceOptions(classes=("cat", "dog"), conversion=Conversion(shape=(1, 8, 8)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> CuratorFolder:
    return initialise(tmp_path_factory.mktemp("curator"))


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    for number, name in enumerate(("cat/a.png", "cat/b.png", "dog/c.png")):
        path = tmp_path / "photos" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encoded(grey(number)))
    return tmp_path / "photos"


def left(folder: CuratorFolder) -> list[str]:
    names = (path.name for path in (folder.root / "datasets").iterdir())
    return [name for name in names if name != ".adding.lock"]


def names(folder: CuratorFolder) -> list[str]:
    ledger = open_ledger_reader(folder, load_config(folder.config))
    try:
        return [state.registration.name for state in ledger.datasets()]
    finally:
        ledger.close()


def _interrupt(*_: Any, **__: Any) -> None:
    raise KeyboardInterrupt


def _full(*_: Any, **__: Any) -> None:
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize("problem", [_interrupt, _full])
@pytest.mark.parametrize(
    "place",
    [
        "curator.sources.survey.Survey.add_converted",
        "curator.administration.registered_images.image_hashes",
        "curator.data.store._sha256",
        "curator.administration.registered_images.write_private",
        "curator.administration.add_dataset.administer",
    ],
)
def test_an_interrupted_command_leaves_nothing(
    folder: CuratorFolder, photos: Path, monkeypatch: pytest.MonkeyPatch, place: str, problem: Any
) -> None:
    monkeypatch.setattr(place, problem)
    with pytest.raises((KeyboardInterrupt, OSError)):
        add_dataset(folder, FACTS, str(photos), OPTIONS)
    assert left(folder) == []
    assert not folder.image_hashes("small").exists()


def test_what_the_ledger_knows_stays_when_the_answer_is_lost(
    tmp_path: Path, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, carry_out = initialise(tmp_path / "curator"), administer

    def lost(*arguments: Any) -> None:
        carry_out(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr("curator.administration.add_dataset.administer", lost)
    with pytest.raises(KeyboardInterrupt):
        add_dataset(folder, FACTS, str(photos), OPTIONS)
    assert names(folder) == ["small"]
    assert open_store(folder.images("small")).labels.tolist() == [0, 0, 1]


def test_what_a_killed_command_left_is_removed(tmp_path: Path, photos: Path) -> None:
    folder = initialise(tmp_path / "curator")
    for name in (".other.partial", "small"):
        (folder.root / "datasets" / name).mkdir()
        (folder.root / "datasets" / name / "levels.npy").write_bytes(b"half")
    added = add_dataset(folder, FACTS, str(photos), OPTIONS)
    assert left(folder) == ["small"]
    assert "3 images" in added.lines[0]
    assert added.survey.images == 3
    for path in [folder.images("small"), *folder.images("small").iterdir()]:
        assert path.stat().st_mode & 0o077 == 0


def test_a_name_that_is_taken_is_told_before_anything_else(tmp_path: Path, photos: Path) -> None:
    folder = initialise(tmp_path / "curator")
    facts = FACTS.model_copy(update={"name": "first"})
    add_dataset(folder, facts, str(photos), OPTIONS)
    low = facts.model_copy(update={"sampling_rate": 1.0, "capacity": 1})
    with pytest.raises(DatasetExists):  # a replica adds what was registered before capacities were
        add_dataset(folder, low, str(photos), OPTIONS)


def test_a_refused_file_leaves_nothing(folder: CuratorFolder, photos: Path) -> None:
    (photos / "dog" / "empty.png").write_bytes(b"")
    with pytest.raises(SourceError, match=r"dog/empty\.png: the file is empty"):
        add_dataset(folder, FACTS, str(photos), OPTIONS)
    assert left(folder) == []


def test_a_table_with_groups_needs_groups_declared(folder: CuratorFolder, photos: Path) -> None:
    table = photos.with_name("labels.csv")
    table.write_text("path,label,group\ncat/a.png,cat,p1\n")
    options = SourceOptions(labels=table, classes=OPTIONS.classes, conversion=OPTIONS.conversion)
    with pytest.raises(SourceError, match=r"unit is a record and there are groups.*'group'"):
        add_dataset(folder, FACTS, str(photos), options)
