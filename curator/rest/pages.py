"""Pages made on the server: templates that escape everything, and headers that allow nothing else.

The only style and the only script are those of the templates; their hashes are in the policy, so a
text that came through as markup could neither style nor run. No page is kept by a browser.
"""

from __future__ import annotations

import base64
import hashlib
from typing import Any, Final, final

from fastapi.responses import HTMLResponse
from jinja2 import Environment, PackageLoader, StrictUndefined

from curator.rest import figures, formats

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
        "epsilon": formats.epsilon,
        "moment": formats.moment,
        "count": formats.count,
        "rate": formats.rate,
        "remaining": formats.remaining,
    }
    made.globals |= {
        "gauge": figures.gauge,
        "course": figures.course,
        "budget_state": formats.budget_state,
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
