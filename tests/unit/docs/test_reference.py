"""The generated reference is what the programs say now."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_the_reference_is_up_to_date() -> None:
    command = [sys.executable, str(ROOT / "scripts" / "reference_docs.py"), "--check"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_every_key_of_the_configuration_says_what_it_means() -> None:
    page = (ROOT / "docs" / "reference" / "configuration.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    plain = {"`host`", "`port`"}  # under [rest], where [grpc] has said it
    silent = {row.split("|")[1].strip() for row in rows if row.split("|")[-2].strip() == ""}
    assert len(rows) > 15
    assert silent <= plain
