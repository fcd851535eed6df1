"""Read the tensors of a step: every check is about the request alone, and never echoes a value."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from curator.errors import MalformedRequest
from curator.privacy.facts import DatasetFacts
from protos.weir.v1 import release_pb2, tensor_pb2

VALUE_MIN, VALUE_MAX = -1.0, 1.0

_IMAGE_DIMENSIONS = 4
_FEATURE_DIMENSIONS = 2
_FLOATS: Final = np.dtype("<f4")
_INTEGERS: Final = np.dtype("<i8")


def decode_features(
    message: release_pb2.StepRequest, max_samples: int, beside: memoryview | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Decode features of public images, and give every row the label 0.

    Args:
        message: As received.
        max_samples: Most rows of one step.
        beside: Bytes of the features, if they are not in the message.

    Returns:
        float32 [rows, features], and int64 [rows].

    Raises:
        MalformedRequest: If there are images too, no weights, or type, shape or a value is wrong.
    """
    if not message.weights or message.HasField("images") or message.HasField("labels"):
        msg = "features come with weights, and without images and labels"
        raise MalformedRequest(msg, "features")
    tensor = message.features
    if tensor.data_type != tensor_pb2.DATA_TYPE_FLOAT32:
        msg = "features must be float32"
        raise MalformedRequest(msg, "features")
    shape = tuple(tensor.shape)
    if len(shape) != _FEATURE_DIMENSIONS or 0 in shape or shape[0] > max_samples:
        msg = f"features must have shape (rows, features) with 1 to {max_samples} rows"
        raise MalformedRequest(msg, "features")
    features = _from_bytes("features", tensor, shape, _FLOATS, beside)
    if not bool(np.isfinite(features).all()):
        msg = "features must be finite"
        raise MalformedRequest(msg, "features")
    return features, np.zeros(len(features), dtype=np.int64)


def decode_images(
    tensor: tensor_pb2.Tensor,
    facts: DatasetFacts,
    max_samples: int,
    beside: memoryview | None = None,
) -> np.ndarray:
    """Decode images.

    Args:
        tensor: As received.
        facts: The data set's public facts.
        max_samples: Most rows of one step.
        beside: Bytes of the images, if they are not in the message.

    Returns:
        float32 [rows, channels, height, width].

    Raises:
        MalformedRequest: If type, shape, length or a value is not valid.
    """
    expected = (facts.channels, facts.height, facts.width)
    if tensor.data_type != tensor_pb2.DATA_TYPE_FLOAT32:
        msg = "images must be float32"
        raise MalformedRequest(msg, "images")
    shape = tuple(tensor.shape)
    if len(shape) != _IMAGE_DIMENSIONS or shape[1:] != expected:
        msg = f"images must have shape (rows, {expected[0]}, {expected[1]}, {expected[2]})"
        raise MalformedRequest(msg, "images")
    if not 1 <= shape[0] <= max_samples:
        msg = f"images must have 1 to {max_samples} rows"
        raise MalformedRequest(msg, "images")
    images = _from_bytes("images", tensor, shape, _FLOATS, beside)
    # a comparison with NaN is false, so NaN and infinity are refused here too
    if not (images.min() >= VALUE_MIN and images.max() <= VALUE_MAX):
        msg = f"images must be finite and in [{VALUE_MIN:g}, {VALUE_MAX:g}]"
        raise MalformedRequest(msg, "images")
    return images


def decode_labels(tensor: tensor_pb2.Tensor, rows: int, num_classes: int) -> np.ndarray:
    """Decode labels.

    Args:
        tensor: As received.
        rows: How many there must be.
        num_classes: Above all of them.

    Returns:
        int64 [rows].

    Raises:
        MalformedRequest: If type, shape, length or a value is not valid.
    """
    if tensor.data_type != tensor_pb2.DATA_TYPE_INT64:
        msg = "labels must be int64"
        raise MalformedRequest(msg, "labels")
    shape = tuple(tensor.shape)
    if shape != (rows,):
        msg = "labels must have one entry per image"
        raise MalformedRequest(msg, "labels")
    labels = _from_bytes("labels", tensor, shape, _INTEGERS)
    if labels.astype("u8").max() >= num_classes:  # as unsigned, one below 0 is above all
        msg = f"labels must be in 0 to {num_classes - 1}"
        raise MalformedRequest(msg, "labels")
    return labels


def _from_bytes(
    name: str,
    tensor: tensor_pb2.Tensor,
    shape: tuple[int, ...],
    dtype: np.dtype,
    beside: memoryview | None = None,
) -> np.ndarray:
    """Read a writable array.

    Raises:
        MalformedRequest: If the number of bytes does not fit the shape.
    """
    data = tensor.data  # each reading of the field is a copy
    if beside is not None and data:
        msg = f"{name} come in the message or beside it, not both"
        raise MalformedRequest(msg, name)
    if len(beside or data) != math.prod(shape) * dtype.itemsize:
        msg = f"{name} must have as many bytes as its shape and type say"
        raise MalformedRequest(msg, name)
    if beside is not None:
        return np.frombuffer(beside, dtype=dtype).reshape(shape)
    return np.frombuffer(data, dtype=dtype).reshape(shape).copy()
