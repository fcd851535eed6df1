"""What cannot be asked is refused in words of the client's own, before anything is sent."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from analyst.client.barrier import Barrier
from analyst.plan_question import PlanQuestion
from protos.weir.v1 import run_pb2


class Sent(Exception):
    """The request left the client."""

    def __init__(self, request: Any) -> None:
        self.request = request


class Wire:
    """A connection on which nothing is expected."""

    def __init__(self) -> None:
        self.stub = SimpleNamespace(OpenRun=None, PlanRun=None)

    def call(self, _method: object, request: Any, **_: Any) -> Any:
        raise Sent(request)


@pytest.fixture
def barrier() -> Barrier:
    return Barrier(Wire(), patience=0.0)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("num_steps", "kind"),
    [
        (2.5, TypeError), (True, TypeError), ("3", TypeError), (None, TypeError),
        (torch.ones(2), TypeError), (-1, ValueError), (0, ValueError), (10**9 + 1, ValueError),
        (2**70, ValueError),
    ],
)  # fmt: skip
def test_steps_are_a_whole_number(barrier: Barrier, num_steps: Any, kind: type[Exception]) -> None:
    with pytest.raises(kind, match="num_steps must be"):
        barrier.open_run("digits", "dp-sinkhorn", {}, num_steps=num_steps)
    if num_steps is None:  # then a plan asks for what is affordable
        return
    with pytest.raises(kind, match="num_steps must be"):
        barrier.plan("digits", "dp-sinkhorn", {}, num_steps=num_steps)
    for epsilon in (None, 1.0):
        question = PlanQuestion(num_steps=num_steps, epsilon=epsilon)
        with pytest.raises(kind, match="num_steps must be"):
            barrier.plan_range("digits", "dp-sinkhorn", {}, question)


@pytest.mark.parametrize(
    ("parameters", "kind", "words"),
    [
        (None, TypeError, "parameters must be a mapping"),
        ("x", TypeError, "parameters must be a mapping"),
        ([("clip_norm", 1.0)], TypeError, "parameters must be a mapping"),
        ({1: 2}, TypeError, "the name of a parameter must be a str"),
        ({"clip_norm": torch.tensor(0.5)}, TypeError, r"parameter clip_norm .* use float\(\)"),
        ({"clip_norm": math.nan}, ValueError, "parameter clip_norm must be finite"),
        ({"bandwidths": [1.0, math.inf]}, ValueError, "parameter bandwidths must be finite"),
    ],
)
def test_parameters_are_a_mapping_of_plain_values(
    barrier: Barrier, parameters: Any, kind: type[Exception], words: str
) -> None:
    with pytest.raises(kind, match=words):
        barrier.open_run("digits", "dp-sinkhorn", parameters, num_steps=1)
    with pytest.raises(kind, match=words):
        barrier.plan("digits", "dp-sinkhorn", parameters)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"dataset": None}, "dataset must be a str, not NoneType"),
        ({"mechanism": 3}, "mechanism must be a str, not int 3"),
        ({"idempotency_key": 12345678901234567}, "idempotency_key must be a str"),
    ],
)
def test_names_are_texts(barrier: Barrier, changes: dict[str, Any], words: str) -> None:
    asked: dict[str, Any] = {"dataset": "digits", "mechanism": "dp-sinkhorn", "parameters": {}}
    with pytest.raises(TypeError, match=words):
        barrier.open_run(**(asked | changes), num_steps=1)


def test_what_can_be_asked_is_sent(barrier: Barrier) -> None:
    steps: Any = np.int64(7)
    with pytest.raises(Sent) as sent:
        barrier.open_run("digits", "dp-sinkhorn", {"b": [1.5], "a": np.float64(2)}, num_steps=steps)
    request = sent.value.request
    assert isinstance(request, run_pb2.OpenRunRequest)
    assert (request.num_steps, request.choice.parameters) == (7, '{"a": 2.0, "b": [1.5]}')
