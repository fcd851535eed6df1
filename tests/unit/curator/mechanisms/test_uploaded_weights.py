"""Weights as they arrive in a request: adversarial bytes, refused without a look at any record."""

from __future__ import annotations

import json
import random
import struct
from typing import Any

import pytest
import torch
from safetensors.torch import save
from torch import Tensor

from curator.errors import MalformedRequest
from curator.mechanisms.uploaded_weights import read_weights

SIZES = {"a.weight": (3, 2), "a.bias": (3,)}
LARGEST = 16.0


def tensors(**changes: Tensor) -> dict[str, Tensor]:
    values = {"a.weight": torch.arange(6).reshape(3, 2) / 4, "a.bias": torch.tensor([0.0, -16, 16])}
    return values | changes


def with_value(value: float) -> bytes:
    return save(tensors(**{"a.bias": torch.tensor([0.0, value, 1.0])}))


def packed(header: Any, payload: bytes = b"\0" * 36) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + payload


ENTRIES: dict[str, Any] = {
    "a.bias": {"dtype": "F32", "shape": [3], "data_offsets": [0, 12]},
    "a.weight": {"dtype": "F32", "shape": [3, 2], "data_offsets": [12, 36]},
}


def changed(name: str, **fields: Any) -> dict[str, Any]:
    return {**ENTRIES, name: ENTRIES[name] | fields}


def test_declared_weights_are_read_exactly() -> None:
    read = read_weights(save(tensors()), SIZES, LARGEST)
    assert list(read) == list(SIZES)
    for name, value in tensors().items():
        assert torch.equal(read[name], value)
    assert read_weights(packed(ENTRIES), SIZES, LARGEST)["a.bias"].tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "expected safetensors with 36 bytes"),
        (b"\0" * 44, "expected safetensors"),
        (save(tensors())[:-1], "not valid|expected"),
        (save(tensors()) + b"\0", "not valid"),
        (save(tensors()) + b"\0" * (1 << 15), "expected safetensors"),
        (save(tensors(), {"pad": "x" * (1 << 15)}), "expected safetensors"),
        (save({"a.weight": torch.zeros(3, 2)}), "expected"),
        (save({"b": torch.zeros(9)}), "tensors named a.weight, a.bias"),
        (save(tensors(c=torch.zeros(0))), "tensors named"),
        (save({"a.weight": torch.zeros(2, 3), "a.bias": torch.zeros(3)}), r"a.weight must be"),
        (save({"a.weight": torch.zeros(3), "a.bias": torch.zeros(3, 2)}), r"a.weight must be"),
        (save({k: v.to(torch.int32) for k, v in tensors().items()}), "float32"),
        (save({k: v.half().repeat(2) for k, v in tensors().items() if v.ndim == 1}), "expected"),
        (with_value(float("nan")), "a.bias must be finite"),
        (with_value(float("inf")), "a.bias must be finite"),
        (with_value(-float("inf")), "a.bias must be finite"),
        (with_value(16.01), "at most 16"),
        (packed(b"[" * 300), "not valid"),
        (packed(b"\xff" * 300), "not valid"),
        (packed(b"{}" + b" " * 300), "not valid"),
        (struct.pack("<Q", 2**63) + b"{}" + b"\0" * 36, "not valid"),
        (packed(changed("a.bias", data_offsets=[0, 24])), "not valid"),
        (packed(changed("a.bias", data_offsets=[12, 0])), "not valid"),
        (packed(changed("a.bias", data_offsets=[24, 36])), "not valid"),  # over another's bytes
        (packed(changed("a.bias", shape=[2**62, 4])), "not valid"),
        (packed(changed("a.bias", dtype="PY")), "not valid"),
        (packed({**ENTRIES, "__metadata__": {"a": 1}}), "not valid"),
    ],
)
def test_anything_else_is_refused(data: bytes, words: str) -> None:
    with pytest.raises(MalformedRequest, match=words):
        read_weights(data, SIZES, LARGEST)


def test_a_refusal_never_repeats_what_was_sent() -> None:
    secret = "swordfish"
    with pytest.raises(MalformedRequest) as refused:
        read_weights(save({secret: torch.zeros(9)}, {secret: secret}), SIZES, LARGEST)
    assert secret not in refused.value.detail


@pytest.mark.parametrize("seed", range(4))
def test_thousands_of_broken_files_are_refused_or_read_within_bounds(seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - a test, repeatable
    refused = 0
    for _ in range(1500):
        data = bytearray(save(tensors()))
        for _ in range(chance.choice((1, 1, 2, 8))):
            place = chance.randrange(len(data))
            match chance.randrange(4):
                case 0:
                    data[place] ^= 1 << chance.randrange(8)
                case 1:
                    data[place : place + chance.randrange(9)] = chance.randbytes(
                        chance.randrange(9)
                    )
                case 2:
                    data[place : place + 4] = chance.choice((b"\x7f\xc0\0\0", b"\0\0\x80\x7f"))
                case _:
                    data = data[: place + 1] + data[place:]
        try:
            read = read_weights(bytes(data), SIZES, LARGEST)
        except MalformedRequest:
            refused += 1
            continue
        assert {name: tuple(value.shape) for name, value in read.items()} == SIZES
        assert all(bool((value.abs() <= LARGEST).all()) for value in read.values())
    assert 0 < refused < 1500
