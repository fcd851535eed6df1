"""What the file of the ledger's head may hold: read strictly, as people put copies of it back."""

from __future__ import annotations

import json
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from curator.ledger.datasets_and_runs import DatasetStatus
from curator.validation_errors import first_problem

FORMAT: Final = "datasets-version-1"
MOST_BYTES: Final = 1 << 26  # a few kilobytes for each data set

_Units = Annotated[str, Field(pattern=r"^([0-9]{1,4096}|inf)$")]


class _Part(BaseModel):
    model_config = ConfigDict(strict=True, allow_inf_nan=False)


class _Registration(_Part):
    name: str
    epsilon: Annotated[float, Field(gt=0)]
    delta: Annotated[float, Field(ge=0, le=1)]
    relation: str
    unit: str
    facts_json: str


class _Dataset(_Part):
    registration: _Registration
    favourite: float | None = None
    cap: Annotated[float, Field(ge=0)]
    status: DatasetStatus
    reserved: list[_Units]


class _Head(_Part):
    seq: Annotated[int, Field(ge=0)]
    digest: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    datasets: Annotated[dict[str, _Dataset], Field(alias=FORMAT)]
    servers: Annotated[int, Field(ge=0)] = 0


def checked_head(content: bytes | str) -> dict[str, Any]:
    """Return the file's values as they are, once they are known to be of the right kinds.

    Raises:
        ValueError: If they are not; the text names the first field that is wrong.
    """
    try:
        _Head.model_validate_json(content)
    except ValidationError as error:
        raise ValueError(first_problem(error, "the file")) from None
    value: dict[str, Any] = json.loads(content)
    return value
