"""A release as bytes for the ledger, so that what was paid for once is never noised again."""

from __future__ import annotations

import json

import numpy as np
import torch

from curator.privacy.release import FloatBlock, LatticeBlock, Release

_VERSION = 1


def encode_release(release: Release) -> bytes:
    """Serialise a release exactly.

    Returns:
        One JSON header line, then the blocks' bytes (int64 or float32, little-endian).
    """
    header: list[dict[str, object]] = []
    payload: list[bytes] = []
    for block in release.blocks:
        match block:
            case LatticeBlock():
                header.append({"shape": list(block.integers.shape), "grid": block.grid.hex()})
                payload.append(block.integers.numpy().astype("<i8").tobytes())
            case FloatBlock():
                header.append({"shape": list(block.values.shape), "grid": None})
                payload.append(block.values.numpy().astype("<f4").tobytes())
    line = json.dumps({"version": _VERSION, "blocks": header}, separators=(",", ":"))
    return line.encode() + b"\n" + b"".join(payload)


def decode_release(data: bytes) -> Release:
    """Read what `encode_release` wrote.

    Args:
        data: The bytes that were kept.

    Raises:
        ValueError: If the bytes are damaged.
    """
    line, _, rest = data.partition(b"\n")
    header = json.loads(line)
    if header.get("version") != _VERSION:
        msg = "the kept release has another version"
        raise ValueError(msg)
    blocks: list[LatticeBlock | FloatBlock] = []
    for entry in header["blocks"]:
        dtype = np.dtype("<f4") if entry["grid"] is None else np.dtype("<i8")
        size = dtype.itemsize * int(np.prod(entry["shape"]))
        part, rest = rest[:size], rest[size:]
        values = torch.from_numpy(np.frombuffer(part, dtype=dtype).reshape(entry["shape"]).copy())
        if entry["grid"] is None:
            blocks.append(FloatBlock(values=values))
        else:
            blocks.append(LatticeBlock(integers=values, grid=float.fromhex(entry["grid"])))
    if rest:
        msg = "the kept release has trailing bytes"
        raise ValueError(msg)
    return Release(blocks=tuple(blocks))
