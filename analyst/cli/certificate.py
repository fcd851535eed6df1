"""`analyst certificate`: check one offline, or fetch that of a closed run again."""

from __future__ import annotations

from pathlib import Path
from shlex import quote

import typer

from analyst.cli.access import Access
from analyst.cli.command import Task, command
from analyst.cli.exit_code import ExitCode
from analyst.cli.options import Group, argument, flag, option
from analyst.new_file import check_output, write_file

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
    file: Path = argument("FILE", "The certificate."),
    credentials: Path | None = option(
        "Also check that the curator of these credentials signed.", "FILE"
    ),
    fingerprint: str | None = option(
        "Also check that the key of this fingerprint signed, as 'curator key' prints it.",
        "SHA256:...",
    ),
) -> ExitCode:
    """Check a certificate; asks no curator."""
    from analyst.certificate import certificate_text, check_certificate
    from analyst.client.credentials import load_credentials

    screen = task.screen
    key = None if credentials is None else load_credentials(credentials).certificate_key
    verified = check_certificate(file, key, fingerprint)
    known = key is not None or fingerprint is not None
    screen.show(certificate_text(verified))
    screen.answer(
        {
            "statement": verified.statement,
            "signed_by": verified.fingerprint,
            "signer_is_known": known,
            "rehearsal": verified.is_rehearsal,
        }
    )
    if verified.is_rehearsal:
        screen.warn("error: the certificate is of a rehearsal, or of a kind this program knows not")
        screen.warn("what to do: train against a curator with private data, then verify again")
        return ExitCode.REHEARSAL
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
