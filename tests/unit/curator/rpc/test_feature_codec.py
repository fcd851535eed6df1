"""A step on features is decoded completely or refused, like one on images."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch

from analyst.client.codec import encode_feature_step
from curator.errors import MalformedRequest
from curator.rpc.codec import decode_step
from protos.weir.v1 import release_pb2, tensor_pb2
from tests.fakes.facts import small_facts

FACTS = small_facts()
F4, I8 = tensor_pb2.DATA_TYPE_FLOAT32, tensor_pb2.DATA_TYPE_INT64


def features(values: Any = 40.0, shape: tuple[int, ...] = (3, 5)) -> tensor_pb2.Tensor:
    array = np.full(shape, values, dtype="<f4")
    return tensor_pb2.Tensor(data=array.tobytes(), data_type=F4, shape=shape)


def step(**changes: Any) -> release_pb2.StepRequest:
    fields: dict[str, Any] = {
        "run_id": "r",
        "step": 1,
        "features": features(),
        "weights": b"weights",
    } | changes
    return release_pb2.StepRequest(**fields)


def test_a_valid_step() -> None:
    request = decode_step(step(), FACTS, 10)
    assert request.samples.images_ND.shape == (3, 5)
    assert bool((request.samples.images_ND == 40).all())
    assert request.samples.labels_N.tolist() == [0, 0, 0]
    assert request.samples.weights == b"weights"


def test_what_the_analyst_encodes_is_what_the_curator_reads() -> None:
    rows = torch.randn(3, 5, generator=torch.Generator().manual_seed(1))
    asked = encode_feature_step("r", 1, rows, b"weights")
    beside = memoryview(bytearray(asked.rows))
    for request in (
        decode_step(asked.whole(), FACTS, 10),
        decode_step(asked.message, FACTS, 10, beside),
    ):
        assert torch.equal(request.samples.images_ND, rows)
        assert request.samples.weights == b"weights"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"step": 0}, "step"),
        ({"weights": b""}, "come with weights"),
        ({"features": tensor_pb2.Tensor()}, "float32"),
        ({"features": None}, "float32"),
        ({"features": features(shape=(3, 1, 5))}, "shape"),
        ({"features": features(shape=(0, 5))}, "1 to 10 rows"),
        ({"features": features(shape=(3, 0))}, "shape"),
        ({"features": features(shape=(11, 5))}, "1 to 10 rows"),
        ({"features": tensor_pb2.Tensor(data=b"", data_type=F4, shape=(3, 5))}, "bytes"),
        ({"features": tensor_pb2.Tensor(data=b"\0" * 60, data_type=I8, shape=(3, 5))}, "float32"),
        ({"features": tensor_pb2.Tensor(data_type=F4, shape=(3, 2**32 - 1))}, "bytes"),
        ({"features": features(np.nan)}, "finite"),
        ({"features": features(np.inf)}, "finite"),
        ({"images": features(shape=(3, 1, 2, 2))}, "without images"),
        ({"labels": tensor_pb2.Tensor(data=b"\0" * 24, data_type=I8, shape=(3,))}, "without"),
    ],
)
def test_anything_else_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(MalformedRequest, match=words):
        decode_step(step(**changes), FACTS, 10)


def test_other_features_or_weights_are_another_request() -> None:
    asked = [
        decode_step(request, FACTS, 10).samples.digested()
        for request in (
            step(),
            step(weights=b"weight"),
            step(features=features(41.0)),
            step(features=features(shape=(5, 3))),
        )
    ]
    assert not any(one.equals(other) for one, other in itertools.permutations(asked, 2))
    assert asked[0].equals(decode_step(step(step=7), FACTS, 10).samples.digested())
    assert all(len(one.weights) == 32 for one in asked)
