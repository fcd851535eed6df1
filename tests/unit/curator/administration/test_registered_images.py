"""Images that had a budget are known again: relabelled, nearly the same, erased, stored before."""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from curator.administration.add_dataset import Added, Choices, add_dataset, try_dataset
from curator.administration.administer import administer
from curator.administration.commands import Erase
from curator.administration.open_ledger import open_ledger
from curator.config import load_config
from curator.data.errors import SourceError
from curator.folder import CuratorFolder, initialise
from curator.ledger.datasets_and_runs import DatasetStatus
from curator.ledger.entries import StatusSet
from curator.ledger.problems import DatasetExists
from curator.process.load_datasets import load_datasets
from curator.sources.options import SourceOptions
from tests.contract.ledger_values import opening
from tests.fakes.facts import small_facts

COUNT = 20


@pytest.fixture
def folder(tmp_path: Path) -> CuratorFolder:
    return initialise(tmp_path / "curator")


def images(numbers: range | list[int]) -> np.ndarray:
    """Return the images of these numbers: 4 x 4, each distinct."""
    every = np.random.default_rng(5).integers(0, 17, (200, 4, 4), dtype=np.uint8)
    return every[list(numbers)]


def add(
    folder: CuratorFolder,
    name: str,
    levels: np.ndarray,
    shift: int = 0,
    carry_out: Callable[..., Added] = add_dataset,
    **choices: Any,
) -> Added:
    labels = (np.arange(len(levels)) + shift) % 3
    source = folder.root.parent / "source.npz"
    np.savez(source, images=levels, labels=labels)
    facts = small_facts(
        name=name, height=4, width=4, nominal_size=150, max_size=200, sampling_rate=0.05
    )
    return carry_out(folder, facts, str(source), choices=Choices(**choices))


def ask(folder: CuratorFolder, name: str) -> None:
    """Open a run on a data set and close it without a step."""
    ledger = open_ledger(folder, load_config(folder.config))
    ledger.open_run(opening(f"run-{name}", 1, dataset=name), "h")
    ledger.close_run(f"run-{name}", "h", 1, 0, "closed")
    ledger.close()


def erase(folder: CuratorFolder, name: str, *, asked: bool = True) -> tuple[str, ...]:
    if asked:
        ask(folder, name)
    return administer(folder, Erase(kind="erase", dataset=name, reason="asked"))


def as_before(folder: CuratorFolder, name: str, levels: np.ndarray) -> None:
    """Leave of a data set what a version without image hashes left."""
    folder.image_hashes(name).unlink()
    key = folder.fingerprint_key.read_bytes()
    rows = sorted(
        hashlib.sha256(image.tobytes() + (number % 3).to_bytes(8, "little")).digest()
        for number, image in enumerate(levels)
    )
    digest = hmac.new(key, b"".join(rows), hashlib.sha256).hexdigest()
    folder.fingerprints.write_text(json.dumps({name: digest}))


def test_other_labels_are_no_second_budget(folder: CuratorFolder) -> None:
    add(folder, "first", images(range(COUNT)))
    with pytest.raises(SourceError, match="the same images are registered as 'first'"):
        add(folder, "second", images(range(COUNT)), shift=1, most_shared=1.0)


def test_near_copies_are_refused_above_the_share_and_told_below_it(folder: CuratorFolder) -> None:
    add(folder, "first", images(range(COUNT)))
    for near in (range(1, COUNT), range(COUNT + 1), range(9, 29)):
        with pytest.raises(SourceError, match=r"images are also in 'first'.*--max-shared"):
            add(folder, "second", images(near), shift=2)
    added = add(folder, "second", images(range(10, 30)))
    assert "10 of 20 images are also in 'first'" in added.lines
    added = add(folder, "third", images(range(11, 33)), most_shared=1.0)
    assert [overlap.shared for overlap in added.overlaps] == [9, 19]


def test_what_is_refused_leaves_nothing(folder: CuratorFolder) -> None:
    add(folder, "first", images(range(COUNT)))
    with pytest.raises(SourceError, match="also in 'first'"):
        add(folder, "second", images(range(1, COUNT)))
    assert not folder.images("second").exists()
    assert not folder.image_hashes("second").exists()


def test_hashes_are_for_the_owner_only_and_outlive_the_images(folder: CuratorFolder) -> None:
    add(folder, "first", images(range(COUNT)))
    kept = folder.image_hashes("first")
    for path in (kept, kept.parent):
        assert path.stat().st_mode & 0o077 == 0
    erase(folder, "first")
    assert not folder.images("first").exists()
    with pytest.raises(SourceError, match="the same images are registered as 'first'"):
        add(folder, "second", images(range(COUNT)), shift=1)
    with pytest.raises(SourceError, match="19 of 19 images are also in 'first'"):
        add(folder, "second", images(range(1, COUNT)))


def test_what_an_earlier_version_registered_is_hashed_at_the_next_add(
    folder: CuratorFolder,
) -> None:
    levels = images(range(COUNT))
    add(folder, "first", levels)
    as_before(folder, "first", levels)
    added = add(folder, "second", images(range(100, 130)))
    assert any("'first' were hashed" in line for line in added.lines)
    with pytest.raises(SourceError, match="the same images are registered as 'first'"):
        add(folder, "third", levels, shift=1)


def test_what_an_earlier_version_registered_is_hashed_when_it_is_served_and_that_is_said(
    folder: CuratorFolder, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "curator")
    levels = images(range(COUNT))
    add(folder, "first", levels)
    as_before(folder, "first", levels)
    ledger = open_ledger(folder, load_config(folder.config))
    for said in (1, 1):  # once
        load_datasets(folder, ledger)
        told = [one for one in caplog.records if "were hashed" in one.getMessage()]
        assert len(told) == said
    ledger.close()
    assert folder.image_hashes("first").exists()


def test_what_an_earlier_version_registered_is_hashed_before_it_is_erased(
    folder: CuratorFolder,
) -> None:
    levels = images(range(COUNT))
    add(folder, "first", levels)
    as_before(folder, "first", levels)
    assert any("'first' were hashed" in line for line in erase(folder, "first"))
    with pytest.raises(SourceError, match="the same images are registered as 'first'"):
        add(folder, "second", levels, shift=1)


def test_what_an_earlier_version_erased_is_noticed_whole_and_the_rest_is_said(
    folder: CuratorFolder,
) -> None:
    levels = images(range(COUNT))
    add(folder, "first", levels)
    erase(folder, "first")
    as_before(folder, "first", levels)
    with pytest.raises(SourceError, match="the same images are registered as 'first'"):
        add(folder, "second", levels)
    added = add(folder, "second", images(range(1, COUNT)))
    assert any("'first' was erased and left no" in line for line in added.lines)


def test_a_set_that_cannot_be_compared_with_stops_the_command(folder: CuratorFolder) -> None:
    levels = images(range(COUNT))
    add(folder, "first", levels)
    as_before(folder, "first", levels)
    (folder.images("first") / "levels.npy").unlink()
    with pytest.raises(SourceError, match=r"cannot be compared with those of 'first'.*copy"):
        add(folder, "second", images(range(100, 130)))
    told = erase(folder, "first")
    assert any("could not be hashed" in line for line in told)
    added = add(folder, "second", images(range(100, 130)))
    assert any("'first' was erased" in line for line in added.lines)


def test_a_damaged_or_foreign_file_of_hashes_is_made_again(folder: CuratorFolder) -> None:
    levels = images(range(COUNT))
    add(folder, "first", levels)
    kept = folder.image_hashes("first")
    for content in (kept.read_bytes()[:-8], b""):
        kept.write_bytes(content)
        with pytest.raises(SourceError, match="the same images are registered as 'first'"):
            add(folder, "second", levels, shift=1)


def test_groups_count_all_images_of_the_source(folder: CuratorFolder) -> None:
    levels = images(range(COUNT))
    source = folder.root.parent / "groups.npz"
    groups, labels = np.arange(COUNT) // 4, np.arange(COUNT) % 3
    np.savez(source, images=levels, labels=labels, groups=groups)
    facts = small_facts(
        name="people",
        height=4,
        width=4,
        unit="group",
        max_records_per_group=1,
        nominal_size=150,
        max_size=200,
        sampling_rate=0.05,
    )
    add_dataset(folder, facts, str(source), SourceOptions(groups_key="groups"))
    with pytest.raises(SourceError, match="15 of 15 images are also in 'people'"):
        add(folder, "rest", levels[np.arange(COUNT) % 4 != 0])  # those that were left out


def test_what_was_never_asked_may_be_added_again_once_it_is_erased(folder: CuratorFolder) -> None:
    levels = images(range(COUNT))
    add(folder, "typo", levels)
    with pytest.raises(SourceError, match="if no run was ever opened on 'typo', erase it first"):
        add(folder, "right", levels)
    told = erase(folder, "typo", asked=False)
    assert any("no run was ever opened" in line for line in told)
    assert add(folder, "right", levels).overlaps == ()
    with pytest.raises(SourceError, match="the same images are registered as 'right'"):
        add(folder, "third", levels, shift=1)
    with pytest.raises(DatasetExists):
        add(folder, "typo", images(range(100, 130)))


def test_a_run_that_took_no_step_counts(folder: CuratorFolder) -> None:
    add(folder, "first", images(range(COUNT)))
    told = erase(folder, "first")
    assert not any("no run was ever opened" in line for line in told)
    with pytest.raises(SourceError, match="the same images are registered as 'first'"):
        add(folder, "second", images(range(COUNT)))


def test_only_an_entry_frees_the_images(folder: CuratorFolder) -> None:
    """As earlier versions erased: the ledger shows no run, and nobody said so."""
    add(folder, "first", images(range(COUNT)))
    ledger = open_ledger(folder, load_config(folder.config))
    ledger.decide(StatusSet(dataset="first", status=DatasetStatus.ERASED, reason="asked"))
    ledger.close()
    with pytest.raises(SourceError, match="the same images are registered as 'first'"):
        add(folder, "second", images(range(COUNT)))


def everything(root: Path) -> dict[str, tuple[int, bytes]]:
    files = (path for path in sorted(root.rglob("*")) if path.is_file())
    return {
        str(path.relative_to(root)): (path.stat().st_mtime_ns, path.read_bytes())
        for path in files
        if not path.name.endswith(("-shm", "-wal"))  # of whoever reads the ledger
    }


def trial(folder: CuratorFolder, name: str, levels: np.ndarray, **choices: Any) -> Added:
    return add(folder, name, levels, carry_out=try_dataset, **choices)


def test_a_trial_says_what_adding_would_say_and_writes_nothing(folder: CuratorFolder) -> None:
    add(folder, "first", images(range(COUNT)))
    as_before(folder, "first", images(range(COUNT)))  # whose hashes 'add' would keep
    before = everything(folder.root)
    tried = trial(folder, "second", images(range(10, 30)))
    assert everything(folder.root) == before
    assert "10 of 20 images are also in 'first'" in tried.lines
    refused: list[tuple[str, np.ndarray, dict[str, Any], str]] = [
        ("first", images(range(100, 130)), {}, "registered already"),
        ("second", images(range(COUNT)), {}, "the same images"),
        ("second", images(range(1, COUNT)), {}, "more than --max-shared"),
        ("second", images(range(100, 130)), {"favourite": 3.3333}, "order 3.33333? is none of"),
        ("second", np.full((4, 4, 4), 17), {}, "level 17"),
    ]
    for name, levels, choices, words in refused:
        for carry_out in (try_dataset, add_dataset):
            with pytest.raises(ValueError, match=words):
                add(folder, name, levels, carry_out=carry_out, **choices)
    assert everything(folder.root)["ledger.sqlite"] == before["ledger.sqlite"]
    added = add(folder, "second", images(range(10, 30)))
    assert set(tried.lines) <= set(added.lines)


def test_canaries_are_no_images_of_the_source(folder: CuratorFolder) -> None:
    """Hashes made anew count the source's alone, so that many canaries hide no copy."""
    added = add(folder, "first", images(range(60)), num_canaries=100)
    assert added.lines[0].startswith("60 images")
    assert "of 100 candidates" in added.lines[1]
    folder.image_hashes("first").unlink()
    with pytest.raises(SourceError, match="60 of"):
        add(folder, "second", images(range(100)))
    erase(folder, "first")
    assert not folder.images("first").exists()


def test_no_coin_decides_whether_a_source_is_taken(folder: CuratorFolder) -> None:
    for _ in range(10):
        with pytest.raises(SourceError, match=r"191 images and 10 canaries at the most"):
            add(folder, "first", images(range(191)), carry_out=try_dataset, num_canaries=10)
    add(folder, "first", images(range(190)), num_canaries=10)
