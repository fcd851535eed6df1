"""Curators to look at: nothing yet, a working week, a budget that is used up."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from fastapi import FastAPI

from curator.accounting.events.none import NoEvent
from curator.accounting.events.sampled_gaussian import SampledGaussianEvent
from curator.clock import utc_now
from curator.divergences.backend import Choice
from curator.errors import BudgetExhausted, CuratorError, PolicyRefused, StepOutOfOrder
from curator.identity.certificates import SigningKey, create_certificates
from curator.identity.listen import TlsFiles
from curator.identity.tokens import TokenTable
from curator.ledger.entries import CapLowered, PolicySet, ShareSet
from curator.ledger.ledger import DatasetRegistration, RunOpening
from curator.ledger.memory import MemoryLedger
from curator.overview.certificate import Signer
from curator.overview.summary import Shown
from curator.privacy.budget import REHEARSAL_EPSILON
from curator.privacy.event_numbers import SamplingRate
from curator.rest.app import create_app
from curator.rest.server import RestConfig, RestServer
from curator.service.caller import Role
from curator.service.releases_in_progress import InProgress
from curator.service.served_datasets import ServedDataset, ServedDatasets
from curator.service.service import Service
from curator.telemetry.requests import FinishedRequest
from tests.fakes.clock import FakeClock
from tests.fakes.curator import planner, service
from tests.fakes.facts import small_facts

HOLDER = "first"
PARAMETERS = '{"capacity":96,"clip_norm":0.5,"noise_multiplier":1.0,"sampling_rate":0.0278}'


@dataclass(frozen=True, kw_only=True)
class Served:
    """A curator's pages over TLS."""

    address: str
    tokens: TokenTable
    token: dict[str, str]
    service: Service


class Scene:
    """Writes a ledger whose entries lie in the past."""

    def __init__(self, *names: str) -> None:
        self.clock = FakeClock()
        self.clock.now = datetime.now(UTC) - timedelta(days=6)
        self.ledger = MemoryLedger(self.clock)
        self.making: dict[str, InProgress] = {}  # by run
        empty = service(self.ledger, holder=HOLDER)
        self.service = replace(empty, runs=replace(empty.runs, datasets=ServedDatasets()))
        for name in names:
            self.add(name)

    def app(self, tokens: TokenTable, signer: Signer, solver: Choice | None = None) -> FastAPI:
        shown = Shown(
            ledger=self.ledger,
            datasets=self.service.runs.datasets,
            telemetry=self.service.telemetry,
            is_ready=lambda: True,
            solver=solver,
            making=lambda: self.making,
        )
        return create_app(shown, planner(self.service), tokens, signer)

    def add(self, name: str, **changes: Any) -> None:
        facts = small_facts(
            name=name,
            height=28,
            width=28,
            classes=tuple("0123456789"),
            nominal_size=60_000,
            max_size=70_000,
            sampling_rate=1 / 1200,
            capacity=128,
            **changes,
        )
        self.ledger.register_dataset(
            DatasetRegistration(
                name=name,
                budget=facts.budget,
                adjacency=facts.adjacency,
                facts_json=facts.model_dump_json(),
            )
        )
        self.service.runs.datasets.add(ServedDataset(facts=facts, records=None))

    def open(self, dataset: str, analyst: str, num_steps: int, noise: float = 1.1) -> str:
        run_id = secrets.token_hex(16)
        event = SampledGaussianEvent(
            noise_multiplier=noise, sampling_rate=SamplingRate.at_least(1 / 1200)
        )
        opening = RunOpening.of_events(
            run_id=run_id,
            dataset=dataset,
            analyst=analyst,
            mechanism="dp-sinkhorn",
            parameters_json=PARAMETERS,
            setup_event=NoEvent(),
            step_event=event,
            num_steps=num_steps,
        )
        self.ledger.open_run(opening, HOLDER)
        return run_id

    def run(self, run_id: str, until: int, pieces: int, seconds: float) -> None:
        first = self.ledger.run(run_id).used
        for piece in range(1, pieces + 1):
            self.clock.advance(seconds / pieces)
            used = first + (until - first) * piece // pieces
            self.ledger.advance_mark(run_id, HOLDER, 1, used)

    def close(self, run_id: str, reason: str = "closed by the analyst") -> None:
        used = self.ledger.run(run_id).used
        self.ledger.close_run(run_id, HOLDER, 1, used, reason)

    def refuse(self, caller: str, kind: type[CuratorError], times: int) -> None:
        for number in range(times):
            request = FinishedRequest(
                request_id=f"{number:016x}",
                method="/weir.v1.WeirService/Step",
                caller=caller,
                outcome=kind.reason,
                seconds=0.01,
                reason=kind.reason,
            )
            self.service.telemetry.finished(_silent(), request)


def empty() -> Scene:
    return Scene()


def rehearsing() -> Scene:
    """Public data without a limit, and far more spent than any private set could be."""
    scene = Scene()
    scene.add("rehearsal-digits", epsilon=REHEARSAL_EPSILON, rehearsal=True)
    first = scene.open("rehearsal-digits", "rehearser", 2000, noise=0.2)
    scene.run(first, 2000, 8, 86_400)
    scene.close(first)
    second = scene.open("rehearsal-digits", "rehearser", 500, noise=0.5)
    scene.run(second, 300, 3, 3600)
    return scene


def working() -> Scene:
    scene = Scene("digits", "scans")
    day = 86_400.0
    scene.ledger.decide(
        PolicySet(dataset="digits", policy_json='{"max_images":64,"min_noise_multiplier":0.8}')
    )
    scene.ledger.decide(ShareSet(dataset="digits", analyst="alice", epsilon=6.0))
    scene.ledger.decide(ShareSet(dataset="digits", analyst="bob", epsilon=3.0))
    first = scene.open("digits", "alice", 400_000)
    scene.run(first, 400_000, 60, 1.5 * day)
    scene.close(first, "declared steps used")
    scene.clock.advance(0.5 * day)
    second = scene.open("digits", "bob", 300_000)
    scene.run(second, 110_000, 40, 0.8 * day)
    scene.close(second)
    third = scene.open("digits", "alice", 600_000)
    scans = scene.open("scans", "bob", 50_000, 1.3)
    rest = (utc_now() - scene.clock.now).total_seconds() - 240
    scene.run(third, 240_000, 50, rest)
    scene.run(scans, 12_000, 4, 60)
    scene.run(third, 258_000, 12, 170)
    scene.ledger.decide(CapLowered(dataset="scans", epsilon=8.0, reason="test"))
    scene.refuse("alice", StepOutOfOrder, 2)
    scene.refuse("bob", BudgetExhausted, 5)
    scene.refuse("bob", PolicyRefused, 1)
    return scene


def exhausted() -> Scene:
    scene = Scene("digits")
    account = scene.ledger.account("digits")
    event = SampledGaussianEvent(
        noise_multiplier=1.1, sampling_rate=SamplingRate.at_least(1 / 1200)
    )
    probe = RunOpening.of_events(
        run_id="0" * 32,
        dataset="digits",
        analyst="alice",
        mechanism="dp-sinkhorn",
        parameters_json=PARAMETERS,
        setup_event=NoEvent(),
        step_event=event,
        num_steps=1,
    )
    most = account.rule.affordable_steps(account.reserved, probe.setup, probe.step, 10**8)
    run_id = scene.open("digits", "alice", most)
    scene.run(run_id, most, 80, 5 * 86_400.0)
    scene.close(run_id, "declared steps used")
    scene.refuse("alice", BudgetExhausted, 31)
    return scene


@contextmanager
def serving(folder: Path, make: Callable[[], Scene]) -> Iterator[Served]:
    """Serve a scene over TLS on a free port."""
    scene = make()
    folder.mkdir()
    create_certificates(folder, [])
    tokens = TokenTable(folder / "callers.json")
    roles = {"alice": Role.ANALYST, "bob": Role.ANALYST, "steward": Role.STEWARD}
    token = {name: tokens.add(name, role) for name, role in roles.items()}
    key = SigningKey(folder / "signing.key")
    app = scene.app(tokens, key)
    tls = TlsFiles(
        certificate=folder / "server.pem", key=folder / "server.key", authority=folder / "ca.pem"
    )
    server = RestServer(app, RestConfig(host="127.0.0.1", port=0, tls=tls))
    server.start()
    yield Served(
        address=f"https://localhost:{server.port}",
        tokens=tokens,
        token=token,
        service=scene.service,
    )
    server.stop()


def _silent() -> logging.Logger:
    return logging.Logger("silent", logging.CRITICAL)  # noqa: LOG001 - ends with the scene
