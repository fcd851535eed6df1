"""The page of exit codes lists all that both programs return, and no other."""

from __future__ import annotations

import re
from enum import IntEnum
from pathlib import Path

import pytest

from analyst.cli import ExitCode as AnalystCode
from curator.cli import ExitCode as CuratorCode

PAGE = Path(__file__).resolve().parents[3] / "docs" / "reference" / "exit-codes.md"


@pytest.mark.parametrize(("program", "codes"), [("analyst", AnalystCode), ("curator", CuratorCode)])
def test_every_code_is_on_the_page(program: str, codes: type[IntEnum]) -> None:
    part = PAGE.read_text().split(f"## {program}\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (\d+) \| `(\w+)`", part, re.MULTILINE)
    listed = {name: int(number) for number, name in rows}
    assert listed == {code.name: code.value for code in codes}
