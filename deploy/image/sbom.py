"""Write what an image contains as CycloneDX JSON: Python packages, and Debian's where they are.

    python sbom.py PYTHON OUT.cdx.json

PYTHON is the interpreter of the environment that is listed. The Python part is made by
`cyclonedx-bom`, which must be installed for the interpreter that runs this.
"""  # noqa: INP001 - a program of the image, not of the package

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote

_FORMAT = "${Package}\t${Version}\t${Architecture}\t${db:Status-Status}\n"
_FIELDS = 4


def python_packages(python: str) -> dict[str, Any]:
    """Return the bill of one Python environment.

    Args:
        python: Its interpreter.
    """
    command = [sys.executable, "-m", "cyclonedx_py", "environment", "--output-reproducible"]
    command += ["--spec-version", "1.6", "--output-format", "JSON", "--no-validate", python]
    done = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603 - fixed words
    bill: dict[str, Any] = json.loads(done.stdout)
    return bill


def debian_packages(listing: str, release: str) -> list[dict[str, str]]:
    """Return the installed packages of dpkg as components.

    Args:
        listing: Name, version, architecture and status, a package a line.
        release: Of the distribution, such as debian-12.
    """
    components = []
    for line in listing.splitlines():
        fields = line.split("\t")
        if len(fields) != _FIELDS or fields[3] != "installed":
            continue
        name, version, architecture = fields[:3]
        purl = (
            f"pkg:deb/debian/{quote(name)}@{quote(version, safe='')}"
            f"?arch={architecture}&distro={release}"
        )
        components.append(
            {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}
        )
    return components


def main(argv: list[str]) -> int:
    """Run the command line."""
    if len(argv) != 2:
        sys.stderr.write("usage: sbom.py PYTHON OUT.cdx.json\n")
        return 2
    bill = python_packages(argv[0])
    query = shutil.which("dpkg-query")
    if query is not None and Path("/etc/debian_version").exists():
        command = [query, "--show", f"--showformat={_FORMAT}"]
        listing = subprocess.run(command, check=True, capture_output=True, text=True).stdout  # noqa: S603 - fixed words
        version = Path("/etc/debian_version").read_text().strip()
        bill["components"] += debian_packages(listing, f"debian-{version.partition('.')[0]}")
    Path(argv[1]).write_text(json.dumps(bill, indent=1, sort_keys=True) + "\n")
    sys.stdout.write(f"{argv[1]}: {len(bill['components'])} components\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
