"""Who is asking, as the shell has established it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Role(StrEnum):
    """What a caller is here for."""

    ANALYST = "analyst"
    STEWARD = "steward"
    AUDITOR = "auditor"  # reads everything and changes nothing


@dataclass(frozen=True, slots=True)
class Caller:
    """An authenticated caller."""

    name: str
    role: Role

    @property
    def sees_everything(self) -> bool:
        """Whether the runs of all analysts are visible."""
        return self.role in {Role.STEWARD, Role.AUDITOR}
