"""Names of a package that are imported when they are used, so that a quick command stays quick."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module


def lazily(package: str, homes: Mapping[str, Sequence[str]]) -> Callable[[str], object]:
    """Return a `__getattr__` for a package."""
    home_of = {name: module for module, names in homes.items() for name in names}

    def get(name: str) -> object:
        """Import what is asked for.

        Raises:
            AttributeError: If there is no such name.
        """
        if name not in home_of:
            msg = f"module '{package}' has no attribute '{name}'"
            raise AttributeError(msg)
        return getattr(import_module(home_of[name]), name)

    return get
