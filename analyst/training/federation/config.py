"""A federation in a TOML file: curators, each with address, credentials, data set and weight.

    combine = "mean"                        # mean | round-robin | sum; optional
    on_loss = "continue"                    # stop | continue; optional

    [[curator]]
    name = "north"                          # optional: the address
    address = "north.example.org:50051"
    credentials = "north.credentials.json"  # seen from this file
    dataset = "digits"                      # optional: the recipe's
    weight = 2.0                            # optional: 1

A credential is a path here; its content is read only by `analyst.client`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import AfterValidator, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from analyst.client.address import address_problem
from analyst.documents import DocumentProblem, read_bounded, toml_table
from analyst.errors import FederationError
from analyst.training.federation.rounds import Combine, OnLoss

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

_STRICT = ConfigDict(extra="forbid", allow_inf_nan=False)


def _checked(address: str) -> str:
    if problem := address_problem(address):
        msg = f"{address!r}: {problem}"
        raise ValueError(msg)
    return address


@dataclass(frozen=True, kw_only=True, slots=True, config=_STRICT)
class MemberConfig:
    """One curator of a federation."""

    address: Annotated[str, AfterValidator(_checked)]  # HOST:PORT, unix:/path or local:/path
    name: str = ""  # the address if empty
    credentials: Path | None = None
    insecure_loopback: bool = False
    dataset: str | None = None  # the recipe's if None
    weight: Annotated[float, Field(gt=0)] = 1.0

    @property
    def label(self) -> str:
        """What messages call it."""
        return self.name or self.address


@dataclass(frozen=True, kw_only=True, slots=True, config=_STRICT)
class FederationConfig:
    """All curators, and how they go together; what is None is left to the command line."""

    curator: Annotated[tuple[MemberConfig, ...], Field(min_length=1)]
    combine: Combine | None = None
    on_loss: OnLoss | None = None


_ADAPTER = TypeAdapter(FederationConfig)


def load_federation(path: Path) -> FederationConfig:
    """Read a federation's file.

    Args:
        path: TOML, as described in the module's docstring.

    Returns:
        The validated federation; paths of credentials are seen from the file's folder.

    Raises:
        FederationError: If it cannot be read, or a key is unknown, missing or wrong.
    """
    try:
        table = toml_table(read_bounded(path))
        for member in table.get("curator", []):
            if "credentials" in member:
                member["credentials"] = str(path.parent / str(member["credentials"]))
        federation = _ADAPTER.validate_json(json.dumps(table, default=str), strict=True)
    except FileNotFoundError:
        message = f"cannot read {path}: there is no such file"
        raise FederationError(message, "Check the path.") from None
    except (DocumentProblem, TypeError, AttributeError) as error:
        message = f"{path} is not a federation in TOML: {error}"
        raise FederationError(message, "Correct the file at that place.") from None
    except ValidationError as error:
        lines = [
            f"{'.'.join(map(str, item['loc']))}: {item['msg'].removeprefix('Value error, ')}"
            for item in _told(error)
        ]
        message = f"{path} is not valid:\n  " + "\n  ".join(lines)
        raise FederationError(message, "Correct the file.") from None
    check_members(federation.curator)
    return federation


def _told(error: ValidationError) -> list[ErrorDetails]:
    """Return what is wrong; that no member is left matters only if none was named."""
    found = error.errors(include_url=False)
    return [item for item in found if item["type"] != "too_short"] or found


def check_members(members: tuple[MemberConfig, ...]) -> None:
    """Check that curators can be told apart, and that each can be reached with some credentials.

    Raises:
        FederationError: If two have one name, or one data set of one curator is named twice, or
            one has no credentials.
    """
    labels = [member.label for member in members]
    twice = {label for label in labels if labels.count(label) > 1}
    if twice:
        message = f"two curators are called {', '.join(sorted(twice))}"
        raise FederationError(message, "Give each a name of its own.")
    places = [(member.address, member.dataset) for member in members]
    if len(set(places)) < len(places):
        message = "one data set of one curator is named twice: its budget would be spent twice"
        raise FederationError(message, "Name each once.")
    for member in members:
        if member.credentials is None and not member.insecure_loopback:
            message = f"curator {member.label} has no credentials"
            raise FederationError(message, "Add credentials, or insecure_loopback for a trial.")
