"""Where the curator's arithmetic runs: the processor, or one graphics card for all of it."""

from __future__ import annotations

from typing import Final

import torch

_chosen: dict[str, torch.device] = {}
_PROCESSOR: Final = torch.device("cpu")


class DeviceUnavailable(RuntimeError):
    """The device that was asked for is not there."""


def choose_device(wanted: str) -> torch.device:
    """Choose the device for every run of this process.

    Args:
        wanted: `cpu`, `cuda`, or `cuda:1` and so on for another card than the first.

    Raises:
        DeviceUnavailable: If there is no such device, or this torch cannot use it.
    """
    device = torch.device(wanted)
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        msg = (
            f"compute.device = '{wanted}' is not there for this torch; take 'cpu', or install a "
            "torch build for CUDA and check that nvidia-smi shows the card"
        )
        raise DeviceUnavailable(msg)
    _chosen["device"] = device
    return device


def compute_device() -> torch.device:
    """Return the chosen device; the processor when none was."""
    return _chosen.get("device", _PROCESSOR)
