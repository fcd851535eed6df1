"""Check a privacy certificate: the signature, and whose it is."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from analyst.errors import AnalystError

_REMEDY = "Ask the curator's steward for the certificate again."


class CertificateError(AnalystError):
    """The certificate does not hold."""


def verify_certificate(path: Path, public_key: bytes | None = None) -> dict[str, Any]:
    """Check a certificate's signature.

    Args:
        path: The file.
        public_key: The curator's key, as the credentials file has it; without it the certificate
            is only checked against the key that it names itself.

    Returns:
        The statement that was signed.

    Raises:
        CertificateError: If the file is damaged, was changed, or another key signed it.
    """
    try:
        content = json.loads(path.read_bytes())
        statement: dict[str, Any] = content["statement"]
        named = base64.b64decode(content["public_key"], validate=True)
        signature = base64.b64decode(content["signature"], validate=True)
        signed = json.dumps(statement, sort_keys=True, separators=(",", ":")).encode()
        key = Ed25519PublicKey.from_public_bytes(named)
    except (OSError, ValueError, KeyError, TypeError):
        msg = f"{path} is not a privacy certificate."
        raise CertificateError(msg, _REMEDY) from None
    if public_key is not None and named != public_key:
        msg = f"{path} was signed by another curator."
        raise CertificateError(msg, _REMEDY)
    try:
        key.verify(signature, signed)
    except InvalidSignature:
        msg = f"{path} was changed after it was signed."
        raise CertificateError(msg, _REMEDY) from None
    return statement


def certificate_text(statement: dict[str, Any]) -> str:
    """Return a statement in words.

    Args:
        statement: As `verify_certificate` returned it.
    """
    dataset, run = statement["dataset"], statement["run"]
    promise, alone = dataset["promise"], statement["this_run_alone_at_its_declared_steps"]
    used = f"{run['used_steps']:,} of {run['declared_steps']:,} steps, {run['close_reason']}"
    epsilon, delta = promise["epsilon"], promise["delta"]
    head = statement["ledger_head"]
    lines = {
        "data set": f"{dataset['name']}, {dataset['adjacency']}",
        "promise": f"epsilon {epsilon:g} at delta {delta:g}, over all runs",
        "spent": f"epsilon {dataset['spent_epsilon']:.4f} when this was signed",
        "run": f"{run['id']} of {run['analyst']}: {run['mechanism']}, {used}",
        "alone": f"epsilon {alone['epsilon']:.4f} at its declared steps; not the promise",
        "ledger": f"entry {head['sequence']}, {head['digest'][:16]}...",
    }
    return "\n".join(f"{name:<10} {words}" for name, words in lines.items())
