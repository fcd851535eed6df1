"""Let go of all runs when this process ends in order: what was charged and not begun comes back.

A mark is charged some steps ahead of what is answered, so a process that only stops leaves up to a
block of each run spent for nothing. One that ends in order knows which steps were begun. It tells
the ledger, and claims none after that, whether the ledger confirms or not.
"""

from __future__ import annotations

import logging
import time

from curator.errors import CuratorError, RunClosed
from curator.ledger.problems import HolderLost, LedgerConflict
from curator.service.live_run import LiveRun
from curator.service.runs import Runs

_LOCK_SECONDS = 1.0  # a step claims in microseconds; who holds a lock longer waits for the ledger
_logger = logging.getLogger(__name__)


def relinquish_runs(runs: Runs) -> None:
    """Return to the budget what open runs of this process were charged ahead; call it at the end.

    What fails stays charged.

    Args:
        runs: Of this process, where no step is being computed any more.
    """
    until = time.monotonic() + _LOCK_SECONDS  # of all: others wait for this process's lease
    for live in list(runs.live.values()):
        if not live.lock.acquire(timeout=max(0.0, until - time.monotonic())):
            continue
        try:
            _relinquish(runs, live)
        except (HolderLost, LedgerConflict, RunClosed):  # another took it over, or ended it
            continue
        except CuratorError:
            _logger.warning("runs could not be relinquished; their last blocks stay charged")
            return
        finally:
            live.lock.release()


def _relinquish(runs: Runs, live: LiveRun) -> None:
    """Let go of one run whose lock is held, unless there is nothing to return.

    Raises:
        HolderLost: If another process took it over.
        LedgerUnavailable: If the ledger does not confirm; it may have been written.
    """
    if live.closed or live.used >= live.mark:
        return
    live.relinquished = True  # first: nothing that comes back may be claimed here
    runs.ledger.relinquish_run(live.run_id, runs.holder, live.epoch, live.used)
