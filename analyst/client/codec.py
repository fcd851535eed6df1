"""Tensors to bytes and back."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Self, cast

import numpy as np
import torch
from torch import Tensor

from analyst.client.stream import Answered, Asked
from analyst.errors import BadBatch, ProtocolError
from protos.weir.v1 import release_pb2, tensor_pb2

_MISUNDERSTOOD = (
    "The curator's answer does not fit the images that were sent.",
    "Install the version of this client that the curator's steward uses.",
)
_IMAGE_DIMENSIONS = 4
_INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
_NO_GRAPH = (
    "The images have no graph, so a gradient would reach nothing; nothing was sent.",
    "Give the generator's output itself, without detach() and outside of torch.no_grad().",
)
_NO_LABELS = (
    "One class number is sent for each image, also by a generator that knows no classes: "
    "send torch.zeros(len(images), dtype=torch.long), with label_scale = 0 where there is one."
)
_DTYPES: dict[tensor_pb2.DataType.ValueType, np.dtype[Any]] = {
    tensor_pb2.DATA_TYPE_FLOAT32: np.dtype("<f4"),
    tensor_pb2.DATA_TYPE_INT32: np.dtype("<i4"),
    tensor_pb2.DATA_TYPE_INT64: np.dtype("<i8"),
}
_POWERS: Final = frozenset(2.0**power for power in range(-126, 97))


def encode_step(run_id: str, step: int, images: Tensor, labels: Tensor) -> Asked:
    """Encode a batch of generated images.

    Args:
        run_id: The run.
        step: Counted from 1.
        images: (N, channels, height, width) in [-1, 1].
        labels: (N), class numbers.

    Raises:
        BadBatch: If they are no tensors, or their types or shapes do not fit.
    """
    _check_batch(images, labels)
    pixels = images.detach().to("cpu", torch.float32).contiguous().numpy()
    classes = labels.detach().to("cpu", torch.int64).contiguous().numpy()
    labels_data = classes.astype("<i8", copy=False).tobytes()
    message = release_pb2.StepRequest(
        run_id=run_id,
        step=step,
        images=tensor_pb2.Tensor(data_type=tensor_pb2.DATA_TYPE_FLOAT32, shape=pixels.shape),
        labels=tensor_pb2.Tensor(
            data_type=tensor_pb2.DATA_TYPE_INT64, shape=classes.shape, data=labels_data
        ),
    )
    return Asked(message=message, rows=_bytes_of(pixels))


def _bytes_of(rows: np.ndarray) -> memoryview:
    """Return little-endian bytes, without a copy where they are so already."""
    return rows.astype("<f4", copy=False).reshape(-1).view(np.uint8).data


def _check_batch(images: object, labels: object) -> None:
    """Say in words what would be a puzzle further down.

    Raises:
        BadBatch: If images and labels are not (N, C, H, W) floats and N integers.
    """
    for name, value in (("images", images), ("labels", labels)):
        if not isinstance(value, Tensor):
            msg = f"{name} must be a torch tensor, not {type(value).__name__}."
            remedy = f"Take torch.as_tensor({name})." if value is not None else _NO_LABELS
            raise BadBatch(msg, remedy)
    problem = _misfit(cast("Tensor", images), cast("Tensor", labels))
    if problem is not None:
        raise BadBatch(*problem)


def check_graph(images: Tensor) -> None:
    """Check that a gradient with respect to images would reach something.

    Raises:
        BadBatch: If they have no graph.
    """
    if not images.requires_grad:
        raise BadBatch(*_NO_GRAPH)


def _misfit(images: Tensor, labels: Tensor) -> tuple[str, str] | None:
    """Return what is wrong with types and shapes, and what to send instead."""
    if not images.is_floating_point() or images.dim() != _IMAGE_DIMENSIONS:
        found = f"images are {images.dtype} of shape {tuple(images.shape)}."
        return found, "Send floats of shape (N, channels, height, width) in [-1, 1]."
    if labels.dtype not in _INTEGERS:
        found = f"labels are {labels.dtype}, and class numbers are integers."
        return found, "Send labels.long()."
    if labels.shape != images.shape[:1]:
        found = f"{len(images)} images came with labels of shape {tuple(labels.shape)}."
        return found, "Send one class number for each image."
    return None


def encode_feature_step(run_id: str, step: int, features: Tensor, weights: bytes) -> Asked:
    """Encode features of public images and the weights that they were made with.

    Args:
        run_id: The run.
        step: Counted from 1.
        features: (N, features), finite.
        weights: Of the extractor, as safetensors.
    """
    rows = features.detach().to("cpu", torch.float32).contiguous().numpy()
    tensor = tensor_pb2.Tensor(data_type=tensor_pb2.DATA_TYPE_FLOAT32, shape=rows.shape)
    message = release_pb2.StepRequest(run_id=run_id, step=step, features=tensor, weights=weights)
    return Asked(message=message, rows=_bytes_of(rows))


def decode_gradient(answered: Answered, like: Tensor) -> Tensor:
    """Decode the released gradient.

    Returns:
        The gradient, with the shape, type and device of `like`; exact where that is float64.

    Raises:
        ProtocolError: If the answer does not fit the images.
    """
    blocks = list(_blocks(answered))
    if not blocks or sum(numbers.size for numbers, _ in blocks) != like.numel():
        raise ProtocolError(*_MISUNDERSTOOD)
    precision = np.float64 if like.dtype == torch.float64 else np.float32
    gradient, start = np.empty(like.numel(), dtype=precision), 0
    for numbers, grid in blocks:
        rows = gradient[start : start + numbers.size]
        computed_in = precision if _is_exact(numbers, grid) else np.float64
        np.multiply(numbers.ravel(), grid, out=rows, dtype=computed_in, casting="unsafe")
        start += numbers.size
    decoded = torch.from_numpy(gradient.reshape(like.shape))
    is_as_asked = decoded.dtype is like.dtype and like.device.type == "cpu"
    return decoded if is_as_asked else decoded.to(like.device, like.dtype)


def _is_exact(numbers: np.ndarray, grid: float) -> bool:
    """Return whether integers, rounded to float32, times the grid are the products, rounded.

    So it is for a power of two that makes no product too small or too large for float32.
    """
    return numbers.dtype == np.int32 and grid in _POWERS


def _blocks(answered: Answered) -> Iterator[tuple[np.ndarray, float]]:
    """Yield integers and their grid, or floats and one, of each block.

    Raises:
        ProtocolError: If type or length is not known.
    """
    left = answered.numbers
    for block in answered.message.gradient:
        if left is None:
            yield _numbers(block, block.values.data, is_all=True)
            continue
        numbers, grid = _numbers(block, left)
        left = left[numbers.nbytes :]
        yield numbers, grid
    if left:
        raise ProtocolError(*_MISUNDERSTOOD)


def released_values(block: release_pb2.GradientBlock) -> np.ndarray:
    """Decode one block exactly.

    Returns:
        float64 values in the shape of the block.

    Raises:
        ProtocolError: If its type or length is not known.
    """
    numbers, grid = _numbers(block, block.values.data, is_all=True)
    return np.asarray(numbers * grid, dtype=np.float64)


def _numbers(
    block: release_pb2.GradientBlock, data: bytes | memoryview, *, is_all: bool = False
) -> tuple[np.ndarray, float]:
    """Return integers and their grid, or floats and one.

    Args:
        block: What there is.
        data: Begins with them.
        is_all: Whether nothing else may follow.

    Raises:
        ProtocolError: If type or length is not known.
    """
    dtype, shape = _DTYPES.get(block.values.data_type), tuple(block.values.shape)
    number = math.prod(shape)
    if dtype is None or (not block.grid and dtype.kind != "f"):
        raise ProtocolError(*_MISUNDERSTOOD)
    left = len(data) - number * dtype.itemsize
    if left < 0 or (is_all and left):
        raise ProtocolError(*_MISUNDERSTOOD)
    return np.frombuffer(data, dtype, number).reshape(shape), block.grid or 1.0


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class DownloadedRelease:
    """What a run released when it opened, and the parameters it was opened with."""

    run_id: str
    dataset: str
    mechanism: str
    parameters: dict[str, Any]
    values: Tensor  # float64, exact

    @classmethod
    def of(cls, message: release_pb2.DownloadReleaseResponse) -> Self:
        """Return the release of a message.

        Returns:
            Its blocks joined along the first axis.

        Raises:
            ProtocolError: If it cannot be understood.
        """
        blocks = [released_values(block) for block in message.blocks]
        try:
            values = torch.from_numpy(np.concatenate(blocks))
            parameters = json.loads(message.choice.parameters)
        except ValueError:
            msg = "The curator's release cannot be read."
            raise ProtocolError(msg, "Install the version that the steward uses.") from None
        return cls(
            run_id=message.run_id,
            dataset=message.dataset,
            mechanism=message.choice.mechanism,
            parameters=parameters,
            values=values,
        )
