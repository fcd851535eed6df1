"""Some hundred malformed requests; `python -m tests.fuzz.grpc` sends 50,000."""

from __future__ import annotations

from pathlib import Path

import pytest

from curator.errors import CuratorError
from tests.e2e.conftest import OVER_BOTH_WIRES
from tests.e2e.identity_doors import serving
from tests.fuzz.grpc import Fuzz, steps_of

pytestmark = pytest.mark.e2e


@OVER_BOTH_WIRES
def test_malformed_requests_are_refused_and_never_charged(tmp_path: Path, wire: str) -> None:
    with serving(tmp_path / "curator") as doors:
        port = doors.curator.rpc.port
        steps = steps_of(doors.folder) if wire == "local" else None
        fuzz = Fuzz(doors.folder, port, 7, steps)
        fuzz.send(500)
        fuzz.check_steps(port)
        fuzz.close()
    assert fuzz.outcome.faults == []
    assert CuratorError.reason not in fuzz.outcome.reasons
    assert {"MALFORMED_REQUEST", "UNKNOWN_RUN", "UNKNOWN_DATASET"} <= set(fuzz.outcome.reasons)
