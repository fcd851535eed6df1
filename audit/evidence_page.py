"""The papers for the file: one HTML page that needs no other file, signed with the curator's key.

The signature is the page's last line, an HTML comment, over every byte before it.
"""

from __future__ import annotations

import base64
import math
from typing import Final

from jinja2 import Environment, PackageLoader, StrictUndefined

from audit.evidence import Evidence
from curator.identity.certificates import fingerprint_of
from curator.overview.certificate import Signer

FORMAT: Final = "weir-evidence-1"
_STRONG: Final = 1.0
_FAIR: Final = 3.0
_LARGE: Final = 100
_BEYOND: Final = 30.0


def render(evidence: Evidence, public_key: bytes) -> str:
    """Return the page, not signed.

    Args:
        evidence: With attacks it is private, and says so.
        public_key: Of the curator, to be named.
    """
    environment = Environment(
        loader=PackageLoader("audit", "."), autoescape=True, undefined=StrictUndefined
    )
    environment.filters["worth"] = _worth
    spent = evidence.certificate["statement"]["dataset"]["spent_epsilon"]
    return environment.get_template("evidence.html").render(
        evidence=evidence,
        statement=evidence.certificate["statement"],
        fingerprint=fingerprint_of(public_key),
        promise_odds=_odds(*evidence.promise),
        spent_odds=_odds(spent, evidence.promise[1]),
        changed=[one for one in evidence.proofs if not one.is_running],
    )


def signed(page: str, signer: Signer) -> bytes:
    """Return a page with its signature behind it.

    Args:
        page: As `render` returns it.
        signer: The curator's key.
    """
    content = page.rstrip("\n").encode() + b"\n"
    key, signature = (
        base64.b64encode(one).decode() for one in (signer.public_key(), signer.sign(content))
    )
    return content + f"<!-- {FORMAT} {key} {signature} -->\n".encode()


def _odds(epsilon: float, delta: float) -> str:
    """Return how often a guess may be right whose maker was undecided before, as people read it.

    Of all tests of a mechanism that is (epsilon, delta) private, none is right in more than
    (e^epsilon + delta) / (e^epsilon + 1) of the cases, in and out being as likely.
    """
    if epsilon > _BEYOND:  # such as spend that was added when an older copy was restored
        return "always: an epsilon this large promises nothing"
    odds = (math.exp(epsilon) + delta) / (1 - delta)
    wrong = 100 / (1 + odds)
    digits = max(0, 1 - math.floor(math.log10(wrong)))
    times = f"{odds:,.{1 if odds < _LARGE else 0}f}"
    return f"{100 - wrong:.{digits}f} times in 100, {times} for each time they are wrong"


def _worth(epsilon: float) -> str:
    """Return how strong a promise is, in words."""
    if epsilon <= _STRONG:
        return "strong: at most a hint"
    if epsilon <= _FAIR:
        return "fair: in the worst case a good guess"
    return "weak: no protection against the worst case that can be imagined"
