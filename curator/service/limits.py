"""Sizes beyond which a request is refused: the section `limits` of the steward's configuration."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


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

    @property
    def max_state_bytes(self) -> int:
        """What all open runs may keep between steps, in bytes."""
        return self.max_state_mib << 20
