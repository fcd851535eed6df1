"""Messages that never end, 24 streams of each of three callers: all but the last MiB of 63 is sent.

A third of the streams send one message of 63 MiB, a third one of 2 MiB (which a curator that takes
large requests in pieces allows), and a third a request of 63 MiB in pieces.

Usage: python -m tests.load.unfinished_messages
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from contextlib import suppress
from typing import Any, Final

from protos.weir.v1 import release_pb2
from tests.load.harness import Target, main, together
from tests.load.http2 import Connection, message

_MIB: Final = 1 << 20
_LENGTH: Final = 63 * _MIB
_PIECE: Final = 3 * _MIB // 2
_STREAMS: Final = 24


def _pieces() -> bytes:
    """Return the pieces of a request, all but the last."""
    part: Any = getattr(release_pb2, "Part", None)
    if part is None:  # a curator before there were any
        return message(bytes(_LENGTH - _MIB), _LENGTH)
    piece = part(data=bytes(_PIECE), total_bytes=_LENGTH)
    one = message(release_pb2.StepRequest(part=piece).SerializeToString())
    return one * (_LENGTH // _PIECE - 1)


def _keep_open(target: Target, name: str, until: float, told: Counter[str]) -> None:
    contents = (
        message(bytes(_LENGTH - _MIB), _LENGTH),
        message(bytes(2 * _MIB - 1000), 2 * _MIB),
        _pieces(),
    )
    while time.monotonic() < until:
        connection = None
        with suppress(OSError):
            connection = Connection(target, name)
            while time.monotonic() < until:
                for _ in range(_STREAMS - len(connection.left)):
                    connection.open(contents[told["streams"] % len(contents)])
                    told["streams"] += 1
                connection.pump()
        if connection is not None:
            told["sent_mib"] += connection.sent // _MIB
            told["ended"] += connection.ended
            connection.close()
        time.sleep(0.05)


def attack(target: Target, until: float) -> dict[str, int]:
    return together(_keep_open, target, target.attackers, until)


if __name__ == "__main__":
    sys.exit(main(attack, __doc__))
