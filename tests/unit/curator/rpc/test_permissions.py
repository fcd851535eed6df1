"""The table of permissions names every method, and what it does not name is refused."""

from __future__ import annotations

import pytest
from grpc_health.v1 import health_pb2

from curator.errors import NotPermitted, PolicyRefused
from curator.rpc.identity import OPEN_METHODS, PERMISSIONS, require_permission
from curator.service.caller import Role
from protos.weir.v1 import service_pb2

SERVICE = service_pb2.DESCRIPTOR.services_by_name["WeirService"]
METHODS = [f"/{SERVICE.full_name}/{method.name}" for method in SERVICE.methods]
CHANGING = {"OpenRun", "Step", "StreamSteps", "CloseRun", "PlanRun", "DownloadRelease"}


def test_every_method_is_listed_and_nothing_else() -> None:
    listed = {method for method in PERMISSIONS if method.startswith(f"/{SERVICE.full_name}/")}
    assert listed == set(METHODS)


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize(
    "method",
    [
        "/weir.v1.WeirService/ResetBudget",
        "/weir.v1.WeirService/openrun",
        "/weir.v2.WeirService/OpenRun",
        "/grpc.health.v1.Health/Watch",
        "",
    ],
)
def test_an_unlisted_method_is_refused_for_everyone(method: str, role: Role) -> None:
    with pytest.raises(NotPermitted) as caught:
        require_permission(method, role)
    assert caught.value.detail == ""


@pytest.mark.parametrize("method", METHODS)
def test_the_auditor_reads_and_changes_nothing(method: str) -> None:
    permitted = Role.AUDITOR in PERMISSIONS[method]
    assert permitted == (method.rpartition("/")[2] not in CHANGING)


def test_only_the_owner_s_role_takes_steps() -> None:
    for name in ("OpenRun", "Step", "StreamSteps"):
        assert PERMISSIONS[f"/{SERVICE.full_name}/{name}"] == {Role.ANALYST}


def test_strangers_may_ask_for_health_alone() -> None:
    health = health_pb2.DESCRIPTOR.services_by_name["Health"]
    assert {f"/{health.full_name}/Check"} == OPEN_METHODS


def test_who_asks_and_what_is_asked_are_two_refusals() -> None:
    """A role is not helped by another request, nor a request by another role."""
    assert "role" in NotPermitted.remedy
    assert "detail" not in NotPermitted.remedy
    assert "Change what the detail names" in PolicyRefused.remedy
    assert "role" not in PolicyRefused.remedy
