"""An answer is what was released: rounded to the type that was asked for, and exact in float64."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from analyst.client.codec import decode_gradient
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


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_an_answer_has_the_type_of_what_was_sent(dtype: torch.dtype) -> None:
    got = decode_gradient(_answer(), torch.zeros(1, 2, dtype=dtype))
    exact = torch.tensor([[value * GRID for value in LATTICE]], dtype=torch.float64)
    assert got.dtype == dtype
    assert torch.equal(got, exact.to(dtype))


def test_no_bit_of_a_lattice_point_is_lost_in_float64() -> None:
    got = decode_gradient(_answer(), torch.zeros(1, 2, dtype=torch.float64))
    assert (got / GRID).tolist() == [list(map(float, LATTICE))]
    rounded = decode_gradient(_answer(), torch.zeros(1, 2)).double()
    assert (rounded / GRID).tolist() != [list(map(float, LATTICE))]
