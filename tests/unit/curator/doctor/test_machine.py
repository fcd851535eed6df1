"""Processor, libraries, clock and randomness."""

from __future__ import annotations

import os
import re
import tomllib
from datetime import UTC, datetime
from pathlib import Path

import pytest

from curator.doctor import machine, processor
from curator.doctor.finding import State
from curator.doctor.machine import REQUIRED, clock, entropy, versions
from curator.doctor.subject import Subject

MACHINE = Subject.of(None)
ROOT = Path(__file__).parents[4]


def test_the_processor_is_named_with_what_steers_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = tmp_path / "cpuinfo"
    told.write_text("model name\t: Some CPU\nflags\t\t: fpu avx2 fma\nmodel name\t: other\n")
    monkeypatch.setattr(processor, "_CPUINFO", told)
    monkeypatch.setenv("NUMBA_CPU_NAME", "generic")
    finding = processor.processor(MACHINE)
    assert finding.words.startswith("Some CPU, ")
    assert finding.facts["instructions"] == ["fma", "avx2"]
    assert "NUMBA_CPU_NAME=generic" in finding.words


def test_without_a_table_of_processors_there_is_an_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processor, "_CPUINFO", tmp_path / "none")
    assert processor.processor(MACHINE).state is State.OK


def test_every_required_library_is_one_that_the_package_asks_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = [*project["dependencies"], *project["optional-dependencies"]["curator"]]
    names = {re.split(r"[<>=!;\[ ]", one)[0] for one in asked}
    assert set(REQUIRED) <= {project["name"], *names}


def test_a_missing_library_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    assert versions(MACHINE).state is State.OK
    monkeypatch.setattr(machine, "_version", lambda name: "" if name == "scipy" else "1")
    finding = versions(MACHINE)
    assert finding.state is State.FAULT
    assert finding.words.startswith("not installed: scipy;")


@pytest.mark.parametrize("is_kept", [True, False, None])
def test_a_clock_that_was_never_set_is_a_fault(
    monkeypatch: pytest.MonkeyPatch, is_kept: bool | None
) -> None:
    monkeypatch.setattr(machine, "_is_synchronised", lambda: is_kept)
    monkeypatch.setattr(machine, "utc_now", lambda: datetime(2030, 1, 1, tzinfo=UTC))
    assert clock(MACHINE).state is State.OK
    assert clock(MACHINE).facts["synchronised"] is is_kept
    assert "not synchronised" not in clock(MACHINE).words  # beside 'ok'
    assert ("compare it with another clock" in clock(MACHINE).words) == (is_kept is not True)
    monkeypatch.setattr(machine, "utc_now", lambda: datetime(1970, 1, 2, tzinfo=UTC))
    assert clock(MACHINE).state is State.FAULT


def test_asking_the_kernel_changes_and_raises_nothing() -> None:
    assert machine._is_synchronised() in {True, False, None}


@pytest.mark.skipif(not hasattr(os, "getrandom"), reason="the system has no getrandom")
def test_randomness_that_is_not_ready_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    def blocks(*_: int) -> bytes:
        raise BlockingIOError

    assert entropy(MACHINE).state is State.OK
    monkeypatch.setattr(os, "getrandom", blocks)
    assert entropy(MACHINE).state is State.FAULT


def test_a_cipher_that_is_switched_off_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    class Unsupported:
        def discrete_gaussian(self, _: int) -> None:
            raise NotImplementedError

    monkeypatch.setattr("curator.sanitizer.entropy.OsEntropy", Unsupported)
    finding = entropy(MACHINE)
    assert finding.state is State.FAULT
    assert "ChaCha20" in finding.next_step
