"""What the pages say that epsilon does to a guess."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[3] / "docs"
ROW = re.compile(r"^\| ([\d.]+) \| ([\d.,]+) \| ([^|]+) \|$", re.MULTILINE)


@pytest.mark.parametrize("page", ["explanation/epsilon.md", "how-to/answer-a-privacy-officer.md"])
def test_odds_are_the_exponential_of_epsilon(page: str) -> None:
    rows = ROW.findall((DOCS / page).read_text(encoding="utf-8"))
    assert [float(epsilon) for epsilon, _, _ in rows] == [0.2, 1, 3, 10]
    for epsilon, stated, _ in rows:
        odds, written = math.exp(float(epsilon)), float(stated.replace(",", ""))
        assert written == pytest.approx(odds, rel=0.02)


def test_chances_are_those_odds() -> None:
    page = (DOCS / "how-to" / "answer-a-privacy-officer.md").read_text(encoding="utf-8")
    rows = ROW.findall(page)
    assert len(rows) == 4
    for epsilon, _, chance in rows:
        number, of = (float(one) for one in chance.split(" of "))
        wrong = 1 / (1 + math.exp(float(epsilon)))
        assert 1 - number / of == pytest.approx(wrong, rel=0.12, abs=0.003)
