from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from analyst.errors import CheckpointError
from analyst.training.checkpoint import CheckpointStore, Manifest


def _manifest(num_updates: int) -> Manifest:
    return Manifest(
        run_id="run-0",
        num_updates=num_updates,
        next_step=num_updates + 1,
        num_steps=9,
        finished=False,
        dataset={"name": "digits", "channels": 1, "height": 8, "width": 8, "classes": ["0", "1"]},
        recipe={},
    )


@pytest.fixture
def store(tmp_path: Path) -> CheckpointStore:
    store = CheckpointStore(tmp_path / "checkpoints")
    for num_updates in (1, 2, 3):
        store.save({"x": torch.full((3,), float(num_updates))}, _manifest(num_updates))
    return store


def test_the_newest_comes_back(store: CheckpointStore) -> None:
    tensors, manifest = store.load()
    assert manifest == _manifest(3)
    assert tensors["x"].tolist() == [3, 3, 3]


def test_a_run_of_many_curators_is_read_again(tmp_path: Path) -> None:
    """Its id is that of all of them, which was once too long for a checkpoint to be loaded."""
    store = CheckpointStore(tmp_path)
    manifest = _manifest(1).model_copy(update={"run_id": "+".join(["0" * 32] * 20)})
    store.save({"x": torch.zeros(1)}, manifest)
    assert store.load()[1] == manifest


def test_two_are_kept_and_nothing_else_lies_around(store: CheckpointStore) -> None:
    store.save({"x": torch.zeros(3)}, _manifest(3))  # the same step again replaces it
    names = sorted(path.name for path in store.directory.iterdir())
    assert [name[:21] for name in names] == ["checkpoint-0000000002"] * 2 + [
        "checkpoint-0000000003"
    ] * 2
    assert store.load()[0]["x"].tolist() == [0, 0, 0]


def test_as_many_are_kept_as_asked_and_each_can_be_loaded(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, keep=3)
    for number in range(1, 6):
        store.save({"x": torch.full((1,), float(number))}, _manifest(number))
    assert store.kept() == [3, 4, 5]
    assert store.load(4)[0]["x"].tolist() == [4.0]
    assert store.load()[1].num_updates == 5
    with pytest.raises(CheckpointError, match="no checkpoint after 2 updates") as caught:
        store.load(2)
    assert "Kept are 3, 4, 5" in caught.value.remedy


@pytest.mark.parametrize(
    ("pattern", "damage"),
    [
        *(("*3-*.safetensors", damage) for damage in ("flip", "cut", "empty", "gone")),
        *(("*3.json", damage) for damage in ("flip", "cut", "empty")),
    ],
)
def test_damage_is_found_and_the_way_back_named(
    store: CheckpointStore, pattern: str, damage: str
) -> None:
    (path,) = store.directory.glob(pattern)
    content = path.read_bytes()
    match damage:
        case "flip":
            path.write_bytes(bytes([content[0] ^ 1]) + content[1:])
        case "cut":
            path.write_bytes(content[:-7])
        case "empty":
            path.write_bytes(b"")
        case _:
            path.unlink()
    with pytest.raises(CheckpointError, match="is damaged") as caught:
        store.load()
    assert "checkpoint-0000000002.json" in caught.value.remedy
    next(store.directory.glob("*3.json")).unlink()
    assert store.load()[1].num_updates == 2


def test_another_format_is_refused(store: CheckpointStore) -> None:
    (path,) = store.directory.glob("*3.json")
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format": 2}))
    with pytest.raises(CheckpointError, match="format: should be 1"):
        store.load()


def test_a_kill_between_tensors_and_manifest_keeps_the_previous(store: CheckpointStore) -> None:
    (store.directory / "checkpoint-0000000004-00000000.safetensors").write_bytes(b"half")
    (store.directory / ".checkpoint-0000000004.json.tmp").write_bytes(b"{")
    assert store.load()[1].num_updates == 3
    store.save({"x": torch.zeros(1)}, _manifest(4))
    assert len(list(store.directory.glob("*.safetensors"))) == 2


def test_none_is_an_error_with_a_remedy(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="no checkpoint"):
        CheckpointStore(tmp_path).load()
