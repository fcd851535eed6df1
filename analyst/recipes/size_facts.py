"""What a recipe that samples needs to know of a data set."""

from __future__ import annotations

from typing import Protocol


class SizeFacts(Protocol):
    """The public facts that the rate and the capacity may depend on."""

    @property
    def nominal_size(self) -> int:
        """The public size that sampling rates refer to."""
        ...

    @property
    def capacity(self) -> int:
        """Rows that a private batch is padded to."""
        ...
