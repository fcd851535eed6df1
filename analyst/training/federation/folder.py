"""What a federation leaves beside its generator: who takes part, and the certificate of each.

OUT/federation.json               curators, runs, weights; written when one of them changes
OUT/certificates/1-NAME.json      the privacy certificate of each closed run
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, final

from pydantic import BaseModel, Field, TypeAdapter

from analyst.documents import STRICT, DocumentProblem, parsed, read_bounded
from analyst.errors import FederationError
from analyst.new_file import write_file
from analyst.training.federation.members import Member
from analyst.training.federation.rounds import Combine, OnLoss, Rule

_FORMAT = 1
_DAMAGED = "Restore the directory from a backup."


class SavedMember(BaseModel):
    """A curator as it was when its run was opened."""

    model_config = STRICT

    name: str
    dataset: str
    weight: Annotated[float, Field(gt=0)]


class SavedFederation(BaseModel):
    """What a resumed run keeps, unless another policy for losses is given."""

    model_config = STRICT

    format: Literal[1]
    combine: Combine
    on_loss: OnLoss
    curators: Annotated[list[SavedMember], Field(min_length=1)]


_SAVED = TypeAdapter(SavedFederation)


@final
class FederationFolder:
    """The federation's part of an output directory."""

    def __init__(self, out: Path) -> None:
        """Use `out`, which is made when something is written."""
        self.out = out
        self._file = out / "federation.json"

    def exists(self) -> bool:
        """Return whether the directory holds a run of several curators."""
        return self._file.exists()

    def save(self, members: Sequence[Member], rule: Rule) -> None:
        """Write who takes part, whole or not at all."""
        words = {
            "format": _FORMAT,
            "combine": rule.combine.value,
            "on_loss": rule.on_loss.value,
            "curators": [_words(member) for member in members],
        }
        write_file(self._file, f"{json.dumps(words, indent=1)}\n".encode(), replace=True)

    def load(self) -> SavedFederation:
        """Return what a resumed run keeps.

        Raises:
            FederationError: If the file is missing or damaged.
        """
        try:
            return parsed(_SAVED, read_bounded(self._file))
        except FileNotFoundError:
            message = f"{self.out} holds no run of several curators"
            raise FederationError(message, "Resume it with its one curator.") from None
        except DocumentProblem as problem:
            message = f"{self._file} is damaged: {problem}"
            raise FederationError(message, _DAMAGED) from None

    def save_certificate(self, position: int, member: Member) -> Path:
        """Keep the privacy certificate of a closed run.

        Args:
            position: Of the curator, from 0.
            member: The curator.
        """
        slug = re.sub(r"[^A-Za-z0-9.]+", "-", member.name).strip("-.")
        path = self.out / "certificates" / f"{position + 1}-{slug}.json"
        write_file(path, f"{member.certificate}\n".encode(), replace=True)
        return path


def check_one_run(out: Path) -> None:
    """Check that an output directory is not one of several curators.

    Raises:
        FederationError: If it is.
    """
    if FederationFolder(out).exists():
        message = f"{out} holds a run of several curators"
        raise FederationError(message, "Name all of them, in the order of its federation.json.")


def _words(member: Member) -> dict[str, Any]:
    return {
        "name": member.name,
        "address": member.config.address,
        "dataset": member.dataset,
        "weight": member.config.weight,
        "run_id": member.run_id,
        "num_steps": 0 if member.run is None else member.run.num_steps,
        "state": member.state,
        "problem": "" if member.problem is None else member.problem.message,
    }
