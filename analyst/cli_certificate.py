"""`analyst certificate`: check one offline, or fetch that of a closed run again."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from contextlib import AbstractContextManager
from shlex import quote

from analyst.config import ConnectionConfig, ExitCode, connection_config
from analyst.new_file import check_output, write_file
from analyst.screen import Screen
from analyst.training.run_source import Curator

Connect = Callable[[ConnectionConfig], AbstractContextManager[Curator]]


def run_certificate(arguments: argparse.Namespace, connect: Connect, screen: Screen) -> ExitCode:
    """Check or fetch a certificate.

    Args:
        arguments: Of the command line.
        connect: Reaches the curator; a check asks none.
        screen: Takes the answer.
    """
    if arguments.action == "fetch":
        return _fetch(arguments, connect, screen)
    return _verify(arguments, screen)


def _fetch(arguments: argparse.Namespace, connect: Connect, screen: Screen) -> ExitCode:
    """Write the certificate of a closed run; the curator hands it to the run's own analyst only.

    Raises:
        CertificateError: If the run has none.
    """
    from analyst.errors import CertificateError

    run_id, out = arguments.run_id, arguments.out
    check_output(out, force=arguments.force)
    with connect(connection_config(arguments)) as barrier:
        certificate = getattr(barrier.resume_run(run_id), "certificate", "")
    if not certificate:
        message = f"run {run_id} is open still: its certificate is made when it ends"
        raise CertificateError(message, f"Let it finish, or end it: analyst close {run_id}.")
    write_file(out, f"{certificate}\n".encode(), replace=arguments.force)
    screen.say(
        f"wrote {out}; to check it against the curator's key: "
        f"analyst certificate verify {quote(str(out))} --credentials FILE"
    )
    screen.answer({"run_id": run_id, "out": str(out)})
    return ExitCode.OK


def _verify(arguments: argparse.Namespace, screen: Screen) -> ExitCode:
    from analyst.certificate import certificate_text, check_certificate
    from analyst.client.credentials import load_credentials

    key = None
    if arguments.credentials is not None:
        key = load_credentials(arguments.credentials).certificate_key
    verified = check_certificate(arguments.file, key, arguments.fingerprint)
    known = key is not None or arguments.fingerprint is not None
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
