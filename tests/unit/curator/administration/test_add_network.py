"""Adding public networks: only checked weights, once, with a card that says what they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load, save

from curator.administration.add_network import NetworkProblem, NewNetwork, add_network
from curator.divergences.feature_nets import FeatureShape
from curator.mechanisms.public_networks import network_cards
from curator.system.bounded_file import TooLarge
from tests.fakes.networks import digest, tiny_shape, weights_of

NEW = NewNetwork(name="tiny", architecture="lenet-features", origin="a test")


def source(tmp_path: Path, data: bytes) -> Path:
    path = tmp_path / "given.safetensors"
    path.write_bytes(data)
    return path


def test_a_network_is_its_bytes_and_a_card(tmp_path: Path) -> None:
    data, folder = weights_of(tiny_shape()), tmp_path / "networks"
    card, is_new = add_network(folder, NEW, source(tmp_path, data))
    assert is_new
    assert card.sha256 == digest(data)
    assert (folder / "tiny.safetensors").read_bytes() == data
    assert network_cards(folder) == ([card], [])
    assert add_network(folder, NEW, source(tmp_path, data)) == (card, False)


@pytest.mark.parametrize("kind", ["gone", "cut", "card", "both"])
def test_what_was_damaged_is_mended_by_adding_it_again(tmp_path: Path, kind: str) -> None:
    data, folder = weights_of(tiny_shape()), tmp_path / "networks"
    card, _ = add_network(folder, NEW, source(tmp_path, data))
    weights, place = folder / "tiny.safetensors", folder / "tiny.json"
    if kind in {"gone", "both"}:
        weights.unlink()
    if kind == "cut":
        weights.write_bytes(data[:-4])
    if kind in {"card", "both"}:
        place.write_text("{")
        cards, (problem,) = network_cards(folder)
        assert not cards
        assert "is damaged: add the network again" in problem
    assert add_network(folder, NEW, source(tmp_path, data)) == (card, True)
    assert network_cards(folder) == ([card], [])
    assert digest(weights.read_bytes()) == card.sha256


def test_a_damaged_card_lets_no_other_weights_in(tmp_path: Path) -> None:
    folder = tmp_path / "networks"
    card, _ = add_network(folder, NEW, source(tmp_path, weights_of(tiny_shape())))
    (folder / "tiny.json").write_text("{")
    with pytest.raises(NetworkProblem, match="choose another name"):
        add_network(folder, NEW, source(tmp_path, weights_of(tiny_shape(), seed=1)))
    assert digest((folder / "tiny.safetensors").read_bytes()) == card.sha256


def test_a_name_stands_for_one_network(tmp_path: Path) -> None:
    folder = tmp_path / "networks"
    card, _ = add_network(folder, NEW, source(tmp_path, weights_of(tiny_shape())))
    with pytest.raises(NetworkProblem, match="choose another name"):
        add_network(folder, NEW, source(tmp_path, weights_of(tiny_shape(), seed=1)))
    assert network_cards(folder) == ([card], [])
    assert digest((folder / "tiny.safetensors").read_bytes()) == card.sha256


def test_a_trunk_is_added_whatever_the_size_of_images(tmp_path: Path) -> None:
    shape = FeatureShape(
        architecture="efficientnet-lite0",
        channels=3,
        height=64,
        width=64,
        max_level=255,
        num_features=0,
        stages=(8,),
    )
    new = NewNetwork(name="e.lite-0", architecture="efficientnet-lite0", origin="drawn")
    card, _ = add_network(tmp_path / "networks", new, source(tmp_path, weights_of(shape)))
    assert card.architecture == "efficientnet-lite0"


def changed(**tensors: Any) -> bytes:
    return save({**load(weights_of(tiny_shape())), **tensors})


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "expected safetensors"),
        (b"\x80\x04K\x01.", "expected safetensors"),
        (save({"other": torch.zeros(3)}), "tensors named conv1.weight"),
        (changed(**{"conv1.bias": torch.full((6,), torch.nan)}), "conv1.bias must be finite"),
        (changed(**{"conv1.bias": torch.full((6,), 1025.0)}), "at most 1024 in size"),
        (changed(**{"conv1.bias": torch.zeros(6).double()}), "must be float32"),
        (changed(**{"conv1.weight": torch.full((6, 1, 9, 9), 900.0)}), "must add up to"),
    ],
)
def test_only_weights_of_the_architecture_are_added(
    tmp_path: Path, data: bytes, words: str
) -> None:
    with pytest.raises(NetworkProblem, match=words):
        add_network(tmp_path / "networks", NEW, source(tmp_path, data))
    assert not (tmp_path / "networks").exists()


@pytest.mark.parametrize("name", ["", "A", "../x", "x" * 64, "a b", ".a"])
def test_a_name_is_one_that_a_file_may_have(tmp_path: Path, name: str) -> None:
    new = NewNetwork(name=name, architecture="lenet-features", origin="a test")
    with pytest.raises(NetworkProblem, match="is no name"):
        add_network(tmp_path / "networks", new, source(tmp_path, weights_of(tiny_shape())))


def test_an_endless_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("curator.administration.add_network.MOST_BYTES", 100)
    with pytest.raises(TooLarge):
        add_network(tmp_path / "networks", NEW, source(tmp_path, weights_of(tiny_shape())))
