"""Nothing private is used."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

from curator.accounting.events.base import LoneEvent, PrivacyEvent


@final
@dataclass(frozen=True, slots=True)
class NoEvent(PrivacyEvent):
    """Nothing private is used."""

    name: ClassVar[str] = "none"

    @property
    def parts(self) -> tuple[LoneEvent, ...]:
        """None."""
        return ()

    def in_words(self) -> str:
        """Return a phrase."""
        return "nothing private"
