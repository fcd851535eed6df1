"""The administrative commands, as checked values that travel as JSON."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from curator.privacy.facts import DatasetFacts, DatasetName

Reason = Annotated[str, Field(min_length=1, max_length=500)]


class _Command(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Register(_Command):
    """Fix a data set's budget; its images are stored already."""

    kind: Literal["register"] = "register"
    facts: DatasetFacts
    favourite: float | None = None  # order of the budget's rule; by default what suits Gaussians


class Pause(_Command):
    """Take no steps until it is resumed; runs stay open."""

    kind: Literal["pause"] = "pause"
    dataset: DatasetName
    reason: Reason


class Resume(_Command):
    """Take steps again."""

    kind: Literal["resume"] = "resume"
    dataset: DatasetName
    reason: Reason


class Retire(_Command):
    """Take no steps ever again; runs are closed, images stay."""

    kind: Literal["retire"] = "retire"
    dataset: DatasetName
    reason: Reason


class Erase(_Command):
    """Retire, and delete the images; the ledger stays."""

    kind: Literal["erase"] = "erase"
    dataset: DatasetName
    reason: Reason


class LowerCap(_Command):
    """Allow less of the budget, for ever."""

    kind: Literal["cap"] = "cap"
    dataset: DatasetName
    epsilon: float
    reason: Reason


class SetShare(_Command):
    """Give an analyst a cap of its own."""

    kind: Literal["share"] = "share"
    dataset: DatasetName
    analyst: str = Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")
    epsilon: float


class SetPolicy(_Command):
    """Set or clear rules of the policy."""

    kind: Literal["policy"] = "policy"
    dataset: DatasetName
    rules: dict[str, Any]


Command = Annotated[
    Register | Pause | Resume | Retire | Erase | LowerCap | SetShare | SetPolicy,
    Field(discriminator="kind"),
]
COMMANDS: TypeAdapter[Command] = TypeAdapter(Command)
