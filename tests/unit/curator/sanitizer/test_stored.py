"""A release is kept bit for bit, and post-processing only ever appends or maps released values."""

from __future__ import annotations

import pytest
import torch

from curator.privacy.release import FloatBlock, LatticeBlock, Release
from curator.sanitizer.post_process import append_public_rows, post_process, release_values
from curator.sanitizer.stored import decode_release, encode_release


def a_release() -> Release:
    integers = torch.tensor([[1, -(2**40)], [3, 0]])
    return append_public_rows(
        Release(blocks=(LatticeBlock(integers=integers, grid=0.1 / 3),)), torch.full((1, 2), 0.25)
    )


def test_round_trip() -> None:
    release = a_release()
    again = decode_release(encode_release(release))
    assert torch.equal(release_values(again), release_values(release))
    assert [type(block) for block in again.blocks] == [LatticeBlock, FloatBlock]


@pytest.mark.parametrize("damage", [lambda b: b[:-1], lambda b: b + b"\0", lambda b: b"{}" + b])
def test_damaged_bytes_are_refused(damage: object) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - several texts
        decode_release(damage(encode_release(a_release())))  # type: ignore[operator]


def test_values_and_public_rows_follow_each_other() -> None:
    values = release_values(a_release())
    assert values.shape == (3, 2)
    assert values[2].tolist() == [0.25, 0.25]
    assert values[0, 0] == 0.1 / 3


def test_post_processing_maps_released_values() -> None:
    (block,) = post_process(a_release(), lambda values: values * 2).blocks
    assert isinstance(block, FloatBlock)
    assert torch.equal(block.values, (release_values(a_release()) * 2).float())
