"""Streams that never read their answers: ten of them send heavy steps of 256 KB all the time.

Usage: python -m tests.load.unread_answers
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

from analyst.client.codec import encode_step
from analyst.errors import AnalystError
from tests.e2e.conftest import batch
from tests.e2e.test_doors import RAW
from tests.load.harness import CHEAP_SINKHORN, Target, main

_STREAMS: Final = 10
_ROWS: Final = 1000  # of 256 bytes
_HEAVY: Final = CHEAP_SINKHORN | {"num_samples": 800, "num_debias": 200}


def _steps(run_id: str, first: int, until: float) -> Iterator[bytes]:
    images, labels = batch(_ROWS)
    request = encode_step(run_id, first, images, labels).whole()
    while time.monotonic() < until:
        yield request.SerializeToString()
        request.step += 1


def attack(target: Target, until: float) -> dict[str, int]:
    name, opened = target.attackers[0], 0
    with target.connect(name) as barrier, target.channel() as channel:
        method = channel.stream_stream("/weir.v1.WeirService/StreamSteps", RAW, RAW)
        runs = [
            barrier.open_run("digits", "dp-sinkhorn", _HEAVY, num_steps=100_000)
            for _ in range(_STREAMS)
        ]
        calls: dict[str, Any] = {}
        while time.monotonic() < until:
            for run_id in (run.run_id for run in runs):
                if run_id not in calls or not calls[run_id].is_active():
                    with suppress(AnalystError):
                        steps = _steps(run_id, barrier.resume_run(run_id).next_step, until)
                        calls[run_id] = method(steps, metadata=target.metadata(name))
                        opened += 1
            time.sleep(0.2)
        for call in calls.values():
            call.cancel()
    return {"streams": opened}


if __name__ == "__main__":
    sys.exit(main(attack, __doc__))
