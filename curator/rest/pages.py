"""Pages made on the server: templates that escape everything, and headers that allow nothing else.

The only style and the only script are those of the templates; their hashes are in the policy, so a
text that came through as markup could neither style nor run. No page is kept by a browser.
"""

from __future__ import annotations

import base64
import hashlib
import math
from datetime import UTC, datetime
from typing import Any, Final, final

from fastapi.responses import HTMLResponse
from jinja2 import Environment, PackageLoader, StrictUndefined

from curator.rest import figures
from curator.rest.figures import ALL, NEARLY


def epsilon(value: float) -> str:
    """Return an epsilon with four digits after the point, as the refusals print it."""
    return f"{value:.4f}" if math.isfinite(value) else "infinite"


def moment(value: datetime | str) -> str:
    """Return a time in UTC to the second."""
    at = datetime.fromisoformat(value) if isinstance(value, str) else value
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def count(value: int) -> str:
    """Return a whole number with its thousands apart."""
    return f"{value:,}".replace(",", "\N{NO-BREAK SPACE}")


def rate(steps_per_second: float | None) -> str:
    """Return how fast a run goes.

    Args:
        steps_per_second: None where that cannot be said.
    """
    if steps_per_second is None:
        return "no steps lately"
    return f"{steps_per_second:.3g} steps/s"


def lasted(seconds: float) -> str:
    """Return how long something has lasted."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def remaining(num_steps: int, steps_per_second: float | None) -> str:
    """Return how long a run still takes at its rate.

    Args:
        num_steps: Still to do.
        steps_per_second: None where that cannot be said.
    """
    if not steps_per_second or num_steps <= 0:
        return "\N{EM DASH}"
    minutes = num_steps / steps_per_second / 60
    if minutes < 1:
        return "under a minute"
    hours, days = minutes / 60, minutes / 60 / 24
    if hours < 1:
        return f"{minutes:.0f} min"
    return f"{hours:.1f} h" if days < 2 else f"{days:.1f} days"


def budget_state(spent: float, reserved: float, cap: float) -> tuple[str, str] | None:
    """Return what a budget needs said about it with its colour's name, None for nothing.

    Args:
        spent: Epsilon.
        reserved: Epsilon, with what is spent.
        cap: Epsilon that is allowed now.
    """
    if spent >= ALL * cap:
        return "used up", "bad"
    if reserved >= ALL * cap:
        return "all reserved", "warn"
    return ("nearly spent", "warn") if reserved >= NEARLY * cap else None


_STYLE, _SCRIPT = "style.css.html", "refresh.js.html"


def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("curator.rest", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "epsilon": epsilon,
        "moment": moment,
        "count": count,
        "rate": rate,
        "lasted": lasted,
        "remaining": remaining,
    }
    made.globals |= {
        "gauge": figures.gauge,
        "course": figures.course,
        "budget_state": budget_state,
    }
    return made


_ENVIRONMENT: Final = _environment()


def _source(name: str) -> str:
    return _ENVIRONMENT.get_template(name).render()


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


STYLE: Final = _source(_STYLE)
SCRIPT: Final = _source(_SCRIPT)
HEADERS: Final = {
    "Content-Security-Policy": (
        f"default-src 'none'; style-src {_hash(STYLE)}; script-src {_hash(SCRIPT)}; "
        "img-src data:; connect-src 'self'; form-action 'self'; base-uri 'none'; "
        "frame-ancestors 'none'"
    ),
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "same-origin",  # with none, browsers would send no origin with a form
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


@final
class Page(HTMLResponse):
    """One page."""

    def __init__(self, template: str, status: int = 200, **values: Any) -> None:
        """Fill a template in.

        Args:
            template: Its file's name.
            status: Of HTTP.
            values: For the template; they are escaped.
        """
        text = _ENVIRONMENT.get_template(template).render(style=STYLE, script=SCRIPT, **values)
        super().__init__(text, status, HEADERS)
