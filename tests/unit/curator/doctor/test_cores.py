"""What the doctor says of core dumps, on and off, on any system."""

from __future__ import annotations

from pathlib import Path

import pytest

from curator.doctor import cores
from curator.doctor.finding import State
from curator.doctor.subject import Subject

LIMITS = "Limit   Soft Limit  Hard Limit  Units\nMax core file size  0  unlimited  bytes\n"


@pytest.mark.parametrize("is_off", [True, False])
def test_both_ways(is_off: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pattern").write_text("|/usr/lib/collector %p\n")
    (tmp_path / "limits").write_text(LIMITS)
    monkeypatch.setattr(cores, "_PATTERN", tmp_path / "pattern")
    monkeypatch.setattr(cores, "_LIMITS", tmp_path / "limits")
    monkeypatch.setattr(cores, "are_core_dumps_off", lambda: is_off)
    finding = cores.core_dumps(Subject.of(None))
    assert finding.state is (State.OK if is_off else State.ATTENTION)
    assert "|/usr/lib/collector %p" in finding.words
    assert "its services start with core dumps off, which each may raise to any" in finding.words
    assert finding.facts == {"off": is_off, "core_pattern": "|/usr/lib/collector %p"}
    assert ("ulimit -c 0" in finding.next_step) == (not is_off)


def test_a_system_that_does_not_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cores, "_PATTERN", tmp_path / "none")
    monkeypatch.setattr(cores, "_LIMITS", tmp_path / "none")
    words = cores.core_dumps(Subject.of(None)).words
    assert "core_pattern is unknown" in words
    assert "services" not in words


@pytest.mark.parametrize(
    ("soft", "hard", "said"),
    [
        ("0", "0", "start with core dumps off"),
        ("0", "4096", "start with core dumps off, which each may raise to at most 4096 bytes"),
        ("8", "unlimited", "start with cores of at most 8 bytes, which each may raise to any size"),
        ("unlimited", "unlimited", "start with cores of any size"),
    ],
)
def test_limits_are_said_in_plain_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, soft: str, hard: str, said: str
) -> None:
    (tmp_path / "limits").write_text(f"Max core file size  {soft}  {hard}  bytes\n")
    monkeypatch.setattr(cores, "_PATTERN", tmp_path / "none")
    monkeypatch.setattr(cores, "_LIMITS", tmp_path / "limits")
    assert cores.core_dumps(Subject.of(None)).words.endswith(f"its services {said}")
