"""What `curator doctor` prints: each check in a line, and what to do where it is not well."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable

from curator.cli_common import Screen


class NeedsAttention(RuntimeError):
    """A check found something; the lines above say what and what to do."""


def _doctor(arguments: Namespace) -> None:
    """Look at the machine, and at a folder if one is named.

    Raises:
        NeedsAttention: If not all is well.
    """
    from curator.doctor.examine import examine  # torch
    from curator.doctor.finding import Finding, State
    from curator.doctor.subject import Subject

    screen, found = Screen.of(arguments), list[tuple[str, Finding]]()
    for name, finding in examine(Subject.of(arguments.dir)):
        found.append((name, finding))
        show = screen.tell if finding.state is State.OK else screen.show
        show(f"{finding.state:<9}  {name}: {finding.words}")
        if finding.next_step:
            screen.show(f"{'':<9}  next: {finding.next_step}")
    ill = [name for name, finding in found if finding.state is not State.OK]
    screen.answer(
        {
            "well": not ill,
            "checks": [
                {
                    "check": name,
                    "state": str(finding.state),
                    "words": finding.words,
                    "next": finding.next_step,
                    "facts": finding.facts,
                }
                for name, finding in found
            ],
        }
    )
    if ill:
        msg = f"look at {', '.join(ill)}: what to do stands below each"
        raise NeedsAttention(msg)


DOCTOR_COMMANDS: dict[str, Callable[[Namespace], None]] = {"doctor": _doctor}
