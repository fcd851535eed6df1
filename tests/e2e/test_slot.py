"""Answers leave in slots over both wires, however long they took."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from curator.config import CuratorConfig, GrpcSection, RestSection, TimingSection
from curator.mechanisms.dp_sinkhorn import DpSinkhorn
from curator.process.bootstrap import create_curator
from tests.e2e.conftest import (
    OVER_BOTH_WIRES,
    SINKHORN,
    Local,
    batch,
    digits_folder,
    socket_of,
)

pytestmark = [pytest.mark.e2e, OVER_BOTH_WIRES]

SLOT = 0.4


@pytest.fixture
def local(tmp_path: Path, wire: str) -> Iterator[Local]:
    folder = digits_folder(tmp_path / "curator")
    config = CuratorConfig(
        grpc=GrpcSection(port=0, unix_socket=str(socket_of(folder)) if wire == "local" else ""),
        rest=RestSection(port=0),
        timing=TimingSection(response_slot_ms=1000 * SLOT),
    )
    curator = create_curator(folder, config)
    curator.start()
    yield Local(folder=folder, curator=curator, wire=wire)
    curator.draining.set()
    curator.wait()


def seconds(ask: Any) -> float:
    began = time.monotonic()
    ask()
    return time.monotonic() - began


def test_no_answer_leaves_before_its_slot_ends(
    local: Local, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, pauses = DpSinkhorn.gradient, iter((0.0, 0.1, 1.2 * SLOT))

    def uneven(*arguments: Any) -> Any:
        time.sleep(next(pauses))
        return real(*arguments)

    monkeypatch.setattr(DpSinkhorn, "gradient", uneven)
    with local.connect() as barrier:
        run = barrier.open_run("digits", "dp-sinkhorn", SINKHORN, num_steps=5)
        images, labels = batch()
        took = [seconds(lambda: run.gradient(images, labels)) for _ in range(3)]
        assert all(one >= SLOT for one in took)
        assert took[2] >= 2 * SLOT  # too late for its slot, it waits for the next one
