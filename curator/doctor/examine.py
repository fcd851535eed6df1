"""All checks in their order; one that fails itself is a finding too, and stops no other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from curator.doctor.cores import core_dumps
from curator.doctor.disk import disk
from curator.doctor.finding import Finding, fault
from curator.doctor.handed_over import handed_over
from curator.doctor.machine import clock, entropy, versions
from curator.doctor.permissions import configuration, permissions
from curator.doctor.ports import ports
from curator.doctor.processor import processor
from curator.doctor.subject import Subject


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """One check by its name; `of_folder` if it looks at a curator's folder."""

    name: str
    look: Callable[[Subject], Finding]
    of_folder: bool = False


def _bodies(subject: Subject) -> Finding:
    from curator.doctor.bodies import bodies  # here: a missing torch is a finding

    return bodies(subject)


def _ledger(subject: Subject) -> Finding:
    from curator.doctor.ledger import ledger  # here: a missing SQLAlchemy is a finding

    return ledger(subject)


def _standbys(subject: Subject) -> Finding:
    from curator.doctor.standbys import standbys  # as above

    return standbys(subject)


CHECKS: Final = (
    Check(name="processor", look=processor),
    Check(name="versions", look=versions),
    Check(name="configuration", look=configuration, of_folder=True),
    Check(name="solver", look=_bodies),
    Check(name="clock", look=clock),
    Check(name="entropy", look=entropy),
    Check(name="core dumps", look=core_dumps),
    Check(name="permissions", look=permissions, of_folder=True),
    Check(name="credentials", look=handed_over, of_folder=True),
    Check(name="disk", look=disk, of_folder=True),
    Check(name="ledger", look=_ledger, of_folder=True),
    Check(name="standbys", look=_standbys, of_folder=True),
    Check(name="ports", look=ports, of_folder=True),
)
"""What `curator doctor` looks at; a new check is one line here and one function."""


def examine(subject: Subject) -> Iterator[tuple[str, Finding]]:
    """Yield the name and the finding of each check, as soon as it is there.

    Args:
        subject: Without a folder, the checks of folders are left out.
    """
    for check in CHECKS:
        if check.of_folder and subject.folder is None:
            continue
        try:
            yield check.name, check.look(subject)
        except Exception as problem:  # noqa: BLE001 - the other checks are still wanted
            yield (
                check.name,
                fault(
                    f"could not be looked at: {_told(problem)}",
                    "report this line with the others; 'curator serve' may work all the same",
                ),
            )


def _told(problem: Exception) -> str:
    """Return what may be said of an error: what it is, and of which file or package."""
    if isinstance(problem, OSError) and problem.strerror:
        return f"{problem.filename}: {problem.strerror}"
    if isinstance(problem, ImportError) and problem.name:
        return f"{problem.name} is not installed"
    return type(problem).__name__
