"""Add a public network to a curator's folder: checked weights, and a card that says what they are.

It may be done while a curator serves: runs look for their network when they open.
"""

from __future__ import annotations

import fcntl
import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from safetensors import SafetensorError, deserialize

from curator.divergences.architectures import PublicArchitecture, plan_of
from curator.divergences.feature_nets import FeatureShape
from curator.errors import MalformedRequest
from curator.mechanisms.public_networks import (
    DECLARED,
    MOST_BYTES,
    NETWORK_NAME,
    NetworkCard,
    card_file,
    checked_weights,
    read_card,
    weights_file,
)
from curator.system.bounded_file import read_bounded
from curator.system.new_file import new_file

_ANY_SIDE = 32  # weights of trunks are the same whatever images are
_MOST_ORIGIN = 400


class NetworkProblem(ValueError):
    """A network cannot be added; the text says what to do."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NewNetwork:
    """What the steward says of a network, and declares."""

    name: str
    architecture: PublicArchitecture
    origin: str


def add_network(folder: Path, new: NewNetwork, source: Path) -> tuple[NetworkCard, bool]:
    """Add a network.

    Args:
        folder: Where the networks of a curator are; made if need be.
        new: What it is. That no record of a data set here trained it is declared by adding it.
        source: Its weights, in the safetensors layout.

    Returns:
        Its card, and whether something was written: a network that was there before is mended
        where a file of it is gone or was changed.

    Raises:
        NetworkProblem: If the name is taken, or the weights are not those of the architecture.
    """
    if re.fullmatch(NETWORK_NAME, new.name) is None:
        msg = f"{new.name!r} is no name: give up to 63 of a-z, 0-9, '.', '_' and '-'"
        raise NetworkProblem(msg)
    if not 1 <= len(new.origin) <= _MOST_ORIGIN:
        msg = f"--origin must have 1 to {_MOST_ORIGIN} letters"
        raise NetworkProblem(msg)
    data = read_bounded(source, MOST_BYTES, "weights of a network, as safetensors")
    try:
        checked_weights(data, _sizes(data, new.architecture))
    except MalformedRequest as refused:
        msg = f"{source}: {refused.detail}; see 'python scripts/fold_network.py --help'"
        raise NetworkProblem(msg) from None
    card = NetworkCard(
        name=new.name,
        architecture=new.architecture,
        sha256=hashlib.sha256(data).hexdigest(),
        declared=DECLARED,
        origin=new.origin,
    )
    text = card.model_dump_json(indent=1).encode() + b"\n"
    place, weights = card_file(folder, new.name), weights_file(folder, new.name)
    folder.mkdir(mode=0o700, exist_ok=True)
    with _alone(folder):
        if _is_another(place, weights, card):
            msg = f"there is another network '{new.name}': runs rely on it, so choose another name"
            raise NetworkProblem(msg)
        changed = False
        # last the card: a network without one is none
        for file, content in ((weights, data), (place, text)):
            if not file.exists() or file.read_bytes() != content:
                changed = True
                with new_file(file, replace=True) as partial:
                    partial.write_bytes(content)
    return card, changed


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Let two commands add networks one after the other.

    Yields:
        Nothing.
    """
    with (folder / ".lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _is_another(place: Path, weights: Path, card: NetworkCard) -> bool:
    """Return whether there is a network of this name that is not this one.

    A card that cannot be read says nothing; then the weights decide, if there are any.
    """
    if not place.exists():
        return False
    try:
        return read_card(place.parent, card.name) != card
    except ValueError:
        found = weights.read_bytes() if weights.exists() else b""
        return bool(found) and hashlib.sha256(found).hexdigest() != card.sha256


def _sizes(data: bytes, architecture: PublicArchitecture) -> dict[str, tuple[int, ...]]:
    """Return the sizes that weights must have; of networks that depend on images, their own.

    Raises:
        MalformedRequest: If they are no weights of the architecture.
    """
    if plan_of(architecture, 3).hidden is None:
        shape = FeatureShape(
            architecture=architecture,
            channels=3,
            height=_ANY_SIDE,
            width=_ANY_SIDE,
            max_level=255,
            num_features=0,
            stages=(1,),
        )
        return shape.sizes
    like = FeatureShape(
        architecture=architecture, channels=1, height=4, width=4, max_level=255, num_features=1
    )
    try:
        own = {name: tuple(part["shape"]) for name, part in deserialize(data)}  # type: ignore[no-untyped-call]
    except (SafetensorError, ValueError):
        own = {}
    if own.keys() != like.sizes.keys():
        detail = f"weights: expected safetensors with tensors named {', '.join(like.sizes)}"
        raise MalformedRequest(detail)
    if any(0 in size for size in own.values()):
        detail = "weights: a tensor has no numbers"
        raise MalformedRequest(detail)
    return {name: own[name] for name in like.sizes}
