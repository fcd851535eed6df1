"""A small process that has imported the ledger and forks one child for each case.

It reads one JSON case a line and answers the child's exit status; a fork costs milliseconds where
an import costs half a second. It imports no torch, and says so when it starts.
"""

from __future__ import annotations

import gc
import importlib
import importlib.util
import json
import os
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from curator.accounting.rule import BudgetRule
from tests.contract.ledger_values import BUDGET, SETUP, opening
from tests.crash.locations import open_ledger
from tests.crash.naive import ComputesThenCharges
from tests.crash.points import ANYWHERE, Reaper
from tests.crash.workload import Case, Workload

_LONGEST_LIFE: Final = 0.3  # seconds, of a child that is killed anywhere


def live(case: Case) -> None:
    reaper = Reaper(case.point, case.times)
    reaper.plant()
    head = Path(f"{case.journal}.head")
    ledger: Any = reaper.during("migrate", lambda: open_ledger(case.location, head))
    if case.kind == "naive":
        ledger = ComputesThenCharges(ledger)
    Workload(case, ledger, reaper).run()


def serve_one(case: Case) -> int:
    """Fork, wait, and return the exit status: -9 for a killed child."""
    child = os.fork()
    if not child:
        try:
            live(case)
        except BaseException as error:  # noqa: BLE001 - a child says why and never returns
            sys.stderr.write(f"{case}: {error!r}\n")
            sys.stderr.flush()
            os._exit(1)
        os._exit(0)
    if case.point == ANYWHERE and case.life == 0:
        time.sleep(_LONGEST_LIFE * (case.seed * 0.618 % 1))
        os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def main() -> None:
    heavy = sorted({"torch", "scipy", "grpc", "fastapi"} & set(sys.modules))
    _prepare()
    gc.freeze()
    _say(json.dumps(heavy))
    for line in sys.stdin:
        _say(str(serve_one(Case(**json.loads(line)))))


def _prepare() -> None:
    """Compute costs and import what a database needs, so that no child does it anew."""
    opening(setup=SETUP), BudgetRule.register(BUDGET)
    if importlib.util.find_spec("psycopg"):
        importlib.import_module("sqlalchemy.dialects.postgresql.psycopg")
        importlib.import_module("psycopg")
    with tempfile.TemporaryDirectory(prefix="weir-zygote-") as folder:
        open_ledger(f"{folder}/ledger.sqlite", Path(folder, "head")).close()


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
