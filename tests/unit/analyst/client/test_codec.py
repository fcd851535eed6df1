"""An answer is what was released: rounded to the type that was asked for, and exact in float64."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from analyst.client.codec import decode_gradient
from analyst.client.stream import Answered
from analyst.errors import ProtocolError
from protos.weir.v1 import release_pb2, tensor_pb2

LATTICE = (2**40 + 1, -3)
GRID = 2.0**-30


def _answer() -> release_pb2.StepResponse:
    values = tensor_pb2.Tensor(
        data=np.array(LATTICE, dtype="<i8").tobytes(),
        data_type=tensor_pb2.DATA_TYPE_INT64,
        shape=(1, 2),
    )
    return release_pb2.StepResponse(gradient=[release_pb2.GradientBlock(values=values, grid=GRID)])


@pytest.mark.parametrize("grid", [2.0**-126, 2.0**-20, 2.0**96, 2.0**-140, 2.0**120, 0.1 / 3])
def test_float32_is_what_rounding_the_exact_products_gives(grid: float) -> None:
    numbers = np.array([1, -3, 2**24 + 1, 2**25 + 3, -(2**31), 2**31 - 1, 0], dtype="<i4")
    values = tensor_pb2.Tensor(data_type=tensor_pb2.DATA_TYPE_INT32, shape=(1, len(numbers)))
    block = release_pb2.GradientBlock(values=values, grid=grid)
    message = release_pb2.StepResponse(gradient=[block])
    with np.errstate(over="ignore"):
        got = decode_gradient(
            Answered(message=message, numbers=memoryview(numbers.tobytes())),
            torch.zeros(1, len(numbers)),
        )
        expected = (numbers.astype(np.float64) * grid).astype(np.float32)
    assert got.numpy().tobytes() == expected.tobytes()


@pytest.mark.parametrize("numbers", [b"\0" * 15, b"\0" * 17, b"", b"\0" * 32])
def test_numbers_beside_an_answer_must_fit_it(numbers: bytes) -> None:
    message = _answer()
    message.gradient[0].values.ClearField("data")
    with pytest.raises(ProtocolError):
        decode_gradient(Answered(message=message, numbers=memoryview(numbers)), torch.zeros(1, 2))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_an_answer_has_the_type_of_what_was_sent(dtype: torch.dtype) -> None:
    got = decode_gradient(Answered(message=_answer()), torch.zeros(1, 2, dtype=dtype))
    exact = torch.tensor([[value * GRID for value in LATTICE]], dtype=torch.float64)
    assert got.dtype == dtype
    assert torch.equal(got, exact.to(dtype))


def test_no_bit_of_a_lattice_point_is_lost_in_float64() -> None:
    got = decode_gradient(Answered(message=_answer()), torch.zeros(1, 2, dtype=torch.float64))
    assert (got / GRID).tolist() == [list(map(float, LATTICE))]
    rounded = decode_gradient(Answered(message=_answer()), torch.zeros(1, 2)).double()
    assert (rounded / GRID).tolist() != [list(map(float, LATTICE))]
