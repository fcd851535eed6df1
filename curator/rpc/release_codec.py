"""From a `Release` to messages: the only way in which numbers computed from records are encoded."""

from __future__ import annotations

from typing import Final, Protocol

import numpy as np

from curator.ledger.ledger import RunState
from curator.privacy.release import Block, LatticeBlock, Release
from protos.weir.v1 import release_pb2, run_pb2, tensor_pb2

_INT32 = range(-(2**31), 2**31)
_TYPES: Final = {
    "<i4": tensor_pb2.DATA_TYPE_INT32,
    "<i8": tensor_pb2.DATA_TYPE_INT64,
    "<f4": tensor_pb2.DATA_TYPE_FLOAT32,
}


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
        message.values.data = _described(block, message).tobytes()


def describe_blocks(release: Release, blocks: Blocks) -> list[memoryview]:
    """Encode all of the blocks but their numbers, which go beside the message.

    Args:
        release: As for `encode_blocks`.
        blocks: The same.

    Returns:
        The numbers of each block, as its message says.
    """
    return [_described(block, blocks.add()).data for block in release.blocks]


def _described(block: Block, message: release_pb2.GradientBlock) -> np.ndarray:
    """Fill a block's message but for its numbers, and return those."""
    if isinstance(block, LatticeBlock):
        message.grid = block.grid
        numbers = _narrowed(block.integers.numpy())
    else:
        numbers = block.values.numpy().astype("<f4", copy=False)
    message.values.data_type = _TYPES[numbers.dtype.str]
    message.values.shape.extend(numbers.shape)
    return np.ascontiguousarray(numbers)


def _narrowed(integers: np.ndarray) -> np.ndarray:
    """Return int32 if all of them fit, else int64."""
    fit = int(integers.min()) in _INT32 and int(integers.max()) in _INT32
    return integers.astype("<i4" if fit else "<i8")
