"""A client that knows google.rpc and no Weir can read why, how much and which field."""

from __future__ import annotations

import json
from typing import Any, TypeVar, cast

import grpc
import pytest
from google.protobuf.message import Message
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo, QuotaFailure
from grpc_status import rpc_status

from analyst.client.codec import encode_step
from protos.weir.v1 import run_pb2
from protos.weir.v1.service_pb2_grpc import WeirServiceStub
from tests.e2e.conftest import EMBEDDING, SINKHORN, Local, batch, token
from tests.e2e.test_doors import channel

pytestmark = pytest.mark.e2e

M = TypeVar("M", bound=Message)


def details(call: Any, *arguments: Any, **options: Any) -> Any:
    with pytest.raises(grpc.RpcError) as caught:
        call(*arguments, **options)
    status = rpc_status.from_call(cast("grpc.Call", caught.value))
    assert status is not None  # and its code and message are those of the call
    return status.details


def find(packed: Any, kind: type[M]) -> M:
    for one in packed:
        message = kind()
        if one.Unpack(message):
            return message
    raise AssertionError


def test_a_budget_and_a_field(local: Local) -> None:
    metadata = (("authorization", f"Bearer {token(local.folder, 'alice')}"),)
    with channel(local) as plain, local.connect() as barrier:
        stub = WeirServiceStub(plain)
        plan = barrier.plan("digits", "mean-embedding", EMBEDDING | {"noise_multiplier": 0.1})
        assert plan.affordable_steps == 0
        choice = run_pb2.MechanismChoice(
            mechanism="mean-embedding", parameters=json.dumps(EMBEDDING | {"noise_multiplier": 0.1})
        )
        request = run_pb2.OpenRunRequest(
            dataset="digits", choice=choice, num_steps=3, idempotency_key="k" * 32
        )
        packed = details(stub.OpenRun, request, metadata=metadata, timeout=30)
        assert find(packed, ErrorInfo).reason == "PRIVACY_BUDGET_EXHAUSTED"
        (violation,) = find(packed, QuotaFailure).violations
        assert violation.quota_dimensions["budget"] == "10.0"
        assert float(violation.quota_dimensions["asked"]) > 10
        run = barrier.open_run("digits", "dp-sinkhorn", SINKHORN, num_steps=2)
        images, labels = batch()
        step = encode_step(run.run_id, 1, images, labels + 1).whole()
        packed = details(stub.Step, step, metadata=metadata, timeout=30)
        (field,) = find(packed, BadRequest).field_violations
        assert (field.field, field.description) == ("labels", "labels must be in 0 to 9")
