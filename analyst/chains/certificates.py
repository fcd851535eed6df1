"""The certificates of a chain's parts: each signed, each of the noise that was planned.

The parts are what the analyst wrote down; the numbers that count are the ones that were signed.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from analyst.certificate import Verified, certificate_text, check_certificate
from analyst.chains.folder import read_chain
from analyst.chains.plan import Part
from analyst.errors import CertificateError


@dataclass(frozen=True, kw_only=True, slots=True)
class CertifiedPart:
    """A part of a chain's budget with the certificate of its run."""

    part: Part
    verified: Verified

    def text(self) -> str:
        """Return the part in a line, and the certificate in words."""
        part = self.part
        head = (
            f"stage      {part.stage}: {part.share:.1%} of the shares, noise_multiplier "
            f"{part.noise_multiplier:g}; the chain's plan was epsilon {part.epsilon_after:.4f} "
            "after it"
        )
        return f"{head}\n{certificate_text(self.verified)}"

    def to_json(self) -> dict[str, Any]:
        """Return the part as plain values."""
        return {"part": asdict(self.part)}


def certified_parts(
    out: Path, public_key: bytes | None = None, fingerprint: str | None = None
) -> list[CertifiedPart]:
    """Check the certificates of a chain, one for each part.

    Args:
        out: The chain's folder.
        public_key: As of `check_certificate`.
        fingerprint: As of `check_certificate`.

    Raises:
        CertificateError: If one does not hold, or is of a run with another noise than its part.
    """
    chain = read_chain(out)
    paths, found = chain.certificates(), list[CertifiedPart]()
    for part in chain.parts:
        verified = check_certificate(paths[part.stage], public_key, fingerprint)
        run = verified.statement.get("run", {})
        signed = run.get("parameters", {}).get("noise_multiplier"), run.get("declared_steps")
        planned = part.noise_multiplier, part.num_steps
        if run.get("mechanism") != part.mechanism or signed != planned:
            message = f"{paths[part.stage]} is of another run than stage '{part.stage}' of {out}"
            raise CertificateError(message, "Restore the folder, or fetch the certificate again.")
        found.append(CertifiedPart(part=part, verified=verified))
    return found
