"""What the manifest of a checkpoint may say: its owner may have edited it, or copied it in part."""

from __future__ import annotations

import math
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, BaseModel, Field, TypeAdapter, model_validator

from analyst.documents import STRICT

_MOST_NUMBERS: Final = 1 << 26  # of one image
_MOST: Final = (1 << 63) - 1


class _Dataset(BaseModel):
    """The public facts that are read again; a classifier has no classes of its target."""

    model_config = STRICT

    name: str
    channels: Annotated[int, Field(ge=1)]
    height: Annotated[int, Field(ge=1)]
    width: Annotated[int, Field(ge=1)]
    classes: Annotated[list[str], Field(min_length=1)] | None = None
    source_sha256: str | None = None

    @model_validator(mode="after")
    def _is_of_images(self) -> Self:
        if math.prod((self.channels, self.height, self.width)) > _MOST_NUMBERS:
            msg = "no image has so many pixels"
            raise ValueError(msg)
        return self


def _facts(value: dict[str, Any]) -> dict[str, Any]:
    _Dataset.model_validate(value)
    return value


class Words(BaseModel):
    """A manifest, with the name and the digest of its tensors."""

    model_config = STRICT

    format: Literal[1]
    tensors: Annotated[str, Field(pattern=r"^checkpoint-[0-9]{10,}-[0-9a-f]{8}\.safetensors$")]
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    run_id: Annotated[str, Field(min_length=1, max_length=256)]
    num_updates: Annotated[int, Field(ge=0, le=_MOST)]
    next_step: Annotated[int, Field(ge=1, le=_MOST)]
    num_steps: Annotated[int, Field(ge=1, le=_MOST)]
    finished: bool
    dataset: Annotated[dict[str, Any], AfterValidator(_facts)]
    recipe: dict[str, Any]


WORDS: Final = TypeAdapter(Words)
