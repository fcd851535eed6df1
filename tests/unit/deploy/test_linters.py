"""The linters of each format accept what deploys Weir, where they are installed."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "scripts" / "lint_deploy.sh"
NEEDED = ("hadolint", "check-jsonschema", "kubernetes-validate")


@pytest.mark.skipif(
    not all(shutil.which(name) for name in NEEDED), reason=f"needs {', '.join(NEEDED)}"
)
def test_the_linters_accept_everything() -> None:
    done = subprocess.run(
        ["sh", str(SCRIPT)], check=False, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("all good\n")
