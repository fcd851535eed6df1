"""The commands about public networks: weights of which runs compute features."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer

from curator.cli.command import Dir, Task, UsageProblem, command, opened
from curator.cli.options import Group, argument, flag, option
from curator.cli.screen import say

app = typer.Typer(name="network", cls=Group, help="Add and list public networks.")

Name = Annotated[str, argument("NAME", "Of the network.")]


@dataclass(frozen=True, kw_only=True, slots=True)
class Card:
    """What the steward says of a network."""

    architecture: Literal[
        "lenet-features",
        "mlp-features",
        "cnn-features",
        "vgg16",
        "resnet-18",
        "resnet-50",
        "efficientnet-lite0",
    ] = option(
        "Its layers: lenet-features, mlp-features, cnn-features, vgg16, resnet-18, resnet-50 or "
        "efficientnet-lite0.",
        "NAME",
        needed=True,
    )
    origin: str = option("Who trained it, and on what.", "TEXT", needed=True)
    declare_public: bool = flag(
        "--declare-public", "Declare that no record of a data set here trained it; needed."
    )

    def __post_init__(self) -> None:
        """Check that it is declared.

        Raises:
            ValueError: If it is not.
        """
        if not self.declare_public:
            msg = (
                "a network that private records trained gives them away: if none of a data set "
                "here trained this one, add --declare-public"
            )
            raise ValueError(msg)


@command(
    app,
    "network add imagenet efficientnet-lite0.safetensors --dir /srv/weir \\\n"
    "      --architecture efficientnet-lite0 --origin ImageNet --declare-public",
)
def add(
    task: Task,
    *,
    name: Name,
    source: Path = argument("FILE.safetensors", "Its weights; 'scripts/fold_network.py' makes it."),
    folder: Dir,
    card: Card,
) -> None:
    """Add the weights of a network that is public, also while serving.

    Raises:
        UsageProblem: If they are not weights of the architecture, or the name is taken.
    """
    from curator.administration.add_network import NetworkProblem, NewNetwork, add_network

    new = NewNetwork(name=name, architecture=card.architecture, origin=card.origin)
    try:
        made, is_new = add_network(opened(folder).networks, new, source)
    except NetworkProblem as problem:
        raise UsageProblem(str(problem)) from None
    task.screen.tell(
        f"{name} is {made.architecture} with sha256 {made.sha256}"
        if is_new
        else f"{name} was added before, and is whole: nothing was changed",
        "analysts need the same file, this name and this digest",
    )
    task.screen.answer(made.model_dump() | {"changed": is_new})


@command(app, "network list --dir /srv/weir", name="list", reads=True)
def list_all(task: Task, *, folder: Dir) -> None:
    """List public networks, with the digests of their files."""
    from curator.mechanisms.public_networks import network_cards

    cards, problems = network_cards(opened(folder).networks)
    for problem in problems:
        say(f"warning: {problem}")
    for card in cards:
        task.screen.show(f"{card.name}: {card.architecture}, {card.origin}", f"  {card.sha256}")
    if not cards and not problems:
        task.screen.show("no networks; add one with 'curator network add'")
    task.screen.answer([card.model_dump() for card in cards])
