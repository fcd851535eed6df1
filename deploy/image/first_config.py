"""Write the configuration of a curator that has none, with the host names of its certificate.

`first_config.py FILE` takes the names from WEIR_HOST_NAMES, separated by commas or blanks. A file
that exists is the steward's and is left as it is.
"""  # noqa: INP001 - a program of the image, not of the package

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from curator.config import TEMPLATE

_NO_NAMES = "\nhost_names = []\n"


def configuration(host_names: list[str]) -> str:
    """Return the template of a configuration with host names filled in.

    Args:
        host_names: DNS names and addresses under which analysts reach the curator.

    Raises:
        RuntimeError: If the template has no place for them.
    """
    if TEMPLATE.count(_NO_NAMES) != 1:
        msg = "the template of curator.toml has no empty host_names to fill in"
        raise RuntimeError(msg)
    return TEMPLATE.replace(_NO_NAMES, f"\nhost_names = {json.dumps(host_names)}\n")


def main() -> None:
    """Write the file unless it exists, whole or not at all."""
    path = Path(sys.argv[1])
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    partial.touch(mode=0o600)
    partial.write_text(configuration(os.environ["WEIR_HOST_NAMES"].replace(",", " ").split()))
    partial.rename(path)


if __name__ == "__main__":
    main()
