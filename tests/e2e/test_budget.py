"""A budget for exactly N steps gives N answers, over TLS, to whoever asks."""

from __future__ import annotations

import grpc
import pytest
import torch

from analyst.errors import BudgetExhausted, RunClosed
from protos.weir.v1 import run_pb2, service_pb2_grpc
from tests.e2e.conftest import EMBEDDING, OVER_BOTH_WIRES, SINKHORN, Local, batch, token

pytestmark = pytest.mark.e2e


@OVER_BOTH_WIRES
def test_the_last_step_is_answered_and_the_next_refused_for_everyone(local: Local) -> None:
    with local.connect("alice") as alice, local.connect("bob") as bob:
        plan = alice.plan("digits", "dp-sinkhorn", SINKHORN | {"noise_multiplier": 0.6})
        steps = plan.num_steps
        assert 0 < steps < 200
        run = alice.open_run(
            "digits", "dp-sinkhorn", SINKHORN | {"noise_multiplier": 0.6}, num_steps=steps
        )
        images, labels = batch()
        for _ in range(steps - 1):
            run.gradient(images, labels)
        gradient = run.gradient(images, labels)
        assert gradient.shape == images.shape
        assert bool(torch.isfinite(gradient).all())
        with pytest.raises(RunClosed) as closed:
            run.gradient(images, labels)
        assert closed.value.reason == "RUN_CLOSED"
        budget = alice.budget("digits")
        assert budget.spent == pytest.approx(plan.epsilon_after)
        for barrier in (alice, bob):
            with pytest.raises(BudgetExhausted) as refused:
                barrier.open_run(
                    "digits", "dp-sinkhorn", SINKHORN | {"noise_multiplier": 0.6}, num_steps=1
                )
            numbers = refused.value.numbers
            assert numbers.spent == budget.spent <= numbers.budget == 10.0
            assert numbers.asked > 10.0
            assert numbers.remaining == pytest.approx(10.0 - budget.spent)
        assert alice.budget("digits") == budget


def test_the_refusal_s_status_and_reason_on_the_wire(local: Local) -> None:
    root = (local.folder.identity / "ca.pem").read_bytes()
    target = f"localhost:{local.curator.rpc.port}"
    with grpc.secure_channel(target, grpc.ssl_channel_credentials(root)) as channel:
        stub = service_pb2_grpc.WeirServiceStub(channel)
        request = run_pb2.OpenRunRequest(
            dataset="digits",
            choice=run_pb2.MechanismChoice(
                mechanism="dp-sinkhorn", parameters=_json(SINKHORN | {"noise_multiplier": 0.1})
            ),
            num_steps=10_000,
            idempotency_key="k" * 32,
        )
        metadata = (("authorization", f"Bearer {token(local.folder, 'alice')}"),)
        with pytest.raises(grpc.RpcError) as caught:
            stub.OpenRun(request, metadata=metadata, timeout=20)
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert "PRIVACY_BUDGET_EXHAUSTED" in str(caught.value.details())
        for wrong in ((), (("authorization", "Bearer x"),)):
            with pytest.raises(grpc.RpcError) as caught:
                stub.OpenRun(request, metadata=wrong, timeout=20)
            assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED


@OVER_BOTH_WIRES
def test_two_methods_of_opposite_kind_share_one_ledger(local: Local) -> None:
    with local.connect() as barrier:
        images, labels = batch()
        embedding = barrier.open_run("digits", "mean-embedding", EMBEDDING, num_steps=30)
        after_release = barrier.budget("digits").spent
        assert after_release > 0
        for _ in range(30):
            embedding.gradient(images, labels)
        assert barrier.budget("digits").spent == after_release  # gradients are free
        sinkhorn = barrier.open_run("digits", "dp-sinkhorn", SINKHORN, num_steps=3)
        leaf = images.clone().requires_grad_()
        sinkhorn.backward(leaf, labels)
        assert leaf.grad is not None
        assert leaf.grad[:10].std() > 0.1  # 2 C z = 1 on the noised rows
        assert leaf.grad[10:].norm() <= 0.5001  # the debias rows are clipped only
        sinkhorn.close()
        assert barrier.budget("digits").spent > after_release


def _json(parameters: dict[str, object]) -> str:
    import json

    return json.dumps(parameters)
