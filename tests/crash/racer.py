"""Sixteen processes that each ask one ledger for one step at the same moment.

`python -m tests.crash.racer LOCATION RACERS` prints how many were granted and how many refused.
"""

from __future__ import annotations

import os
import sys

from curator.errors import BudgetExhausted
from tests.contract.ledger_values import opening
from tests.crash.locations import open_ledger

_REFUSED, _GRANTED, _FAILED = 0, 1, 2


def ask(location: str, number: int, ready: int, wait: int) -> int:
    ledger = open_ledger(location)
    asked = opening(f"racer-{number}", 1)
    os.write(ready, b".")
    os.read(wait, 1)  # until everybody is here
    try:
        ledger.open_run(asked, f"holder-{number}")
    except BudgetExhausted:
        return _REFUSED
    return _GRANTED


def main(location: str, racers: int) -> None:
    (arrivals, ready), (wait, start) = os.pipe(), os.pipe()
    children = []
    for number in range(racers):
        child = os.fork()
        if not child:
            os.close(start)
            try:
                os._exit(ask(location, number, ready, wait))
            except BaseException as error:  # noqa: BLE001 - a child never returns
                sys.stderr.write(f"{error!r}\n")
                os._exit(_FAILED)
        children.append(child)
    os.close(ready)
    here = 0
    while here < racers and (arrived := os.read(arrivals, racers)):
        here += len(arrived)
    os.close(start)
    ends = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    sys.stdout.write(f"{ends.count(_GRANTED)} {ends.count(_REFUSED)}\n")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
