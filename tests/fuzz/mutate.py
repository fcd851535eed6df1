"""Requests that are nearly right: built from valid ones, then broken in one or a few places."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Callable
from typing import Any, cast, final

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from analyst.client.codec import encode_feature_step, encode_step
from protos.weir.v1 import run_pb2, service_pb2, tensor_pb2
from tests.e2e.conftest import EMBEDDING, SINKHORN, batch

SERVICE = service_pb2.DESCRIPTOR.services_by_name["WeirService"]
METHODS: dict[str, type[Message]] = {
    method.name: GetMessageClass(method.input_type) for method in SERVICE.methods
}
OFTEN = {"OpenRun": 8, "Step": 10, "StreamSteps": 5, "PlanRun": 5, "ResumeRun": 4, "CloseRun": 3}
TEXTS = (
    *("", " ", "digits", "DIGITS", "digits\0", "../digits", "\U0001f9ea" * 9, "'; drop table runs"),
    *("0" * 32, "f" * 31, "é" * 32, "x" * 5000, "\u202e", "%s%n", "{}", "nan", "\x7f\x01"),
)
INTEGERS = (0, 1, 2, 3, 7, 2**31 - 1, 2**31, 2**32 - 1, 2**53 + 1, 2**63 - 1)
FLOATS = (float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 5e-324, 1e308, -1.0, 0.5, 1e-9)
JSON_VALUES = (
    *("null", "true", '""', '"\\ud800"', "[]", "{}", "-1", "0", "1e308", "-1e-308", "NaN"),
    *("Infinity", "1" + "0" * 400, "[" * 60 + "]" * 60, '"\\u0000"', "0.5", "7", '"published"'),
)


@final
class Mutator:
    """Makes one broken request after the other, the same ones for the same seed."""

    def __init__(self, seed: int, run_ids: tuple[str, ...]) -> None:
        """Take run ids of the caller and of others; steps are asked of them."""
        self._random = random.Random(seed)  # noqa: S311 - a test, repeatable
        self._run_ids = run_ids

    def request(self) -> tuple[str, list[bytes]]:
        """Return a method and the bytes of its messages."""
        chance = self._random
        weights = [OFTEN.get(name, 2) for name in METHODS]
        method = chance.choices(list(METHODS), weights)[0]
        number = chance.choice((0, 1, 1, 1, 1, 1, 2, 3)) if method == "StreamSteps" else 1
        return method, [self._bytes(method) for _ in range(number)]

    def _bytes(self, method: str) -> bytes:
        chance = self._random
        if chance.random() < 0.04:
            return chance.randbytes(chance.choice((0, 1, 7, 100, 4000)))
        if chance.random() < 0.04:
            method = chance.choice(list(METHODS))  # a message of another method
        message = self._valid(method)
        data = message.SerializeToString()
        if chance.random() < 0.65:
            for _ in range(chance.choice((1, 1, 1, 2, 4))):
                self._change_field(message)
            data = message.SerializeToString()
            if chance.random() < 0.8:
                return data
        mutation: Callable[[bytes], bytes] = chance.choice(
            (self._truncated, self._flipped, self._with_unknown_field, self._spliced)
        )
        return mutation(data)

    def _valid(self, method: str) -> Message:
        chance = self._random
        run_id = chance.choice(self._run_ids)
        mechanism, parameters = chance.choice(
            (("dp-sinkhorn", SINKHORN), ("mean-embedding", EMBEDDING))
        )
        choice = run_pb2.MechanismChoice(mechanism=mechanism, parameters=json.dumps(parameters))
        match method:
            case "DescribeDataset" | "GetBudget":
                return METHODS[method](dataset="digits")
            case "PlanRun":
                before = [run_pb2.PlannedRun(choice=choice, num_steps=3)]
                return run_pb2.PlanRunRequest(
                    dataset="digits", choice=choice, num_steps=2, before=before
                )
            case "OpenRun":
                return run_pb2.OpenRunRequest(
                    dataset="digits", choice=choice, num_steps=10**6, idempotency_key=run_id
                )
            case "Step" | "StreamSteps" if chance.random() < 0.2:
                features = batch(chance.choice((1, 12)))[0].flatten(1)
                return encode_feature_step(run_id, 2, features, chance.randbytes(300)).whole()
            case "Step" | "StreamSteps":
                images = batch(chance.choice((1, 12)))
                return encode_step(run_id, chance.choice((2, 9)), *images).whole()
            case "ResumeRun" | "DownloadRelease":
                return METHODS[method](run_id=chance.choice((*self._run_ids, *TEXTS)))
            case "CloseRun":  # its runs are needed
                return METHODS[method](run_id=chance.choice(TEXTS))
            case _:
                return METHODS[method]()

    def _change_field(self, message: Message) -> None:
        """Give one field, at any depth, a value that is probably wrong."""
        chance = self._random
        while True:
            if isinstance(message, tensor_pb2.Tensor):
                self._change_tensor(message)
                return
            fields = list(message.DESCRIPTOR.fields)
            if not fields:
                return
            field = cast("FieldDescriptor", chance.choice(fields))
            if field.message_type is None:
                break
            message = self._inside(getattr(message, field.name))
        if field.name == "parameters":
            value: Any = self._parameters()
        elif field.type == field.TYPE_BYTES:
            value = chance.randbytes(chance.choice((0, 1, 8, 300, 70_000)))
        else:
            value = chance.choice(
                {field.CPPTYPE_STRING: TEXTS, field.CPPTYPE_DOUBLE: FLOATS}.get(
                    field.cpp_type, INTEGERS
                )
            )
        try:
            setattr(message, field.name, value)
        except ValueError:  # the integer does not fit into this field
            message.ClearField(field.name)

    def _inside(self, found: Any) -> Message:
        """Return a message, or of a list of messages one, or one more."""
        if isinstance(found, Message):
            return found
        return cast("Message", self._random.choice((*found, found.add())))

    def _change_tensor(self, tensor: tensor_pb2.Tensor) -> None:
        chance = self._random
        match chance.randrange(5):
            case 0:
                tensor.data_type = cast("Any", chance.choice((0, 1, 2, 3, 99)))
            case 1:
                del tensor.shape[:]
                size = chance.choice((0, 1, 3, 4, 5, 60))
                tensor.shape.extend(
                    chance.choice((0, 1, 8, 12, 2**31, 2**32 - 1)) for _ in range(size)
                )
            case 2 if tensor.shape:
                tensor.shape[chance.randrange(len(tensor.shape))] = chance.choice(
                    (0, 11, 2**32 - 1)
                )
            case 3:
                cut = chance.randrange(len(tensor.data) + 1)
                tensor.data = chance.choice((tensor.data[:cut], tensor.data + b"\0" * 9, b""))
            case _:
                place = 4 * chance.randrange(max(len(tensor.data) // 4, 1))
                value = struct.pack("<f", chance.choice((*FLOATS[:3], 1.0001, -2.0, 3e38)))
                tensor.data = tensor.data[:place] + value + tensor.data[place + 4 :]

    def _parameters(self) -> str:
        chance = self._random
        valid = chance.choice((SINKHORN, EMBEDDING))
        text, name = json.dumps(valid), chance.choice([*valid, "surprise", "\N{TEST TUBE}"])
        broken = f"{json.dumps(name)}: {chance.choice(JSON_VALUES)}"
        match chance.randrange(6):
            case 0:
                return chance.choice((*TEXTS, *JSON_VALUES))
            case 1:
                return text[: chance.randrange(len(text) + 1)]
            case 2:
                return text[:-1] + f", {broken}}}"  # often a second time
            case 3:
                return text[:-1] + ', "\\ud800\\udfff\\ud800": 1}'
            case 4:
                return text[:-1] + ', "pad": "' + "x" * 20_000 + '"}'
            case _:
                values = {key: value for key, value in valid.items() if key != name}
                return json.dumps(values)[:-1] + f", {broken}}}"

    def _truncated(self, data: bytes) -> bytes:
        return data[: self._random.randrange(len(data) + 1)]

    def _flipped(self, data: bytes) -> bytes:
        changed = bytearray(data)
        for _ in range(self._random.choice((1, 1, 3, 20))):
            if changed:
                changed[self._random.randrange(min(len(changed), 80))] ^= (
                    1 << self._random.randrange(8)
                )
        return bytes(changed)

    def _with_unknown_field(self, data: bytes) -> bytes:
        extra = self._random.choice(
            (
                b"\xc2\x3e\x03abc",  # field 1000, bytes
                b"\xc0\x3e" + b"\xff" * 9 + b"\x01",  # field 1000, the longest integer
                b"\x0b\x0c",  # an empty group in field 1
                b"\x0b" * 200,  # groups that never end
                b"\x08\x01",  # field 1 as an integer
                b"\xc2\x3e\xff\xff\xff\xff\x07",  # a length beyond the end
            )
        )
        return data + extra if self._random.random() < 0.5 else extra + data

    def _spliced(self, data: bytes) -> bytes:
        cut = self._random.randrange(len(data) + 1)
        return data[:cut] + self._random.randbytes(self._random.randrange(9)) + data[cut:]
