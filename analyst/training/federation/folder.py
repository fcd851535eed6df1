"""What a federation leaves beside its generator: who takes part, and the certificate of each.

OUT/federation.json               curators, runs, weights; written when one of them changes
OUT/certificates/1-NAME.json      the privacy certificate of each closed run
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from analyst.training.federation.errors import FederationError
from analyst.training.federation.member import Member
from analyst.training.federation.rule import Combine, OnLoss, Rule

_FORMAT = 1
_DAMAGED = "Restore the directory from a backup."


@dataclass(frozen=True, kw_only=True, slots=True)
class SavedMember:
    """A curator as it was when its run was opened."""

    name: str
    dataset: str
    weight: float


@dataclass(frozen=True, kw_only=True, slots=True)
class SavedFederation:
    """What a resumed run keeps, unless another policy for losses is given."""

    combine: Combine
    on_loss: OnLoss
    members: tuple[SavedMember, ...]


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
        """Write who takes part, whole or not at all.

        Args:
            members: All curators, lost ones too.
            rule: How they go together.
        """
        words = {
            "format": _FORMAT,
            "combine": rule.combine.value,
            "on_loss": rule.on_loss.value,
            "curators": [_words(member) for member in members],
        }
        self.out.mkdir(parents=True, exist_ok=True)
        temporary = self._file.with_suffix(".tmp")
        temporary.write_text(json.dumps(words, indent=1) + "\n")
        temporary.replace(self._file)

    def load(self) -> SavedFederation:
        """Return what a resumed run keeps.

        Raises:
            FederationError: If the file is missing or damaged.
        """
        try:
            words = json.loads(self._file.read_bytes())
            if words["format"] != _FORMAT:
                message = f"{self._file} was written by another version"
                raise FederationError(message, "Use the version that started the run.")
            members = tuple(
                SavedMember(
                    name=str(one["name"]), dataset=str(one["dataset"]), weight=float(one["weight"])
                )
                for one in words["curators"]
            )
            return SavedFederation(
                combine=Combine(words["combine"]),
                on_loss=OnLoss(words["on_loss"]),
                members=members,
            )
        except FileNotFoundError:
            message = f"{self.out} holds no run of several curators"
            raise FederationError(message, "Resume it with its one curator.") from None
        except (OSError, ValueError, KeyError, TypeError):
            message = f"{self._file} is damaged"
            raise FederationError(message, _DAMAGED) from None

    def save_certificate(self, position: int, member: Member) -> Path:
        """Keep the privacy certificate of a closed run.

        Args:
            position: Of the curator, from 0.
            member: The curator.

        Returns:
            The file.
        """
        slug = re.sub(r"[^A-Za-z0-9.]+", "-", member.name).strip("-.")
        path = self.out / "certificates" / f"{position + 1}-{slug}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(member.certificate + "\n")
        return path


def check_one_run(out: Path) -> None:
    """Check that an output directory is not one of several curators.

    Args:
        out: Output directory.

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
