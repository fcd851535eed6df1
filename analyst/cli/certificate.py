"""`analyst certificate`: check one offline, or fetch that of a closed run again."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import typer

from analyst.cli.access import Access
from analyst.cli.command import Task, command
from analyst.cli.exit_code import ExitCode
from analyst.cli.options import Group, argument, flag, option
from analyst.new_file import check_output, write_file

if TYPE_CHECKING:
    from analyst.certificate import Verified
    from analyst.screen import Screen

app = typer.Typer(
    name="certificate", cls=Group, help="Check a privacy certificate, or fetch a lost one."
)


@command(
    app,
    "certificate verify runs/digits/certificate.json --credentials alice.credentials.json",
    reads=True,
)
def verify(
    task: Task,
    *,
    file: Path = argument(
        "FILE|DIR",
        "The certificate, a page of 'curator evidence', or a chain's folder for all of its.",
    ),
    credentials: Path | None = option(
        "Also check that the curator of these credentials signed.", "FILE"
    ),
    fingerprint: str | None = option(
        "Also check that the key of this fingerprint signed, as 'curator key' prints it.",
        "SHA256:...",
    ),
) -> ExitCode:
    """Check a certificate, those of a chain's parts, or a page of evidence; asks no curator."""
    from analyst.certificate import (
        certificate_text,
        check_certificate,
        check_evidence,
        is_evidence,
    )
    from analyst.client.credentials import load_credentials

    screen = task.screen
    key = None if credentials is None else load_credentials(credentials).certificate_key
    known = key is not None or fingerprint is not None
    if file.is_dir():
        from analyst.chains.certificates import certified_parts

        parts = certified_parts(file, key, fingerprint)
        screen.show("\n\n".join(part.text() for part in parts))
        screen.answer([part.to_json() | _answer(part.verified, known=known) for part in parts])
        worst = max(parts, key=lambda part: part.verified.is_rehearsal)
        return _judged(screen, worst.verified, known=known)
    if is_evidence(file):
        signer = check_evidence(file, key, fingerprint)
        screen.show(f"a page of evidence, signed by {signer}")
        screen.answer({"evidence": str(file), "signed_by": signer, "signer_is_known": known})
        return _known_or_not(screen, known=known)
    verified = check_certificate(file, key, fingerprint)
    screen.show(certificate_text(verified))
    screen.answer(_answer(verified, known=known))
    return _judged(screen, verified, known=known)


def _answer(verified: Verified, *, known: bool) -> dict[str, Any]:
    return {
        "statement": verified.statement,
        "signed_by": verified.fingerprint,
        "signer_is_known": known,
        "rehearsal": verified.is_rehearsal,
    }


def _judged(screen: Screen, verified: Verified, *, known: bool) -> ExitCode:
    """Say what a certificate is worth."""
    if verified.is_rehearsal:
        screen.warn("error: the certificate is of a rehearsal, or of a kind this program knows not")
        screen.warn("what to do: train against a curator with private data, then verify again")
        return ExitCode.REHEARSAL
    return _known_or_not(screen, known=known)


def _known_or_not(screen: Screen, *, known: bool) -> ExitCode:
    """Say whose signature it is."""
    if not known:
        screen.warn(
            "error: the signature holds, but anybody could have made it with a key of theirs"
        )
        screen.warn(
            "what to do: give --credentials, or --fingerprint as the steward tells it, to check "
            "that your curator made it"
        )
        return ExitCode.UNKNOWN_SIGNER
    screen.show("the signature holds, and it is your curator's")
    return ExitCode.OK


@command(
    app,
    "certificate fetch 0123456789abcdef0123456789abcdef --curator localhost:50051 \\\n"
    "      --credentials alice.credentials.json --out runs/digits/certificate.json",
)
def fetch(
    task: Task,
    *,
    run_id: str = argument("RUN_ID", "As 'train' printed it."),
    out: Path = option("Where to write it.", "FILE.json", needed=True),
    access: Access,
    force: bool = flag("--force", "Replace an existing file."),
) -> None:
    """Fetch the certificate of a closed run of yours again.

    Raises:
        CertificateError: If the run has none.
    """
    from analyst.errors import CertificateError

    check_output(out, force=force)
    with task.connect(access.one()) as barrier:
        certificate = getattr(barrier.resume_run(run_id), "certificate", "")
    if not certificate:
        message = f"run {run_id} is open still: its certificate is made when it ends"
        raise CertificateError(message, f"Let it finish, or end it: analyst close {run_id}.")
    write_file(out, f"{certificate}\n".encode(), replace=force)
    task.screen.say(
        f"wrote {out}; to check it against the curator's key: "
        f"analyst certificate verify {quote(str(out))} --credentials FILE"
    )
    task.screen.answer({"run_id": run_id, "out": str(out)})
