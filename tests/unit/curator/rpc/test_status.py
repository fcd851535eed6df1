"""Every error has a status, a reason of its own, constant words and a remedy."""

from __future__ import annotations

import grpc
import pytest

from curator.errors import BudgetExhausted, CuratorError
from curator.privacy.budget import BudgetNumbers
from curator.rpc.status import STATUS, encode_refusal, status_text
from tests.unit.curator.error_tree import tree


@pytest.mark.parametrize("kind", tree())
def test_every_error_has_a_status_and_a_remedy(kind: type[CuratorError]) -> None:
    code = next(STATUS[base] for base in kind.__mro__ if base in STATUS)
    assert isinstance(code, grpc.StatusCode)
    assert kind.public_message.endswith(".")
    assert len(kind.remedy) > 20


def test_only_the_root_is_internal() -> None:
    internal = [kind for kind, code in STATUS.items() if code is grpc.StatusCode.INTERNAL]
    assert internal == [CuratorError]


def test_reasons_tell_errors_apart() -> None:
    reasons = [kind.reason for kind in STATUS]
    assert len(set(reasons)) == len(reasons)


def test_a_refused_budget_carries_its_numbers() -> None:
    numbers = BudgetNumbers(
        budget=10.0, spent=1.5, reserved=9.5, asked=11.0, remaining=0.5, delta=1e-5
    )
    refusal = encode_refusal(BudgetExhausted(numbers), "id")
    assert refusal.reason == "PRIVACY_BUDGET_EXHAUSTED"
    assert (refusal.budget.spent, refusal.budget.asked, refusal.budget.remaining) == (1.5, 11, 0.5)
    assert "11.0000" in status_text(BudgetExhausted(numbers))
