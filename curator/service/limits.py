"""Sizes beyond which a request is refused: the section `limits` of the steward's configuration."""

from __future__ import annotations

from typing import Final

from pydantic import BaseModel, ConfigDict, Field

ENVELOPE_BYTES: Final = 4096  # of a request, around its numbers


class Limits(BaseModel):
    """Sizes beyond which a request is refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    max_message_mib: int = Field(default=64, ge=1, le=1024)
    max_samples: int = Field(default=4096, ge=1, le=1 << 16)
    max_open_runs: int = Field(default=64, ge=1, le=1 << 16)  # of one analyst, over all data sets
    max_state_mib: int = Field(default=4096, ge=1, le=1 << 24)  # kept by all open runs
    idle_hours: float = Field(default=24.0, gt=0, le=8760, allow_inf_nan=False)

    @property
    def max_message_bytes(self) -> int:
        """The largest request, in bytes."""
        return self.max_message_mib << 20

    def most_rows(self, numbers_per_row: int, other_bytes: int = 0) -> int:
        """Return how many rows of 4-byte numbers a request has room for; labels come with them.

        Args:
            numbers_per_row: Pixels, or features.
            other_bytes: What comes beside the rows.
        """
        room = self.max_message_bytes - ENVELOPE_BYTES - other_bytes
        return min(self.max_samples, max(0, room // (4 * numbers_per_row + 8)))

    @property
    def max_state_bytes(self) -> int:
        """What all open runs may keep between steps, in bytes."""
        return self.max_state_mib << 20
