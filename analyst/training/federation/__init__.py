"""Several curators behind one training run: each with its own run, ledger and certificate."""

from __future__ import annotations

from typing import TYPE_CHECKING

from analyst.lazy import lazily

if TYPE_CHECKING:
    from analyst.training.federation.config import FederationConfig, MemberConfig, load_federation
    from analyst.training.federation.errors import FederationError
    from analyst.training.federation.federation import Federation
    from analyst.training.federation.member import Member
    from analyst.training.federation.rule import Combine, OnLoss, Rule
else:
    __getattr__ = lazily(
        __name__,
        {
            "analyst.training.federation.config": (
                "FederationConfig",
                "MemberConfig",
                "load_federation",
            ),
            "analyst.training.federation.errors": ("FederationError",),
            "analyst.training.federation.federation": ("Federation",),
            "analyst.training.federation.member": ("Member",),
            "analyst.training.federation.rule": (
                "Combine",
                "OnLoss",
                "Rule",
            ),
        },
    )

__all__ = [
    "Combine",
    "Federation",
    "FederationConfig",
    "FederationError",
    "Member",
    "MemberConfig",
    "OnLoss",
    "Rule",
    "load_federation",
]
