"""REST connections of strangers with one whole request, and a second whose head hardly comes.

Usage: python -m tests.load.second_heads
"""

from __future__ import annotations

import sys
from typing import Final

from tests.load.harness import Target, main
from tests.load.slow_rest import hold

_HEAD: Final = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
_BEGINNING: Final = _HEAD + b"\r\n" + _HEAD + b"X: "


def attack(target: Target, until: float) -> dict[str, int]:
    return hold(target, _BEGINNING, b"x", until)


if __name__ == "__main__":
    sys.exit(main(attack, __doc__))
