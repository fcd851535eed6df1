"""Write what Prometheus needs to read a curator's metrics, out of an auditor's credentials file.

`scrape_credentials.py CREDENTIALS FOLDER` writes `token` and `ca.pem`, readable by the owner's
group. Both files end when the auditor is revoked; nothing else in the credentials is copied.
"""  # noqa: INP001 - a program of the image, not of the package

from __future__ import annotations

import json
import sys
from pathlib import Path


def main() -> int:
    """Write both files, and say which."""
    if len(sys.argv) != 3:
        sys.stderr.write("usage: scrape_credentials.py CREDENTIALS FOLDER\n")
        return 2
    source, folder = Path(sys.argv[1]), Path(sys.argv[2])
    content = json.loads(source.read_text())
    if "token" not in content:
        sys.stderr.write("these credentials have a certificate; make some with a token\n")
        return 1
    for name, text in (("token", content["token"]), ("ca.pem", content["certificate_authority"])):
        path = folder / name
        path.unlink(missing_ok=True)
        path.touch(mode=0o640)
        path.chmod(0o640)
        path.write_text(text)
        sys.stdout.write(f"wrote {path}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
