"""Have a command carried out: by the curator that serves the folder, or else here."""

from __future__ import annotations

import os
import secrets

from curator.administration.channel import send
from curator.administration.commands import Command
from curator.administration.open_ledger import open_ledger
from curator.config import load_config
from curator.folder import CuratorFolder


def administer(folder: CuratorFolder, command: Command) -> tuple[str, ...]:
    """Have a command carried out; while a curator serves, by that curator, so it is live at once.

    Args:
        folder: The curator's folder.
        command: What is asked.

    Raises:
        CommandRefused: If the serving curator refused it.
        ValueError: If it is refused here.
    """
    lines = send(folder.socket, command)
    if lines is not None:
        return lines
    from curator.administration.execute import execute  # torch, where nobody serves
    from curator.service.runs import Runs
    from curator.service.served_datasets import ServedDatasets

    ledger = open_ledger(folder, load_config(folder.config))
    try:
        holder = f"steward:{os.getpid()}:{secrets.token_hex(8)}"
        runs = Runs(ledger=ledger, datasets=ServedDatasets(), holder=holder)
        return execute(runs, folder, command)
    finally:
        ledger.close()
