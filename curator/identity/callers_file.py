"""The file of callers: one JSON list, written whole, read again when it changes."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, final

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from curator.service.caller import Role
from curator.system.bounded_file import read_bounded
from curator.system.new_file import write_private
from curator.validation_errors import first_problem

Entry = dict[str, str | None]
_MOST_BYTES = 1 << 24  # tens of thousands of callers


class CallersDamaged(ValueError):
    """The file is not what these commands write: it was cut, edited, or is another file."""

    def __init__(self, path: Path, problem: str) -> None:
        """Say what is wrong with the file at `path`."""
        super().__init__(
            f"{path}: {problem}: put a backup of this file back; it holds who may ask, and "
            "nothing else here is lost"
        )


class Proof(StrEnum):
    """What a caller proves itself with; the name of the hash in the table."""

    TOKEN = "token_sha256"  # noqa: S105 - a name
    CERTIFICATE = "certificate_sha256"


def _with_zone(moment: str) -> str:
    if datetime.fromisoformat(moment).tzinfo is None:
        msg = "a time without a zone"
        raise ValueError(msg)
    return moment


_Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class _Entry(BaseModel):
    """One caller in the file."""

    model_config = ConfigDict(extra="forbid", strict=True)

    name: Annotated[str, Field(min_length=1, max_length=64)]
    role: Role
    token_sha256: _Digest | None = None
    certificate_sha256: _Digest | None = None
    expires_at: Annotated[str, AfterValidator(_with_zone)] | None = None


_TABLE = TypeAdapter(list[_Entry])


@dataclass(frozen=True, kw_only=True, slots=True)
class ListedCaller:
    """A caller as the steward sees it."""

    name: str
    role: Role
    proof: Proof | None  # None once revoked
    expires_at: datetime | None

    @property
    def revoked(self) -> bool:
        """Whether there is nothing that the caller could show."""
        return self.proof is None


class CallerExists(ValueError):
    """There is or was a caller of this name."""

    def __init__(self, caller: ListedCaller) -> None:
        """Say what that caller is, and what to do."""
        name, rotate = caller.name, f"'curator analyst rotate {caller.name}'"
        if caller.revoked:
            words = (
                f"'{name}' was revoked, and the name stays with its runs: {rotate} lets it in "
                "again with new credentials"
            )
        else:
            words = f"'{name}' exists already, as {caller.role}: {rotate} replaces its credentials"
        super().__init__(f"{words}; or choose another name")


class NoSuchCaller(ValueError):
    """There is no caller of this name."""


@final
class CallersFile:
    """Entries in one file; a missing file has none."""

    def __init__(self, path: Path) -> None:
        """Use the file at `path`."""
        self._path = path

    def stamp(self) -> tuple[int, int, int] | None:
        """Return what changes with every writing; None while no file can be seen."""
        try:
            status = self._path.stat()
        except OSError:
            return None
        return status.st_mtime_ns, status.st_ino, status.st_size

    @contextmanager
    def changing(self) -> Iterator[list[Entry]]:
        """Give the entries to change, and write them whole; two commands lose nothing."""
        with self._path.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            table = self.read()
            yield table
            write_private(self._path, json.dumps(table, indent=1).encode())

    def read(self, *, must_exist: bool = False) -> list[Entry]:
        """Return all entries in the order of adding.

        Args:
            must_exist: Whether there was a file before.

        Raises:
            CallersDamaged: If the file is none of these commands'.
        """
        try:
            content = read_bounded(self._path, _MOST_BYTES, "a table of callers")
        except FileNotFoundError:
            if must_exist:
                raise CallersDamaged(self._path, "the file is gone") from None
            return []
        try:
            known = _TABLE.validate_json(content)
        except ValidationError as error:
            raise CallersDamaged(self._path, first_problem(error, "the table")) from None
        return [entry.model_dump(mode="json", exclude_unset=True) for entry in known]


def new_entry(
    name: str, role: Role, proof: tuple[Proof, str], expires_at: datetime | None
) -> Entry:
    """Return the entry of a caller.

    Args:
        name: Of the caller.
        role: What the caller may do.
        proof: Its kind and its hash.
        expires_at: When it ends, in UTC; None for never.
    """
    ends = None if expires_at is None else expires_at.isoformat()
    return {"name": name, "role": str(role), str(proof[0]): proof[1], "expires_at": ends}


def listed(entry: Entry) -> ListedCaller:
    """Return a caller as the steward sees it."""
    ends = entry.get("expires_at")
    return ListedCaller(
        name=str(entry["name"]),
        role=Role(str(entry["role"])),
        proof=next((proof for proof in Proof if entry.get(proof) is not None), None),
        expires_at=None if ends is None else datetime.fromisoformat(ends),
    )


def place_of(table: list[Entry], name: str) -> int:
    """Return where a caller is.

    Raises:
        NoSuchCaller: If there is none.
    """
    for place, entry in enumerate(table):
        if entry["name"] == name:
            return place
    msg = f"there is no caller '{name}'; 'curator analyst list' shows them"
    raise NoSuchCaller(msg)
