"""Tensors to bytes and back."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from analyst.errors import ProtocolError
from protos.weir.v1 import release_pb2, tensor_pb2

_MISUNDERSTOOD = (
    "The curator's answer does not fit the images that were sent.",
    "Install the version of this client that the curator's steward uses.",
)
_DTYPES: dict[tensor_pb2.DataType.ValueType, np.dtype[Any]] = {
    tensor_pb2.DATA_TYPE_FLOAT32: np.dtype("<f4"),
    tensor_pb2.DATA_TYPE_INT32: np.dtype("<i4"),
    tensor_pb2.DATA_TYPE_INT64: np.dtype("<i8"),
}


def encode_step(run_id: str, step: int, images: Tensor, labels: Tensor) -> release_pb2.StepRequest:
    """Encode a batch of generated images.

    Args:
        run_id: The run.
        step: Counted from 1.
        images: (N, channels, height, width) in [-1, 1].
        labels: (N), class numbers.

    Returns:
        The message.
    """
    pixels = images.detach().to("cpu", torch.float32).contiguous().numpy()
    classes = labels.detach().to("cpu", torch.int64).contiguous().numpy()
    return release_pb2.StepRequest(
        run_id=run_id,
        step=step,
        images=tensor_pb2.Tensor(
            data=pixels.astype("<f4", copy=False).tobytes(),
            data_type=tensor_pb2.DATA_TYPE_FLOAT32,
            shape=pixels.shape,
        ),
        labels=tensor_pb2.Tensor(
            data=classes.astype("<i8", copy=False).tobytes(),
            data_type=tensor_pb2.DATA_TYPE_INT64,
            shape=classes.shape,
        ),
    )


def decode_gradient(response: release_pb2.StepResponse, like: Tensor) -> Tensor:
    """Decode the released gradient.

    Args:
        response: As received.
        like: The images that were sent.

    Returns:
        The gradient, with the shape, type and device of `like`.

    Raises:
        ProtocolError: If the answer does not fit the images.
    """
    blocks = [_decode_block(block) for block in response.gradient]
    if not blocks or sum(block.size for block in blocks) != like.numel():
        raise ProtocolError(*_MISUNDERSTOOD)
    gradient = np.concatenate([block.reshape(-1) for block in blocks])
    return torch.from_numpy(gradient).reshape(like.shape).to(like.device, like.dtype)


def _decode_block(block: release_pb2.GradientBlock) -> np.ndarray:
    return np.asarray(released_values(block), dtype=np.float32)


def released_values(block: release_pb2.GradientBlock) -> np.ndarray:
    """Decode one block exactly.

    Args:
        block: As received.

    Returns:
        float64 values in the shape of the block.

    Raises:
        ProtocolError: If its type or length is not known.
    """
    tensor = block.values
    dtype = _DTYPES.get(tensor.data_type)
    if dtype is None or len(tensor.data) != math.prod(tensor.shape) * dtype.itemsize:
        raise ProtocolError(*_MISUNDERSTOOD)
    values = np.frombuffer(tensor.data, dtype=dtype).reshape(tuple(tensor.shape))
    if block.grid:
        return np.asarray(values * block.grid, dtype=np.float64)
    if dtype.kind != "f":
        raise ProtocolError(*_MISUNDERSTOOD)
    return np.asarray(values, dtype=np.float64)
