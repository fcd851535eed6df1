"""Several curators behind one training run: each with its own run, ledger and certificate."""

from analyst.training.federation.config import FederationConfig, MemberConfig, load_federation
from analyst.training.federation.errors import FederationError
from analyst.training.federation.federation import Federation
from analyst.training.federation.member import Member
from analyst.training.federation.rule import Combine, OnLoss, Rule

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
