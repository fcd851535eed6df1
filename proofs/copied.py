"""Modules of the code, or of a copy of it that is not installed."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType


def module(path: Path) -> ModuleType:
    """Return a module made from one file; what it imports is the installed code.

    Raises:
        ImportError: If there is none.
    """
    name = f"copied_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        msg = f"{path} is no module"
        raise ImportError(msg)
    made = importlib.util.module_from_spec(spec)
    sys.modules[name] = made  # data classes look for their own
    try:
        spec.loader.exec_module(made)
    finally:
        del sys.modules[name]
    return made
