"""`curator doctor`: each check in a line, and what to do where it is not well."""

from __future__ import annotations

from pathlib import Path

import typer

from curator.cli.command import NeedsAttention, Task, command
from curator.cli.options import option

app = typer.Typer()


@command(app, "doctor --dir /srv/weir", "doctor --json > doctor.json", reads=True)
def doctor(
    task: Task,
    *,
    folder: Path | None = option(
        "The curator's folder; without it, the machine alone.", "DIR", "--dir"
    ),
) -> None:
    """Say how this machine and a curator's folder are, and what to do.

    Look at processor, versions, the bodies that compute with their measured errors and times,
    clock and randomness; with --dir also at the folder's permissions, disk, ledger and ports. It
    changes nothing, reads nothing private, and works while the curator serves and when the folder
    is broken. Exit code 0: all is well; 5: something needs attention, and its line says what to do.

    Raises:
        NeedsAttention: If not all is well.
    """
    from curator.doctor.examine import examine  # torch
    from curator.doctor.finding import Finding, State
    from curator.doctor.subject import Subject

    screen, found = task.screen, list[tuple[str, Finding]]()
    for name, finding in examine(Subject.of(folder)):
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
        msg = f"look at {', '.join(ill)}: what to do stands above, under each"
        raise NeedsAttention(msg)
