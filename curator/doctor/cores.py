"""Whether a crash would leave memory on the disk: keys, images and noise."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from curator.core_dumps import are_core_dumps_off
from curator.doctor.finding import Finding, attention, well
from curator.doctor.subject import Subject

_PATTERN: Final = Path("/proc/sys/kernel/core_pattern")
_LIMITS: Final = Path("/proc/1/limits")
_LIMIT: Final = "Max core file size"


def core_dumps(_: Subject) -> Finding:
    """Say where this system puts cores, and whether this process, like 'serve', writes none."""
    pattern, limit = _read(_PATTERN).strip(), _limit()
    system = f"the system's core_pattern is {pattern or 'unknown'}"
    system += f", and its services start with {limit}" if limit else ""
    facts: dict[str, object] = {"off": are_core_dumps_off(), "core_pattern": pattern}
    if facts["off"]:
        return well(f"off in this process, as 'curator serve' switches them off; {system}", **facts)
    return attention(
        f"could not be switched off in this process, nor would 'curator serve' manage it; {system}",
        "set 'ulimit -c 0' for the user that serves, and kernel.core_pattern to a place that keeps "
        "none, such as '|/bin/false'",
        **facts,
    )


def _limit() -> str:
    """Return in words which cores a service of this system may write, as far as it is told."""
    for line in _read(_LIMITS).splitlines():
        if line.startswith(_LIMIT):
            soft, hard, unit = line.removeprefix(_LIMIT).split()
            now = "core dumps off" if soft == "0" else f"cores of {_size(soft, unit)}"
            more = "" if hard == soft else f", which each may raise to {_size(hard, unit)}"
            return now + more
    return ""


def _size(limit: str, unit: str) -> str:
    return "any size" if limit == "unlimited" else f"at most {limit} {unit}"


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
