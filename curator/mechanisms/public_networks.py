"""Networks that the steward has added: public weights, of which runs compute features.

A network is a file of tensors in the safetensors layout, with a card beside it: what it is, and the
steward's declaration that no record of a data set here trained it. A run names it and repeats the
digest of its file and the declaration, so that both stand in the ledger and in the certificate.
Nothing in a file is ever executed.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from torch import Tensor

from curator.divergences.architectures import PublicArchitecture
from curator.divergences.feature_nets import LARGEST_PUBLIC_WEIGHT, check_public_weights
from curator.errors import MalformedRequest
from curator.mechanisms.uploaded_weights import read_weights
from curator.system.bounded_file import TooLarge, read_bounded

NETWORK_NAME: Final = r"^[a-z0-9][a-z0-9_.-]{0,62}$"
DIGEST: Final = r"^[0-9a-f]{64}$"
DECLARED: Final = "no-private-record-trained-it"
MOST_BYTES: Final = 1 << 28

_CARD_BYTES: Final = 1 << 12
_GONE: Final = "network: its file is gone or was changed; the steward has to add it again"
_chosen: dict[str, Path] = {}


class CardProblem(ValueError):
    """A network's card cannot be read; the text says what to do."""


class NetworkCard(BaseModel):
    """What the steward says of a network."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    name: Annotated[str, Field(pattern=NETWORK_NAME)]
    architecture: PublicArchitecture
    sha256: Annotated[str, Field(pattern=DIGEST)]
    declared: Literal["no-private-record-trained-it"]
    origin: Annotated[str, Field(min_length=1, max_length=400)]


def weights_file(folder: Path, name: str) -> Path:
    """Return where the weights of a network are."""
    return folder / f"{name}.safetensors"


def card_file(folder: Path, name: str) -> Path:
    """Return where the card of a network is."""
    return folder / f"{name}.json"


def choose_networks(folder: Path) -> None:
    """Choose where the networks are for every run of this process.

    Args:
        folder: Files are looked for when a run opens, so that one may be added meanwhile.
    """
    _chosen["folder"] = folder


def network_cards(folder: Path) -> tuple[list[NetworkCard], list[str]]:
    """Return the cards of all networks in a folder, by name, and what is wrong with others."""
    cards, problems = [], []
    for file in sorted(folder.glob("*.json")):
        try:
            cards.append(read_card(folder, file.stem))
        except CardProblem as problem:
            problems.append(str(problem))
    return cards, problems


def read_network(
    name: str, sha256: str, architecture: str, sizes: Mapping[str, tuple[int, ...]]
) -> dict[str, Tensor]:
    """Return the weights of a network that the steward has added.

    Args:
        name: Of the network.
        sha256: Of its file.
        architecture: Which the steward has said that it has.
        sizes: The name and shape of every tensor.

    Raises:
        MalformedRequest: If there is no such network, or it is of another architecture or sizes.

    Privacy:
        Reads the request and public files only.
    """
    folder = _chosen.get("folder")
    try:
        card = None if folder is None else read_card(folder, name)
    except (OSError, CardProblem):
        card = None
    if folder is None or card is None or card.sha256 != sha256:
        detail = (
            "network, network_sha256: the steward has added no network of this name with this "
            "digest; ask what 'curator network list' shows"
        )
        raise MalformedRequest(detail)
    if card.architecture != architecture:
        detail = f"architecture: this network was added as {card.architecture}"
        raise MalformedRequest(detail)
    file = weights_file(folder, name)
    try:
        written = file.stat().st_mtime_ns
    except OSError:
        raise MalformedRequest(_GONE) from None
    return _read(file, written, sha256, tuple(sizes.items()))


@lru_cache(maxsize=2)
def _read(
    file: Path, written: int, sha256: str, sizes: tuple[tuple[str, tuple[int, ...]], ...]
) -> dict[str, Tensor]:
    """Return the weights in a file, which nobody changes; plans and openings share them.

    Args:
        file: Of a network.
        written: When, so that a file that was written again is read again.
        sha256: Its digest.
        sizes: The name and shape of every tensor.

    Raises:
        MalformedRequest: If it is another file, or of another architecture.
    """
    del written
    try:
        data = read_bounded(file, MOST_BYTES, "a network")
    except (OSError, TooLarge):
        data = b""
    if hashlib.sha256(data).hexdigest() != sha256:
        raise MalformedRequest(_GONE)
    return checked_weights(data, dict(sizes))


def checked_weights(data: bytes, sizes: Mapping[str, tuple[int, ...]]) -> dict[str, Tensor]:
    """Return weights of which every sum of products is exact.

    Args:
        data: In the safetensors layout.
        sizes: The name and shape of every tensor.

    Raises:
        MalformedRequest: If they are of other sizes, or too large.
    """
    weights = read_weights(data, sizes, LARGEST_PUBLIC_WEIGHT)
    try:
        check_public_weights(weights)
    except ValueError as error:  # its words are about public weights
        detail = f"weights: {error}"
        raise MalformedRequest(detail) from None
    return weights


def read_card(folder: Path, name: str) -> NetworkCard:
    """Return the card of a network.

    Raises:
        CardProblem: If it is damaged, or of another network.
        FileNotFoundError: If there is none.
    """
    if re.fullmatch(NETWORK_NAME, name) is None:
        msg = f"{name!r} is no name of a network: remove its file"
        raise CardProblem(msg)
    again = "add the network again, of the same file and with the same words"
    try:
        text = read_bounded(card_file(folder, name), _CARD_BYTES, "a network's card")
        card = NetworkCard.model_validate_json(text)
    except (ValidationError, TooLarge):
        msg = f"{card_file(folder, name)} is damaged: {again}"
        raise CardProblem(msg) from None
    if card.name != name:
        msg = f"{card_file(folder, name)} is of another network: {again}"
        raise CardProblem(msg)
    return card
