"""A step is decoded completely or refused; nothing but the request decides."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch

from curator.errors import MalformedRequest
from curator.privacy.release import FloatBlock, LatticeBlock, Release
from curator.rpc.codec import decode_step, encode_answer
from curator.service.live_run import Answer
from protos.weir.v1 import release_pb2, tensor_pb2
from tests.fakes.facts import small_facts

FACTS = small_facts()
F4, I8 = tensor_pb2.DATA_TYPE_FLOAT32, tensor_pb2.DATA_TYPE_INT64


def images(values: Any = 0.5, shape: tuple[int, ...] = (3, 1, 2, 2)) -> tensor_pb2.Tensor:
    array = np.full(shape, 0, dtype="<f4")
    array[...] = values
    return tensor_pb2.Tensor(data=array.tobytes(), data_type=F4, shape=shape)


def labels(values: Any = (0, 1, 2)) -> tensor_pb2.Tensor:
    array = np.array(values, dtype="<i8")
    return tensor_pb2.Tensor(data=array.tobytes(), data_type=I8, shape=array.shape)


def step(**changes: Any) -> release_pb2.StepRequest:
    fields: dict[str, Any] = {
        "run_id": "r",
        "step": 1,
        "images": images(),
        "labels": labels(),
    } | changes
    return release_pb2.StepRequest(**fields)


def test_a_valid_step() -> None:
    request = decode_step(step(), FACTS, 10)
    assert request.samples.images_ND.shape == (3, 4)
    assert request.samples.labels_N.tolist() == [0, 1, 2]


def one_value(value: float) -> tensor_pb2.Tensor:
    array = np.zeros((3, 1, 2, 2), dtype="<f4")
    array[2, 0, 1, 1] = value
    return tensor_pb2.Tensor(data=array.tobytes(), data_type=F4, shape=array.shape)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"step": 0}, "step"),
        ({"images": tensor_pb2.Tensor()}, "float32"),
        ({"images": images(shape=(3, 2, 2))}, "shape"),
        ({"images": images(shape=(3, 1, 2, 3))}, "shape"),
        ({"images": images(shape=(0, 1, 2, 2)), "labels": labels(())}, "1 to 10 rows"),
        ({"images": images(shape=(11, 1, 2, 2)), "labels": labels([0] * 11)}, "1 to 10 rows"),
        ({"images": tensor_pb2.Tensor(data=b"", data_type=F4, shape=(3, 1, 2, 2))}, "bytes"),
        ({"images": tensor_pb2.Tensor(data=b"\0" * 49, data_type=F4, shape=(3, 1, 2, 2))}, "bytes"),
        ({"images": tensor_pb2.Tensor(data=b"\0" * 48, data_type=I8, shape=(3, 1, 2, 2))}, "float"),
        ({"images": one_value(np.nan)}, "finite"),
        ({"images": one_value(np.inf)}, "finite"),
        ({"images": one_value(-np.inf)}, "finite"),
        ({"images": one_value(1.0001)}, r"\[-1, 1\]"),
        ({"images": one_value(-1.0001)}, r"\[-1, 1\]"),
        ({"labels": tensor_pb2.Tensor()}, "int64"),
        ({"labels": labels([0, 1])}, "one entry per image"),
        ({"labels": labels([[0], [1], [2]])}, "one entry per image"),
        ({"labels": tensor_pb2.Tensor(data=b"\0" * 23, data_type=I8, shape=(3,))}, "bytes"),
        ({"labels": labels([0, 1, 3])}, "0 to 2"),
        ({"labels": labels([0, -1, 2])}, "0 to 2"),
        ({"labels": labels([0, 2**63 - 1, 2])}, "0 to 2"),
    ],
)
def test_a_bad_step_is_refused_with_the_field(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(MalformedRequest, match=words) as caught:
        decode_step(step(**changes), FACTS, 10)
    assert "nan" not in str(caught.value).lower()


def test_an_absurd_shape_allocates_nothing() -> None:
    huge = tensor_pb2.Tensor(data=b"", data_type=F4, shape=(2**32 - 1, 1, 2, 2))
    with pytest.raises(MalformedRequest, match="rows"):
        decode_step(step(images=huge), FACTS, 10)


def test_a_request_is_its_images_labels_and_shape() -> None:
    asked = [
        decode_step(request, FACTS, 10).samples.digested()
        for request in (
            step(),
            step(images=one_value(0.5)),
            step(images=one_value(0.25)),
            step(labels=labels([0, 1, 1])),
            step(images=images(shape=(2, 1, 2, 2)), labels=labels([0, 1])),
        )
    ]
    assert not any(one.equals(other) for one, other in itertools.permutations(asked, 2))
    assert asked[0].equals(decode_step(step(step=7), FACTS, 10).samples.digested())


def test_an_answer_carries_integers_and_the_grid_exactly() -> None:
    integers = torch.tensor([[1, -(2**31)], [2**31 - 1, 0]])
    release = Release(
        blocks=(
            LatticeBlock(integers=integers, grid=0.1 / 3),
            FloatBlock(values=torch.tensor([[0.25, -0.5]])),
        )
    )
    answer = Answer(step=4, release=release, spent_epsilon=1.0, budget_epsilon=10.0)
    message = encode_answer("r", answer)
    first, second = message.gradient
    assert first.grid == 0.1 / 3
    assert first.values.data_type == tensor_pb2.DATA_TYPE_INT32
    assert np.frombuffer(first.values.data, "<i4").tolist() == integers.flatten().tolist()
    assert second.grid == 0
    assert np.frombuffer(second.values.data, "<f4").tolist() == [0.25, -0.5]


def test_numbers_beside_an_answer_are_those_within() -> None:
    blocks = (
        LatticeBlock(integers=torch.tensor([[1, -(2**31)], [2**31 - 1, 0]]), grid=0.5),
        LatticeBlock(integers=torch.tensor([[2**40]]), grid=1.0),
        FloatBlock(values=torch.tensor([[0.25, -0.5]]).T),
    )
    answer = Answer(step=4, release=Release(blocks=blocks), spent_epsilon=1.0, budget_epsilon=10.0)
    beside: list[memoryview] = []
    parted, whole = encode_answer("r", answer, beside), encode_answer("r", answer)
    assert [bytes(one) for one in beside] == [one.values.data for one in whole.gradient]
    for block in whole.gradient:
        block.values.ClearField("data")
    assert parted == whole


def test_images_beside_a_step_are_read_in_place_and_only_once() -> None:
    message, rows = step(), bytearray(images().data)
    with pytest.raises(MalformedRequest, match="not both"):
        decode_step(message, FACTS, 10, memoryview(rows))
    message.images.ClearField("data")
    request = decode_step(message, FACTS, 10, memoryview(rows))
    assert request.samples.images_ND.tolist() == [[0.5] * 4] * 3
    assert request.samples.images_ND.data_ptr() == np.frombuffer(rows, np.uint8).ctypes.data
    for wrong in (rows[1:], rows + b"x", b""):
        with pytest.raises(MalformedRequest, match="as many bytes"):
            decode_step(message, FACTS, 10, memoryview(bytearray(wrong)))


def test_integers_beyond_32_bits_are_sent_in_64() -> None:
    block = LatticeBlock(integers=torch.tensor([[2**40]]), grid=1.0)
    answer = Answer(step=1, release=Release(blocks=(block,)), spent_epsilon=0.0, budget_epsilon=1.0)
    values = encode_answer("r", answer).gradient[0].values
    assert np.frombuffer(values.data, "<i8").tolist() == [2**40]
