"""From a `Release` to messages: the only way in which numbers computed from records are encoded."""

from __future__ import annotations

from torch import Tensor

from curator.ledger.ledger import RunState
from curator.privacy.release import FloatBlock, LatticeBlock, Release
from protos.weir.v1 import release_pb2, run_pb2, tensor_pb2

_INT32 = range(-(2**31), 2**31)


def encode_release(state: RunState, release: Release) -> release_pb2.DownloadReleaseResponse:
    """Encode the one release of a run: nothing but a `Release` and what the run was opened with.

    Args:
        state: By the ledger.
        release: Of that run.

    Returns:
        The message.
    """
    return release_pb2.DownloadReleaseResponse(
        run_id=state.run_id,
        dataset=state.dataset,
        choice=run_pb2.MechanismChoice(mechanism=state.mechanism, parameters=state.parameters_json),
        blocks=encode_blocks(release),
    )


def encode_blocks(release: Release) -> list[release_pb2.GradientBlock]:
    """Encode the blocks of a release.

    Args:
        release: What the sanitizer made.

    Returns:
        One message a block; lattice integers as int32 when they fit, which depends on released
        values only.
    """
    blocks = []
    for block in release.blocks:
        match block:
            case LatticeBlock():
                values = _encode_integers(block.integers)
                blocks.append(release_pb2.GradientBlock(values=values, grid=block.grid))
            case FloatBlock():
                data = block.values.numpy().astype("<f4", copy=False).tobytes()
                values = _tensor(data, tensor_pb2.DATA_TYPE_FLOAT32, block.values)
                blocks.append(release_pb2.GradientBlock(values=values))
    return blocks


def _encode_integers(integers: Tensor) -> tensor_pb2.Tensor:
    array = integers.numpy()
    if int(array.min()) in _INT32 and int(array.max()) in _INT32:
        return _tensor(array.astype("<i4").tobytes(), tensor_pb2.DATA_TYPE_INT32, integers)
    return _tensor(array.astype("<i8").tobytes(), tensor_pb2.DATA_TYPE_INT64, integers)


def _tensor(
    data: bytes, data_type: tensor_pb2.DataType.ValueType, like: Tensor
) -> tensor_pb2.Tensor:
    return tensor_pb2.Tensor(data=data, data_type=data_type, shape=list(like.shape))
