"""The privacy certificate of a closed run: what was promised, what was used, signed.

It says nothing that depends on the private images. The headline is the data set's cap and what is
spent of it by the ledger's rule; the run's own epsilon is given at its declared steps and labelled
so, because an analyst who decides when to stop decides by what was seen (ACCOUNTING 4.7).
"""

from __future__ import annotations

import base64
import json
from typing import Any, Protocol

from curator.ledger.ledger import RunState
from curator.planning.planner import Planner
from curator.privacy.facts import is_rehearsal
from curator.service.rehearsal import WORDS

FORMAT = "weir-privacy-certificate-1"
REHEARSAL_FORMAT = "weir-rehearsal-certificate-1"


class Signer(Protocol):
    """Signs with the curator's key."""

    def sign(self, message: bytes) -> bytes:
        """Return a signature."""
        ...

    def public_key(self) -> bytes:
        """Return the key to check signatures with."""
        ...


def issue_certificate(planner: Planner, state: RunState, signer: Signer) -> str:
    """Return the signed certificate of a closed run.

    Args:
        planner: On the same ledger.
        state: The run as the ledger has it.
        signer: The curator's key.

    Returns:
        JSON with `statement`, `public_key` and `signature`; the signature is over the canonical
        JSON of the statement.
    """
    statement = _statement(planner, state)
    return json.dumps(
        {
            "statement": statement,
            "public_key": base64.b64encode(signer.public_key()).decode(),
            "signature": base64.b64encode(signer.sign(canonical_bytes(statement))).decode(),
        },
        indent=1,
        sort_keys=True,
    )


def canonical_bytes(statement: dict[str, Any]) -> bytes:
    """Return what is signed."""
    return json.dumps(statement, sort_keys=True, separators=(",", ":")).encode()


def _statement(planner: Planner, state: RunState) -> dict[str, Any]:
    sequence, digest = planner.ledger.head()
    totals = planner.ledger.statement(state.dataset)
    while (head := planner.ledger.head()) != (sequence, digest):  # both must be of one moment
        sequence, digest = head
        totals = planner.ledger.statement(state.dataset)
    rehearsal = is_rehearsal(state.dataset)
    promise = {"epsilon": totals.budget.epsilon, "delta": totals.budget.delta}
    return {
        "format": REHEARSAL_FORMAT if rehearsal else FORMAT,
        **({"rehearsal": WORDS} if rehearsal else {}),
        "dataset": {
            "name": state.dataset,
            "adjacency": str(totals.adjacency),
            "unit": str(totals.adjacency.unit),
            "promise": None if rehearsal else promise,
            "cap_now": totals.cap,
            "spent_epsilon": totals.spent_epsilon,
            "accountant": totals.accountant,
        },
        "run": {
            "id": state.run_id,
            "analyst": state.analyst,
            "mechanism": state.mechanism,
            "parameters": json.loads(state.parameters_json),
            "declared_steps": state.num_steps,
            "used_steps": state.used,
            "opened_at": state.opened_at,
            "closed_at": state.closed_at,
            "close_reason": state.close_reason,
        },
        "this_run_alone_at_its_declared_steps": {
            "epsilon": planner.epsilon_alone(state, totals.budget.delta),
            "delta": totals.budget.delta,
            "method": "privacy loss distributions; information, not the promise",
        },
        "ledger_head": {"sequence": sequence, "digest": digest},
    }
