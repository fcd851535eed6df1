"""Which role may call which method. A method that is not listed here is refused for everyone.

A test walks the service descriptor and keeps the table total.
"""

from __future__ import annotations

from typing import Final

from curator.errors import NotPermitted
from curator.service.caller import Role

_ANALYST, _STEWARD, _AUDITOR = Role.ANALYST, Role.STEWARD, Role.AUDITOR
_EVERY_ROLE = frozenset(Role)

OPEN_METHODS: Final = frozenset({"/grpc.health.v1.Health/Check"})
"""Answered to strangers too: they say nothing that a port scan does not."""

PERMISSIONS: Final[dict[str, frozenset[Role]]] = {
    "/weir.v1.WeirService/ListDatasets": _EVERY_ROLE,
    "/weir.v1.WeirService/DescribeDataset": _EVERY_ROLE,
    "/weir.v1.WeirService/GetBudget": _EVERY_ROLE,
    "/weir.v1.WeirService/PlanRun": frozenset({_ANALYST, _STEWARD}),
    "/weir.v1.WeirService/OpenRun": frozenset({_ANALYST}),
    "/weir.v1.WeirService/ListRuns": _EVERY_ROLE,  # an analyst's own
    "/weir.v1.WeirService/ResumeRun": _EVERY_ROLE,  # adopts a run for its owner only
    "/weir.v1.WeirService/Step": frozenset({_ANALYST}),
    "/weir.v1.WeirService/StreamSteps": frozenset({_ANALYST}),
    "/weir.v1.WeirService/CloseRun": frozenset({_ANALYST, _STEWARD}),
    "/weir.v1.WeirService/DownloadRelease": frozenset({_ANALYST}),
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": _EVERY_ROLE,
}


def require_permission(method: str, role: Role) -> None:
    """Check that a role may call a method, whether or not there is such a method.

    Raises:
        NotPermitted: If it may not; the words never say why.
    """
    if role not in PERMISSIONS.get(method, frozenset()):
        raise NotPermitted
