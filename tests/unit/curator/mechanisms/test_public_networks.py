"""What a run reads of the networks that a steward has added."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from curator.errors import MalformedRequest
from curator.mechanisms import public_networks
from curator.mechanisms.catalogue import canonical_json
from curator.mechanisms.public_networks import (
    DECLARED,
    card_file,
    network_cards,
    read_network,
    weights_file,
)
from tests.fakes import networks
from tests.fakes.networks import TINY, mechanism, tiny_shape


def read(sha256: str, name: str = TINY) -> int:
    return len(read_network(name, sha256, "lenet-features", tiny_shape().sizes))


def test_a_run_names_a_network_its_digest_and_the_declaration(tmp_path: Path) -> None:
    """What the ledger stores, and so what a certificate says."""
    sha256 = networks.offer(tmp_path)
    stored = json.loads(canonical_json(mechanism().spec))
    assert stored["network"] == TINY
    assert stored["network_sha256"] == sha256
    assert stored["network_declared"] == DECLARED
    assert json.loads(card_file(tmp_path, TINY).read_text())["declared"] == DECLARED


def test_a_network_is_found_by_name_and_digest(tmp_path: Path) -> None:
    sha256 = networks.offer(tmp_path)
    assert read(sha256) == 6
    for wrong in ((sha256, "other"), ("0" * 64, TINY), (sha256, "../tiny")):
        with pytest.raises(MalformedRequest, match="curator network list"):
            read(*wrong)


def test_a_card_without_a_file_is_no_network(tmp_path: Path) -> None:
    sha256 = networks.offer(tmp_path)
    weights_file(tmp_path, TINY).unlink()
    with pytest.raises(MalformedRequest, match="is gone"):
        read(sha256)


@pytest.mark.parametrize("text", ["", "{}", '{"name": "tiny"}', "x" * 5000])
def test_a_damaged_card_is_no_network(tmp_path: Path, text: str) -> None:
    sha256 = networks.offer(tmp_path)
    card_file(tmp_path, TINY).write_text(text)
    with pytest.raises(MalformedRequest, match="curator network list"):
        read(sha256)


def test_a_card_of_another_network_is_said_to_the_steward(tmp_path: Path) -> None:
    networks.offer(tmp_path)
    card_file(tmp_path, "other").write_bytes(card_file(tmp_path, TINY).read_bytes())
    (card,), (problem,) = network_cards(tmp_path)
    assert card.name == TINY
    assert "of another network: add the network again" in problem


def test_without_a_folder_there_is_no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(public_networks, "_chosen", {})
    with pytest.raises(MalformedRequest, match="curator network list"):
        read("0" * 64)
