"""How a source is read, as the steward typed it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from curator.sources.conversion import Conversion

Progress = Callable[[int, int], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceOptions:
    """How a source is read, as typed in.

    `keys` and `groups_key` name arrays of an NPZ file; `labels` is the table of an image folder,
    `attribute` which of a table of attributes is the label, `rows` the first and last of its rows
    that are taken, from 1; `skip` leaves other files out. `classes` are the declared names: an
    image folder's labels are names and must be among them. `max_images` is how many there are at
    most, if that is declared: more is not even unpacked. `groups_from` names what of a DICOM header
    says whose an image is.
    """

    keys: tuple[str, str] | None = None
    groups_key: str | None = None
    labels: Path | None = None
    attribute: str | None = None
    rows: tuple[int, int] | None = None
    classes: tuple[str, ...] | None = None
    conversion: Conversion = field(default_factory=Conversion)
    skip: bool = False
    max_images: int | None = None
    groups_from: Literal["none", "PatientID"] = "none"


def no_progress(done: int, of: int) -> None:
    """Show nothing."""
