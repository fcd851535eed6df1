"""From a `Release` to messages: the only way in which numbers computed from records are encoded."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from curator.ledger.ledger import RunState
from curator.privacy.release import FloatBlock, LatticeBlock, Release
from protos.weir.v1 import release_pb2, run_pb2, tensor_pb2

_INT32 = range(-(2**31), 2**31)


def encode_release(state: RunState, release: Release) -> release_pb2.DownloadReleaseResponse:
    """Encode the one release of a run: nothing but a `Release` and what the run was opened with."""
    message = release_pb2.DownloadReleaseResponse(
        run_id=state.run_id,
        dataset=state.dataset,
        choice=run_pb2.MechanismChoice(mechanism=state.mechanism, parameters=state.parameters_json),
    )
    encode_blocks(release, message.blocks)
    return message


class Blocks(Protocol):
    """The repeated field that a release is written into."""

    def add(self) -> release_pb2.GradientBlock:
        """Return a new block at the end."""
        ...


def encode_blocks(release: Release, blocks: Blocks) -> None:
    """Encode the blocks of a release in place: a message that is given to another is copied.

    Args:
        release: What the sanitizer made.
        blocks: Gets one message a block; lattice integers as int32 when they fit, which depends on
            released values only.
    """
    for block in release.blocks:
        message = blocks.add()
        match block:
            case LatticeBlock():
                message.grid = block.grid
                _encode_integers(block.integers, message.values)
            case FloatBlock():
                data = block.values.numpy().astype("<f4", copy=False).tobytes()
                _fill(message.values, data, tensor_pb2.DATA_TYPE_FLOAT32, block.values)


def _encode_integers(integers: Tensor, values: tensor_pb2.Tensor) -> None:
    array = integers.numpy()
    if int(array.min()) in _INT32 and int(array.max()) in _INT32:
        _fill(values, array.astype("<i4").tobytes(), tensor_pb2.DATA_TYPE_INT32, integers)
    else:
        _fill(values, array.astype("<i8").tobytes(), tensor_pb2.DATA_TYPE_INT64, integers)


def _fill(
    values: tensor_pb2.Tensor, data: bytes, data_type: tensor_pb2.DataType.ValueType, like: Tensor
) -> None:
    values.data = data
    values.data_type = data_type
    values.shape.extend(like.shape)
