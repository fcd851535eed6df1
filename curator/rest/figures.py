"""Figures as SVG: nothing but numbers of this module goes in, and colours are the style's."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import accumulate
from typing import Final

from markupsafe import Markup

from curator.overview.history import Point

NEARLY: Final = 0.9  # as the alert rule
ALL: Final = 0.995
"""The part of a cap from which on it counts as used up: what is left buys next to nothing."""

_RADIUS, _CENTRE_X, _CENTRE_Y = 80.0, 100.0, 96.0
_ARC: Final = (
    f"M {_CENTRE_X - _RADIUS:g} {_CENTRE_Y:g} "
    f"A {_RADIUS:g} {_RADIUS:g} 0 0 1 {_CENTRE_X + _RADIUS:g} {_CENTRE_Y:g}"
)
_LENGTH: Final = math.pi * _RADIUS
_WIDTH, _HEIGHT = 640.0, 200.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 52.0, 12.0, 12.0, 28.0
_HEADROOM = 1.08


def gauge(spent: float, reserved: float, cap: float) -> Markup:
    """Return half a circle: what is spent, what is reserved beyond it, and what is left.

    Args:
        spent: Epsilon.
        reserved: Epsilon, with what is spent.
        cap: Epsilon that is allowed now.
    """
    arcs = [_arc("left", 1.0), _arc("reserved", _part(reserved, cap))]
    arcs.append(_arc("spent", _part(spent, cap)))
    fill = "full" if _part(spent, cap) >= ALL else "filling"
    percent = f"{100 * _part(spent, cap):.0f}%"
    return Markup(
        '<svg class="gauge {fill}" viewBox="0 0 200 104" aria-hidden="true" focusable="false">'
        "{arcs}"
        '<text class="big" x="100" y="92" text-anchor="middle">{percent}</text></svg>'
    ).format(fill=fill, arcs=Markup("").join(arcs), percent=percent)


def _part(value: float, cap: float) -> float:
    """Return a value as a part of the cap, from 0 to 1; anything of no cap at all is all of it."""
    if cap <= 0:
        return float(value > 0)
    return min(1.0, max(0.0, value / cap)) if math.isfinite(value) else 1.0


def _arc(name: str, part: float) -> Markup:
    if part <= 0:
        return Markup("")
    return Markup('<path class="arc {name}" d="{path}" stroke-dasharray="{length} {gap}"/>').format(
        name=name, path=_ARC, length=f"{part * _LENGTH:.2f}", gap=f"{2 * _LENGTH:.2f}"
    )


def course(points: Sequence[Point], cap: float, until: datetime, label: str) -> Markup:
    """Return spent and reserved over time, as steps under the cap.

    Args:
        points: In the order of the ledger; at least one. A time before that of an earlier point
            is drawn at the same place, so that no line goes back.
        cap: Epsilon that is allowed now.
        until: The present, where the lines end.
        label: What the figure shows, for those who do not see it.
    """
    times = list(accumulate((point.at for point in points), max))
    since, until = times[0], max(until, times[-1])
    span = max((until - since).total_seconds(), 1.0)
    finite = [value for p in points for value in (p.spent, p.reserved) if math.isfinite(value)]
    top = max([cap, *finite]) * _HEADROOM or 1.0

    def x(at: datetime) -> float:
        inside = min(max((at - since).total_seconds() / span, 0.0), 1.0)
        return _LEFT + inside * (_WIDTH - _LEFT - _RIGHT)

    def y(value: float) -> float:
        height = min(value / top, 1.0) if math.isfinite(value) else 1.0
        return _HEIGHT - _BOTTOM - height * (_HEIGHT - _TOP - _BOTTOM)

    places = [x(at) for at in [*times, until]]
    spent = _steps(places, [y(p.spent) for p in points])
    reserved = _steps(places, [y(p.reserved) for p in points])
    base, end = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
    return Markup(
        '<svg class="course" viewBox="0 0 {width} {height}" role="img" aria-label="{label}">'
        '<path class="area" d="{spent} V {base} H {left} Z"/>'
        '<path class="line reserved" d="{reserved}"/><path class="line spent" d="{spent}"/>'
        '<path class="line cap" d="M {left} {cap} H {end}"/>'
        '<path class="axis" d="M {left} {top} V {base} H {end}"/>'
        '<text x="{before}" y="{cap}" dy="4" text-anchor="end">{cap_text}</text>'
        '<text x="{before}" y="{base}" text-anchor="end">0</text>'
        '<text x="{left}" y="{below}">{since}</text>'
        '<text x="{end}" y="{below}" text-anchor="end">{until}</text></svg>'
    ).format(
        width=f"{_WIDTH:g}",
        height=f"{_HEIGHT:g}",
        label=label,
        spent=spent,
        reserved=reserved,
        base=f"{base:g}",
        left=f"{_LEFT:g}",
        end=f"{end:g}",
        top=f"{_TOP:g}",
        cap=f"{y(cap):.1f}",
        before=f"{_LEFT - 6:g}",
        below=f"{_HEIGHT - 8:g}",
        cap_text=f"{cap:.4g}",
        since=_day(since, span),
        until=_day(until, span),
    )


def _steps(places: Sequence[float], heights: Sequence[float]) -> str:
    """Return a path that keeps each height until the next place."""
    parts = [f"M {places[0]:.1f} {heights[0]:.1f}"]
    for place, height in zip(places[1:], [*heights[1:], heights[-1]], strict=True):
        parts.append(f"H {place:.1f} V {height:.1f}")
    return " ".join(parts)


def _day(at: datetime, span: float) -> str:
    """Return a time, to the second where the whole figure is short."""
    form = "%H:%M:%S" if span < 6 * 3600 else "%Y-%m-%d %H:%M"
    return f"{at.astimezone(UTC):{form}}"
