"""Weights that an analyst sends: bytes in the safetensors layout, and never anything else.

They are adversarial input. Everything is checked against sizes that were agreed when the run
opened, before a charge and without a look at any record; nothing in the bytes is ever executed.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import torch
from safetensors import SafetensorError, deserialize
from torch import Tensor

from curator.divergences.architectures import Architecture
from curator.divergences.feature_nets import FeatureShape
from curator.errors import MalformedRequest
from curator.privacy.batches import ImageSpace

_MOST_HEADER_BYTES: Final = 1 << 14
_LENGTH_BYTES: Final = 8
_ITEM_BYTES: Final = 4


def extractor_shape(
    architecture: Architecture, num_features: int, space: ImageSpace
) -> FeatureShape:
    """Return the sizes of an extractor of images.

    Raises:
        MalformedRequest: If it does not fit images of this size.

    Privacy:
        Reads the request and public facts only.
    """
    try:
        return FeatureShape(
            architecture=architecture,
            channels=space.channels,
            height=space.height,
            width=space.width,
            max_level=space.max_level,
            num_features=num_features,
        )
    except ValueError as error:  # its words are about public sizes
        raise MalformedRequest(str(error)) from None


def weight_bytes(sizes: Mapping[str, tuple[int, ...]]) -> int:
    """Return the most bytes that weights of these sizes may have."""
    return _numbers_bytes(sizes) + _LENGTH_BYTES + _MOST_HEADER_BYTES


def _numbers_bytes(sizes: Mapping[str, tuple[int, ...]]) -> int:
    return _ITEM_BYTES * sum(math.prod(size) for size in sizes.values())


def read_weights(
    data: bytes, sizes: Mapping[str, tuple[int, ...]], largest: float
) -> dict[str, Tensor]:
    """Return weights by name.

    Args:
        data: As received.
        sizes: The name and shape of every tensor; no other is accepted.
        largest: Bound on the size of every value.

    Returns:
        Finite float32 tensors of these sizes.

    Raises:
        MalformedRequest: With the name of a tensor and the rule that is broken; what was sent is
            never repeated.

    Privacy:
        Reads the request and public facts only.
    """
    payload = _numbers_bytes(sizes)
    header = len(data) - payload
    if not _LENGTH_BYTES < header <= _LENGTH_BYTES + _MOST_HEADER_BYTES:
        detail = f"weights: expected safetensors with {payload} bytes of numbers"
        raise MalformedRequest(detail)
    try:
        parts = dict(deserialize(data))  # type: ignore[no-untyped-call]
    except (SafetensorError, ValueError):
        detail = "weights: not valid safetensors"
        raise MalformedRequest(detail) from None
    if parts.keys() != sizes.keys():
        wanted = f"tensors named {', '.join(sizes)}" if sizes else "no tensors"
        detail = f"weights: expected {wanted}"
        raise MalformedRequest(detail)
    return {name: _tensor(name, parts[name], size, largest) for name, size in sizes.items()}


def digest_of(weights: Mapping[str, Tensor]) -> bytes:
    """Return a digest of the values: a header that differs does not make other weights."""
    digest = hashlib.sha256()
    for values in weights.values():
        digest.update(values.numpy().tobytes())
    return digest.digest()


def _tensor(name: str, part: Mapping[str, Any], size: tuple[int, ...], largest: float) -> Tensor:
    """Return one tensor.

    Raises:
        MalformedRequest: If type, shape or a value is not valid.
    """
    if part["dtype"] != "F32" or tuple(part["shape"]) != size:
        detail = f"weights: {name} must be float32 of shape {size}"
        raise MalformedRequest(detail)
    values = np.frombuffer(bytes(part["data"]), dtype="<f4").reshape(size).copy()
    if not bool((np.abs(values) <= largest).all()):  # false for NaN
        detail = f"weights: {name} must be finite and at most {largest:g} in size"
        raise MalformedRequest(detail)
    return torch.from_numpy(values)
