"""The folder of a chain: what was written down before anything was charged, and where all lies.

OUT/chain.json         the chain with the recipe and the noise of each stage
OUT/STAGE/             a run's folder; of several members OUT/STAGE/member-N
OUT/STAGE.safetensors  the release of a generator's stage
OUT/STAGE.npz          its images, all members' in equal parts
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, Field, TypeAdapter

from analyst.chains.plan import Part
from analyst.chains.recipe import (
    CHAINS,
    ChainRecipe,
    GeneratorStage,
    RefineStage,
    Stage,
    StageRecipe,
    TeacherStage,
    stage_book,
)
from analyst.documents import STRICT, DocumentProblem, parsed, read_bounded
from analyst.errors import CheckpointError
from analyst.new_file import write_file
from analyst.recipes.load import GENERATORS
from analyst.teacher.recipe import TEACHERS

CHAIN_FILE: Final = "chain.json"
_FORMAT: Final = "weir-chain-1"
_REMEDY: Final = "Restore it from a backup; what the curator charged cannot be opened again."


class _File(BaseModel):
    """What a chain's file says."""

    model_config = STRICT

    format: Literal["weir-chain-1"]
    key: Annotated[str, Field(pattern="^[0-9a-f]{32}$")]
    recipe: dict[str, Any]
    stages: dict[str, dict[str, Any]]
    parts: Annotated[list[dict[str, Any]], Field(min_length=1)]


_FILE: Final = TypeAdapter(_File)
_PARTS: Final = TypeAdapter(tuple[Part, ...])


@dataclass(frozen=True, kw_only=True, slots=True)
class Chain:
    """A chain that was begun in a folder."""

    out: Path
    key: str  # of which every run's own is made
    recipe: ChainRecipe
    stages: dict[str, StageRecipe]  # of those that train, with their noise
    parts: tuple[Part, ...]

    def home(self, name: str, member: int = 0) -> Path:
        """Return the run's folder of a stage; of several members that of one, from 0."""
        stage = self.recipe.stage[name]
        many = isinstance(stage, GeneratorStage) and stage.members > 1
        return self.out / name / f"member-{member + 1}" if many else self.out / name

    def images(self, name: str | None = None) -> Path:
        """Return where a stage's images are; by default those that the chain makes, the last."""
        stages = self.recipe.stage.items()
        last = [one for one, stage in stages if not isinstance(stage, TeacherStage)][-1]
        return self.out / f"{name or last}.npz"

    def release(self, name: str) -> Path:
        """Return where the release of a generator's stage is."""
        return self.out / f"{name}.safetensors"

    def certificates(self) -> dict[str, Path]:
        """Return where the certificate of each part is, once its run is closed."""
        return {part.stage: self.out / part.stage / "certificate.json" for part in self.parts}


def holds_chain(out: Path) -> bool:
    """Return whether a chain was begun in a folder."""
    return (out / CHAIN_FILE).is_file()


def write_chain(chain: Chain) -> None:
    """Write a new chain down."""
    stages = {name: stage_book(one).to_dict(one) for name, one in chain.stages.items()}
    table = {
        "format": _FORMAT,
        "key": chain.key,
        "recipe": CHAINS.to_dict(chain.recipe),
        "stages": stages,
        "parts": [asdict(part) for part in chain.parts],
    }
    text = json.dumps(table, indent=1)
    write_file(chain.out / CHAIN_FILE, f"{text}\n".encode(), replace=False)


def read_chain(out: Path) -> Chain:
    """Return the chain that was begun in a folder.

    Raises:
        CheckpointError: If there is none, or its file is damaged.
    """
    path = out / CHAIN_FILE
    try:
        file = parsed(_FILE, read_bounded(path))
        recipe = CHAINS.from_dict(file.recipe, origin=f"the chain in {out}")
        trained = [name for name, one in recipe.stage.items() if not isinstance(one, RefineStage)]
        stages = {name: _read_stage(recipe.stage[name], file.stages[name]) for name in trained}
        parts = parsed(_PARTS, json.dumps(file.parts))
    except FileNotFoundError:
        message = f"there is no chain in {out}"
        raise CheckpointError(message, "Give the --out of 'analyst train' with a chain.") from None
    except (DocumentProblem, KeyError) as error:
        message = f"cannot read the chain in {path}: {error}"
        raise CheckpointError(message, _REMEDY) from None
    return Chain(out=out, key=file.key, recipe=recipe, stages=stages, parts=parts)


def _read_stage(stage: Stage, table: dict[str, Any]) -> StageRecipe:
    book: Any = TEACHERS if isinstance(stage, TeacherStage) else GENERATORS
    found: StageRecipe = book.from_dict(table, origin="a stage of the chain")
    return found
