"""A curator to be attacked and thrown away: TLS, tokens and gRPC as usual, in a temporary folder.

The attacker is an analyst like any other, with the analyst's client.

No budget is ever widened for the audit. A data set affords a few releases, so the same records are
registered under as many names as the trials need, which `curator dataset add` would refuse. The
ledger is the one in memory: it keeps the same contract and charges before each release, and is
five times as fast where each trial opens a run.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import cast

from analyst.client import Barrier, connect
from audit.canaries import audit_facts
from audit.canary_records import Records
from curator.clock import utc_now
from curator.data.sampling import PrivateRecords
from curator.folder import initialise
from curator.ledger.ledger import DatasetRegistration
from curator.ledger.memory import MemoryLedger
from curator.planning.planner import Planner
from curator.privacy.facts import DatasetFacts
from curator.privacy.noise import NoiseSource
from curator.rpc.identity import KnownCallers
from curator.rpc.server import RpcConfig, create_server
from curator.service.limits import Limits
from curator.service.runs import Runs
from curator.service.served_datasets import ServedDataset, ServedDatasets
from curator.service.service import Computing, Service

_ANALYST = "attacker"
_LIMITS = Limits(max_samples=64, max_message_mib=1)
_GRACE_SECONDS = 5.0


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class ThrowAwayCurator:
    """A serving curator and a connection to it."""

    runs: Runs
    records: Records
    barrier: Barrier
    facts: Callable[[str], DatasetFacts] = audit_facts
    _numbers: Iterator[int] = field(default_factory=count)

    def new_dataset(self) -> str:
        """Register the records once more, with a whole budget."""
        facts = self.facts(f"audit-{next(self._numbers)}")
        self.runs.ledger.register_dataset(
            DatasetRegistration(
                name=facts.name,
                budget=facts.budget,
                adjacency=facts.adjacency,
                facts_json=facts.model_dump_json(),
            )
        )
        sealed = cast("PrivateRecords", self.records)
        self.runs.datasets.add(ServedDataset(facts=facts, records=sealed))
        return facts.name


@contextmanager
def throw_away_curator(
    records: Records,
    noise: NoiseSource,
    facts: Callable[[str], DatasetFacts] = audit_facts,
    limits: Limits = _LIMITS,
    monotonic: Callable[[], float] = time.monotonic,
) -> Iterator[ThrowAwayCurator]:
    """Serve records on the loopback interface until the block is left.

    Args:
        records: Public canaries.
        noise: The production source, unless a test plants another.
        facts: Returns the public facts of a data set of a name.
        limits: Of the curator.
        monotonic: Its clock, by which it decides how many steps it charges ahead.

    Yields:
        The curator.
    """
    with tempfile.TemporaryDirectory(prefix="weir-audit-") as root:
        folder = initialise(Path(root) / "curator")
        credentials = folder.add_analyst(_ANALYST)
        executor = ThreadPoolExecutor(1, thread_name_prefix="audit")
        runs = Runs(
            ledger=MemoryLedger(utc_now),
            datasets=ServedDatasets(),
            holder=f"audit-{threading.get_native_id()}",
            monotonic=monotonic,
        )
        computing = Computing(noise=noise, executor=executor)
        server = create_server(
            Service(runs=runs, computing=computing, limits=limits),
            Planner(ledger=runs.ledger, facts=runs.datasets.facts, limits=limits),
            KnownCallers(folder.tokens),
            folder.signing_key,
            RpcConfig(
                host="127.0.0.1",
                port=0,
                tls=folder.tls,
                max_message_bytes=limits.max_message_bytes,
                reflection=False,
            ),
        )
        server.start()
        try:
            with connect(f"localhost:{server.port}", credentials=credentials) as barrier:
                yield ThrowAwayCurator(runs=runs, records=records, barrier=barrier, facts=facts)
        finally:
            server.drain(_GRACE_SECONDS)
            executor.shutdown(wait=True)
