"""REST requests of strangers whose bodies hardly come.

Usage: python -m tests.load.slow_bodies
"""

from __future__ import annotations

import sys
from typing import Final

from tests.load.harness import Target, main
from tests.load.slow_rest import hold

_BEGINNING: Final = (
    b"POST /sign-in HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n"
    b"Sec-Fetch-Site: same-origin\r\n"  # else it is answered before its body
    b"Content-Type: application/x-www-form-urlencoded\r\n\r\na"
)


def attack(target: Target, until: float) -> dict[str, int]:
    return hold(target, _BEGINNING, b"a", until)


if __name__ == "__main__":
    sys.exit(main(attack, __doc__))
