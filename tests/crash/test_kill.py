"""The crash harness at every point, and proof that it finds the naive out.

Two seeds a point, in turn: one of them beside PostgreSQL, the other beside SQLite, as the same code
writes; neighbouring points share what a seed decides, the script and at which time a process is
killed. `python -m tests.crash.full` goes on for as long as it is let.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.postgres_server import postgres_or_skip
from tests.crash.full import SCRATCH
from tests.crash.harness import Broken, Zygote, kill_once
from tests.crash.points import POINTS
from tests.crash.workload import LARGEST_BLOCK

SEEDS = range(3)


@pytest.fixture(scope="module")
def zygote() -> Iterator[Zygote]:
    with Zygote() as started:
        yield started


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="weir-crash-", dir=SCRATCH) as name:
        yield Path(name)


def test_there_are_at_least_twelve_points_and_the_child_imports_the_ledger_only(
    zygote: Zygote,
) -> None:
    assert len(set(POINTS)) >= 12
    assert zygote.heavy_imports == []


@pytest.mark.parametrize(("place", "point"), list(enumerate(POINTS)))
def test_killed_there_it_never_under_counts(
    zygote: Zygote, folder: Path, place: int, point: str
) -> None:
    location, journal = str(folder / "ledger.sqlite"), folder / "journal"
    seed = SEEDS[(place + 1) % len(SEEDS)]
    assert kill_once(zygote, location, journal, point, seed).over_count <= LARGEST_BLOCK


@pytest.mark.parametrize(("place", "point"), list(enumerate(POINTS)))
def test_killed_there_beside_postgresql_neither(
    zygote: Zygote, folder: Path, place: int, point: str
) -> None:
    location, journal = postgres_or_skip().fresh(), folder / "journal"
    seed = SEEDS[place % len(SEEDS)]
    assert kill_once(zygote, location, journal, point, seed).over_count <= LARGEST_BLOCK


@pytest.mark.parametrize("seed", SEEDS)
def test_a_ledger_that_charges_afterwards_is_found_out(
    zygote: Zygote, folder: Path, seed: int
) -> None:
    location, journal = str(folder / "ledger.sqlite"), folder / "journal"
    with pytest.raises(Broken, match=r"delivered .* and was charged"):
        kill_once(zygote, location, journal, "advance:delivered", seed, "naive")
