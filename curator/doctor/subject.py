"""What is examined: this machine, and the folder of a curator if one is named."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from curator.administration.channel import socket_name
from curator.config import ConfigError, CuratorConfig, load_config
from curator.doctor.locks import is_locked
from curator.folder import CuratorFolder

_SECONDS = 2.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Subject:
    """What the checks look at; the folder may be broken, half made or not there.

    `config_problem` says why the configuration cannot be read; the defaults stand in for it then.
    `is_busy`: nobody serves it, and a process holds it, such as a curator that is starting.
    """

    folder: CuratorFolder | None
    config: CuratorConfig
    config_problem: str
    is_served: bool
    is_busy: bool = False

    @classmethod
    def of(cls, root: Path | None) -> Self:
        """Look at a folder for the first time.

        Args:
            root: Of the curator; None for the machine alone.
        """
        config, problem = CuratorConfig(), ""
        if root is None:
            return cls(folder=None, config=config, config_problem="", is_served=False)
        folder = CuratorFolder(root)
        try:
            config = load_config(folder.config)
        except (ConfigError, OSError) as error:
            problem = str(error)
        is_served = _is_listening(folder.socket)
        locks = (
            folder.socket.with_suffix(".lock"),
            folder.ledger.with_name(f"{folder.ledger.name}.lock"),
        )
        return cls(
            folder=folder,
            config=config,
            config_problem=problem,
            is_served=is_served,
            is_busy=not is_served and any(map(is_locked, locks)),
        )


def _is_listening(path: Path) -> bool:
    """Return whether a curator takes commands there; nothing is sent."""
    try:
        with socket_name(path) as name, socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(_SECONDS)
            probe.connect(name)
    except OSError:
        return False
    return True
