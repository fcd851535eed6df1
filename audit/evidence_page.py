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


def render(evidence: Evidence, public_key: bytes) -> str:
    """Return the page, not signed.

    Args:
        evidence: With attacks it is private, and says so.
        public_key: Of the curator, to be named.
    """
    environment = Environment(
        loader=PackageLoader("audit", "."), autoescape=True, undefined=StrictUndefined
    )
    epsilon, _ = evidence.promise
    return environment.get_template("evidence.html").render(
        evidence=evidence,
        statement=evidence.certificate["statement"],
        fingerprint=fingerprint_of(public_key),
        odds=_odds(epsilon),
        right=100 / (1 + math.exp(-epsilon)),
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


def _odds(epsilon: float) -> str:
    """Return e to the epsilon as people read it."""
    odds = math.exp(epsilon)
    return f"{odds:,.1f}" if odds < 10 else f"{odds:,.0f}"
