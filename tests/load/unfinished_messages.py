"""Messages that never end: each stream holds back the last MiB of a message of 63 MiB.

Usage: python -m tests.load.unfinished_messages
"""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from typing import Final

from tests.load.harness import Target, main
from tests.load.http2 import Connection, message

_MIB: Final = 1 << 20
_LENGTH: Final = 63 * _MIB
_HELD_BACK: Final = _MIB
_STREAMS: Final = 24
_CONTENT: Final = message(bytes(_LENGTH - _HELD_BACK), _LENGTH)


def _keep_open(target: Target, name: str, until: float, told: Counter[str]) -> None:
    while time.monotonic() < until:
        connection = None
        with suppress(OSError):
            connection = Connection(target, name)
            while time.monotonic() < until:
                for _ in range(_STREAMS - len(connection.left)):
                    connection.open(_CONTENT)
                connection.pump()
        if connection is not None:
            told["sent_mib"] += connection.sent // _MIB
            told["ended"] += connection.ended
            connection.close()
        time.sleep(0.05)


def attack(target: Target, until: float) -> dict[str, int]:
    told: Counter[str] = Counter()
    threads = [
        threading.Thread(target=_keep_open, args=(target, name, until, told))
        for name in target.attackers
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return dict(told)


if __name__ == "__main__":
    sys.exit(main(attack, __doc__))
