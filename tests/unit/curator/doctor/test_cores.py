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
    assert "0 (at most unlimited) bytes" in finding.words
    assert finding.facts == {"off": is_off, "core_pattern": "|/usr/lib/collector %p"}
    assert ("ulimit -c 0" in finding.next_step) == (not is_off)


def test_a_system_that_does_not_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cores, "_PATTERN", tmp_path / "none")
    monkeypatch.setattr(cores, "_LIMITS", tmp_path / "none")
    words = cores.core_dumps(Subject.of(None)).words
    assert "core_pattern is unknown" in words
    assert "first process" not in words
