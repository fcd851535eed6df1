"""Whether what a steward named is there, in the words of the steward's commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from curator.errors import UnknownDataset
from curator.folder import CuratorFolder
from curator.service.caller import Role

if TYPE_CHECKING:
    from curator.ledger.ledger import DatasetState, Ledger


class NotThere(ValueError):
    """Nothing has this name; the text says which command lists the names."""


def known_dataset(ledger: Ledger, name: str) -> DatasetState:
    """Return a data set.

    Raises:
        NotThere: If there is none of this name.
    """
    try:
        return ledger.dataset(name)
    except UnknownDataset:
        msg = f"there is no data set '{name}'; 'curator dataset list' shows them"
        raise NotThere(msg) from None


def check_analyst(folder: CuratorFolder, name: str) -> None:
    """Check that an analyst was added: a share of a mistyped name would leave the real one free.

    Raises:
        NotThere: If no analyst has this name.
    """
    names = [one.name for one in folder.tokens.callers() if one.role is Role.ANALYST]
    if name not in names:
        msg = (
            f"there is no analyst '{name}'; 'curator analyst list' shows them, and 'curator "
            "analyst add' adds one"
        )
        raise NotThere(msg)
