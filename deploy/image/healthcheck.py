"""Whether the curator of this container takes steps: exit code 0 or 1 and one line.

It asks `/readyz` over TLS and trusts the curator's own authority only. That answer means more than
`/healthz`: the ledger can be read and the server is not draining.
"""  # noqa: INP001 - a program of the image, not of the package

from __future__ import annotations

import http.client
import os
import ssl
import sys
from pathlib import Path

_TIMEOUT_S = 4.0


def is_ready(folder: Path, port: int) -> tuple[bool, str]:
    """Ask the curator on this machine.

    Args:
        folder: The curator's, for the authority that signed its certificate.
        port: Where the curator answers this and nothing else.

    Returns:
        Whether it takes steps, and its words or why there are none.
    """
    try:
        tls = ssl.create_default_context(cafile=folder / "identity" / "ca.pem")
        connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=_TIMEOUT_S, context=tls)
        connection.request("GET", "/readyz")
        response = connection.getresponse()
        words = response.read(200).decode(errors="replace")
        connection.close()
    except (OSError, http.client.HTTPException) as error:
        return False, f"no answer: {type(error).__name__}"
    return response.status == http.client.OK, words


def main() -> int:
    """Say what the curator says."""
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 8081
    ready, words = is_ready(Path(os.environ["CURATOR_DIR"]), port)
    sys.stdout.write(words + "\n")
    return 0 if ready else 1


if __name__ == "__main__":
    sys.exit(main())
