"""`curator doctor` beside a serving curator, and what that curator says of its own body."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from curator.folder import initialise
from tests.e2e.conftest import Process, run_cli
from tests.unit.curator.doctor.conftest import contents

pytestmark = pytest.mark.e2e


def test_beside_a_serving_curator(serve: Callable[..., Process], tmp_path: Path) -> None:
    folder = initialise(tmp_path / "weir")
    served = serve(folder)
    folder.config.write_text(
        f"[grpc]\nport = {served.grpc_port}\n[rest]\nport = {served.rest_port}\n"
    )
    before = contents(folder.root)
    done = run_cli("curator", "doctor", "--dir", str(folder.root), "--json")
    after = contents(folder.root)
    shared = "ledger.sqlite-shm"  # who reads is noted there, as by every reader
    before.pop(shared, None)
    after.pop(shared, None)
    assert after == before
    findings = {one["check"]: one for one in json.loads(done.stdout)["checks"]}
    assert findings["ports"]["facts"]["serving"]
    held = findings["ports"]["facts"]["ports"]
    assert {one["held"] for one in held.values()} == {"held by the curator of this folder"}
    assert findings["ledger"]["state"] == "ok"
    assert served.terminate() == 0
