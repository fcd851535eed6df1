"""A port is free, this curator's, somebody else's, or cannot be had."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from curator.config import CuratorConfig, GrpcSection, RestSection
from curator.doctor.finding import Finding, State
from curator.doctor.locks import are_listed
from curator.doctor.ports import ports
from curator.doctor.subject import Subject
from curator.folder import CuratorFolder, initialise
from curator.ledger.file_lock import WriterLock

HERE = "127.0.0.1"


def look(folder: CuratorFolder, *, grpc: int, host: str = HERE, is_served: bool = False) -> Finding:
    config = CuratorConfig(grpc=GrpcSection(host=host, port=grpc), rest=RestSection(port=0))
    return ports(replace(Subject.of(folder.root), config=config, is_served=is_served))


@contextmanager
def listening(folder: CuratorFolder | None = None) -> Iterator[int]:
    """Hold a port; with a folder, show its certificate there."""
    with socket.create_server((HERE, 0)) as server:

        def answer() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    if folder is None:
                        continue
                    try:
                        folder.tls.context().wrap_socket(connection, server_side=True).close()
                    except OSError:
                        continue

        threading.Thread(target=answer, daemon=True).start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)


def test_a_free_port_is_free_and_stays_so(folder: CuratorFolder) -> None:
    with socket.create_server((HERE, 0)) as server:
        port = server.getsockname()[1]
    for _ in range(2):
        finding = look(folder, grpc=port)
        assert finding.state is State.OK
        assert f"grpc {HERE}:{port} free" in finding.words


def test_this_folder_s_curator_is_known_by_its_certificate(folder: CuratorFolder) -> None:
    with listening(folder) as port:
        started_meanwhile = look(folder, grpc=port)
        assert "is starting or stopping" in started_meanwhile.words
        assert "no curator" not in started_meanwhile.words
        finding = look(folder, grpc=port, is_served=True)
        assert finding.state is State.OK
        assert f"grpc {HERE}:{port} held by the curator of this folder" in finding.words


def test_another_curator_is_not_this_one(folder: CuratorFolder, tmp_path: Path) -> None:
    with listening(initialise(tmp_path / "other")) as port:
        finding = look(folder, grpc=port)
        assert finding.state is State.ATTENTION
        assert "held by another program" in finding.words


def test_a_program_without_tls_may_be_this_one_while_it_serves(folder: CuratorFolder) -> None:
    with listening() as port:
        assert look(folder, grpc=port).state is State.ATTENTION
        served = look(folder, grpc=port, is_served=True)
        assert served.state is State.OK
        assert "perhaps this folder's" in served.words


@pytest.mark.skipif(not are_listed(), reason="this system does not list its locks")
def test_a_curator_that_is_starting_is_told_from_none(folder: CuratorFolder) -> None:
    """It holds the ledger and its ports, and answers at none of them yet."""
    with socket.create_server((HERE, 0)) as server:
        port = server.getsockname()[1]
    quiet = look(folder, grpc=port)
    assert "no curator serves it" in quiet.words
    with bound() as port:
        lock = WriterLock(folder.ledger.with_name("ledger.sqlite.lock"))
        try:
            starting = look(folder, grpc=port)
        finally:
            lock.release()
        assert "no curator" not in starting.words
        assert "is starting or stopping" in starting.words
        assert "perhaps this folder's curator" in starting.words
        assert "wait for the ready line" in starting.next_step
        assert "held by another program" in look(folder, grpc=port).words


@contextmanager
def bound() -> Iterator[int]:
    """Hold a port and answer nothing there."""
    with socket.socket() as server:
        server.bind((HERE, 0))
        yield server.getsockname()[1]


def test_a_system_that_lists_no_locks_is_not_taken_to_say_that_none_is_held(
    folder: CuratorFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("curator.doctor.locks._LIST", tmp_path / "nowhere")
    assert "whether one is starting, this system does not say" in look(folder, grpc=0).words


def test_an_address_of_another_machine_is_a_fault(folder: CuratorFolder) -> None:
    finding = look(folder, grpc=50051, host="192.0.2.1")  # for documentation, nobody's
    assert finding.state is State.FAULT
    assert "cannot be bound" in finding.words
