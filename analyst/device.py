"""Whether torch can use a device here: asked before a run is opened and before hours of work."""

from __future__ import annotations

import torch

from analyst.errors import AnalystError


def check_device(device: str, problem: type[AnalystError]) -> None:
    """Try a device.

    Raises:
        AnalystError: `problem`, if torch cannot use the device.
    """
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError):  # the second: torch was built without that backend
        message = f"torch cannot use the device '{device}' here"
        raise problem(message, "Give --device cpu, or one that torch sees.") from None
