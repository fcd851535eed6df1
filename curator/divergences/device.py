"""Where the curator's arithmetic runs: the processor, or one graphics card for all of it.

Proofs of sensitivity rest on float64 products of integers being exact, so a card where they are not
is refused. Matrices in single precision are multiplied there without cutting factors short.
"""

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
        DeviceUnavailable: If there is no such device, if this torch cannot use it, or if it does
            not multiply integers exactly.
    """
    device = torch.device(wanted)
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        msg = (
            f"compute.device = '{wanted}' is not there for this torch; take 'cpu', or install a "
            "torch build for CUDA and check that nvidia-smi shows the card"
        )
        raise DeviceUnavailable(msg)
    if device.type == "cuda":
        _check_card(device)
    _chosen["device"] = device
    return device


def compute_device() -> torch.device:
    """Return the chosen device; the processor when none was."""
    return _chosen.get("device", _PROCESSOR)


def _check_card(card: torch.device) -> None:
    """Let products of matrices cut no factor short, and ask the card for one that is known.

    Raises:
        DeviceUnavailable: If it is another one, or there is none.
    """
    torch.set_float32_matmul_precision("highest")
    try:
        reason = (
            "" if multiplies_exactly(card) else "its float64 products of integers are not exact"
        )
    except RuntimeError as fault:
        reason = f"it does not multiply: {fault}"
    if reason:
        msg = (
            f"compute.device = '{card}' cannot be used: {reason}; take 'cpu', or a driver and a "
            "torch build whose cuBLAS does not emulate double precision"
        )
        raise DeviceUnavailable(msg)


def multiplies_exactly(device: torch.device) -> bool:
    """Return whether a float64 product of integers is exact on a device.

    Sums are about 2^51, as near to where float64 ends as those of records may be, and the matrices
    as large as theirs, since a library chooses its algorithm by size. The product is compared, in
    int64, by what it makes of a few columns of zeros and ones.

    Privacy:
        The integers are public constants.
    """
    rows, inputs, outputs, columns = 512, 2048, 1024, 16
    left = _spread_integers(rows * inputs, 25).reshape(rows, inputs)
    right = _spread_integers(inputs * outputs, 17).reshape(inputs, outputs) - (1 << 14)
    chosen = _spread_integers(outputs * columns, 1).reshape(outputs, columns)
    product = left.to(device).to(torch.float64) @ right.to(device).to(torch.float64)
    found = product.to("cpu").to(torch.int64) @ chosen  # about 2^60
    return torch.equal(found, left @ (right @ chosen))


def _spread_integers(number: int, bits: int) -> torch.Tensor:
    """Return integers of so many bits that look like random ones: the upper bits of multiples."""
    words = torch.arange(1, number + 1) * 0x61C8864680B583EB  # modulo 2^64
    return (words >> (64 - bits)) & ((1 << bits) - 1)
