"""Figures and formats hold for every number that a ledger can show."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta
from xml.etree import ElementTree as ET

import pytest

from curator.overview.history import Point
from curator.rest import figures, pages

START = datetime(2026, 1, 1, tzinfo=UTC)
HALF = math.pi * 80


def lengths(spent: float, reserved: float, cap: float) -> dict[str, float]:
    """Return the length of each arc of a gauge."""
    arcs = ET.fromstring(figures.gauge(spent, reserved, cap)).findall("path")  # noqa: S314
    return {
        arc.attrib["class"].split()[1]: float(arc.attrib["stroke-dasharray"].split()[0])
        for arc in arcs
    }


@pytest.mark.parametrize(
    ("spent", "reserved", "cap", "expected"),
    [
        (0.0, 0.0, 10.0, {}),
        (5.0, 7.5, 10.0, {"spent": 0.5, "reserved": 0.75}),
        (12.0, 12.0, 10.0, {"spent": 1.0, "reserved": 1.0}),
        (math.inf, math.inf, 10.0, {"spent": 1.0, "reserved": 1.0}),
        (0.0, 1.0, 0.0, {"reserved": 1.0}),
    ],
)
def test_a_gauge_s_arcs_are_parts_of_the_cap(
    spent: float, reserved: float, cap: float, expected: dict[str, float]
) -> None:
    found = lengths(spent, reserved, cap)
    assert found.pop("left") == pytest.approx(HALF, abs=0.01)
    assert found == pytest.approx({name: HALF * part for name, part in expected.items()}, abs=0.01)


@pytest.mark.parametrize(
    "values",
    [
        [(0.0, 0.0)],
        [(0.0, 1.0), (1.0, 1.0)],
        [(0.0, math.inf), (20.0, math.inf)],
        [(0.0, 1.0), (0.5, 1.0), (1.0, 1.0)],
    ],
)
@pytest.mark.parametrize("hours", [[0, 1, 2], [0, 9, 2], [999, 5, 7]])
def test_a_course_stays_inside_and_moves_forward(
    values: list[tuple[float, float]], hours: list[int]
) -> None:
    at = [START + timedelta(hours=n) for n in hours]  # two of them by a clock that was set
    points = [Point(when, *pair) for when, pair in zip(at, values, strict=False)]
    text = figures.course(points, 10.0, START + timedelta(days=2), "<&>")
    root = ET.fromstring(text)  # noqa: S314
    assert root.attrib["aria-label"] == "<&>"
    for path in root.findall("path"):
        across = [float(x) for x in re.findall(r"[MH] (-?[\d.]+)", path.attrib["d"])]
        heights = [float(y) for y in re.findall(r"(?:V|M [\d.]+) (-?[\d.]+)", path.attrib["d"])]
        assert all(52 <= x <= 628 for x in across)
        assert all(12 <= y <= 172 for y in heights)
        if "line" in path.attrib["class"]:
            assert across == sorted(across)


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ((0, 0, 10), None),
        ((1, 8.9, 10), None),
        ((1, 9, 10), ("nearly spent", "warn")),
        ((1, 10, 10), ("all reserved", "warn")),
        ((9.96, 9.96, 10), ("used up", "bad")),
        ((12, 12, 10), ("used up", "bad")),
    ],
)
def test_a_budget_that_needs_a_word_has_one(
    numbers: tuple[float, float, float], expected: tuple[str, str] | None
) -> None:
    assert pages.budget_state(*numbers) == expected


def test_numbers_and_times_as_words() -> None:
    assert pages.epsilon(math.inf) == "infinite"
    assert pages.epsilon(1.23456) == "1.2346"
    assert pages.count(1_234_567) == "1\N{NO-BREAK SPACE}234\N{NO-BREAK SPACE}567"
    assert pages.moment("2026-01-01T02:00:00+02:00") == "2026-01-01 00:00:00 UTC"
    assert [pages.rate(rate) for rate in (None, 12.345)] == ["no steps lately", "12.3 steps/s"]
    expected = ["under a minute", "10 min", "2.8 h", "11.6 days"]
    assert [pages.remaining(n, 1.0) for n in (59, 600, 10_000, 1_000_000)] == expected
    assert pages.remaining(5, None) == pages.remaining(0, 1.0) == "\N{EM DASH}"
