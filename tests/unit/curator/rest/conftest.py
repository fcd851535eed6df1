"""The application on a ledger in memory, with one run of alice and one of bob."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from fastapi import FastAPI

from curator.identity.tokens import TokenTable
from curator.service.caller import Role
from tests.browser.scenes import Scene


class Signer:
    def sign(self, message: bytes) -> bytes:
        return b"signature"

    def public_key(self) -> bytes:
        return b"key"


@dataclass(frozen=True, kw_only=True)
class Desk:
    """What the tests of the pages ask and change."""

    app: FastAPI
    table: TokenTable
    scene: Scene
    token: dict[str, str]
    open_run: str  # alice's
    closed_run: str  # bob's


@pytest.fixture
def table(tmp_path: Path) -> TokenTable:
    return TokenTable(tmp_path / "callers.json")


@pytest.fixture
def desk(table: TokenTable) -> Desk:
    scene = Scene("digits")
    alice = scene.open("digits", "alice", 5000)
    scene.run(alice, 1000, 4, 60)
    bob = scene.open("digits", "bob", 2000)
    scene.run(bob, 2000, 2, 60)
    scene.close(bob)
    roles = {
        "alice": Role.ANALYST,
        "bob": Role.ANALYST,
        "steward": Role.STEWARD,
        "auditor": Role.AUDITOR,
    }
    return Desk(
        app=scene.app(table, Signer()),
        table=table,
        scene=scene,
        token={name: table.add(name, role) for name, role in roles.items()},
        open_run=alice,
        closed_run=bob,
    )


@pytest.fixture
def app(table: TokenTable) -> FastAPI:
    return Scene().app(table, Signer())
