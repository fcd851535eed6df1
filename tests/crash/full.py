"""Every point with many seeds: `python -m tests.crash.full --seeds 50` prints one JSON row.
`--database postgresql` does the same on a server of its own.

The files lie in shared memory where there is some: a killed process leaves its writes to the
kernel, synced or not, so the disk has no part in this and only makes it slow.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Final

from tests.contract.postgres_server import Server
from tests.contract.postgres_server import server as postgres_server
from tests.crash.harness import Zygote, kill_once
from tests.crash.points import POINTS
from tests.crash.workload import LARGEST_BLOCK

_SHARED: Final = Path("/dev/shm")  # noqa: S108 - see above
SCRATCH: Final = _SHARED if _SHARED.is_dir() else None


def run_all(seeds: int, server: Server | None) -> dict[str, object]:
    """Return the numbers; the first broken promise is raised."""
    started, killed, over = time.monotonic(), 0, Counter[int]()
    with Zygote() as zygote:
        for point in POINTS:
            for seed in range(seeds):
                with tempfile.TemporaryDirectory(prefix="weir-crash-", dir=SCRATCH) as name:
                    folder = Path(name)
                    location = server.fresh() if server else str(folder / "ledger.sqlite")
                    outcome = kill_once(zygote, location, folder / "journal", point, seed)
                killed += outcome.killed
                over[outcome.over_count] += 1
    return {
        "database": "postgresql" if server else "sqlite",
        "points": len(POINTS),
        "cases": len(POINTS) * seeds,
        "killed": killed,
        "largest_block": LARGEST_BLOCK,
        "cases_by_over_count": dict(sorted(over.items())),
        "seconds": round(time.monotonic() - started, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--database", choices=("sqlite", "postgresql"), default="sqlite")
    arguments = parser.parse_args()
    found = postgres_server() if arguments.database == "postgresql" else None
    if isinstance(found, str):
        parser.error(found)
    sys.stdout.write(json.dumps(run_all(arguments.seeds, found)) + "\n")


if __name__ == "__main__":
    main()
