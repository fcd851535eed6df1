"""What a recipe that samples needs to know of a data set."""

from __future__ import annotations

from typing import Protocol

from analyst.recipes.errors import RecipeError


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


def rate_of(expected_batch_size: float, facts: SizeFacts) -> float:
    """Return the sampling rate of an expected batch, by the nominal size.

    Args:
        expected_batch_size: Records of a sample, on average.
        facts: Of the data set.

    Raises:
        RecipeError: If it is more than there are.
    """
    if expected_batch_size > facts.nominal_size:
        message = (
            f"expected_batch_size {expected_batch_size:g} is more than the data set's nominal "
            f"{facts.nominal_size:,}"
        )
        remedy = "Give a smaller --mechanism-expected-batch-size; 'analyst budget' shows the rate."
        raise RecipeError(message, remedy)
    return expected_batch_size / facts.nominal_size
