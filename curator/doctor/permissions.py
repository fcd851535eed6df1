"""Whether the folder is whole, and for its owner alone."""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Iterator
from pathlib import Path

from curator.doctor.finding import Finding, attention, fault, well
from curator.doctor.subject import Subject
from curator.folder import CuratorFolder

_PUBLIC = ("ca.pem", "server.pem", ".lock")  # certificates, and files that hold nothing
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def configuration(subject: Subject) -> Finding:
    """Say whether the configuration can be read."""
    if subject.config_problem:
        return fault(
            subject.config_problem, "correct the key that is named; the checks below take defaults"
        )
    if subject.folder is not None and not subject.folder.config.exists():
        return fault(f"{subject.folder.config} is missing", "run 'curator init'")
    return well(f"{subject.folder.config if subject.folder else 'defaults'}: valid")


def permissions(subject: Subject) -> Finding:
    """Look for files that are missing, and for those that others than their owner may use."""
    folder = subject.folder
    if folder is None or not folder.root.is_dir():
        named = folder.root if folder else "nothing"
        return fault(f"{named} is not a folder", "run: curator init DIR")
    missing = [str(p.relative_to(folder.root)) for p in _needed(folder) if not _is_there(p)]
    open_to_others, of_others = [], []
    for path, state in _private(folder):
        if state.st_mode & _OTHERS and not stat.S_ISLNK(state.st_mode):
            open_to_others.append(str(path))
        if state.st_uid != os.geteuid():
            of_others.append(str(path))
    facts = {"missing": missing, "open_to_others": open_to_others, "of_others": of_others}
    root = shlex.quote(str(folder.root))
    if missing:
        return fault(f"missing: {', '.join(missing)}", f"run: curator init {root}", **facts)
    if open_to_others:
        return attention(
            f"others than the owner may use {_some(open_to_others)}",
            f"run: chmod -R go= {root}",
            **facts,
        )
    if of_others:
        return attention(
            f"of another user than this one: {_some(of_others)}",
            "run this command, and serve, as the user that owns the folder",
            **facts,
        )
    return well(f"{folder.root} is whole, and its owner's alone", **facts)


def _needed(folder: CuratorFolder) -> tuple[Path, ...]:
    """Return what 'curator init' makes, the configuration and the ledger apart."""
    tls = folder.tls
    return (
        *(tls.certificate, tls.key, tls.authority, folder.identity / "certificate.key"),
        *(folder.fingerprint_key, folder.identity / "callers.json", folder.root / "datasets"),
    )


def _private(folder: CuratorFolder) -> Iterator[tuple[Path, os.stat_result]]:
    """Yield the folder and what lies in it; not the files of data sets, whose folder is shut."""
    for path in (folder.root, *_children(folder.root), *_children(folder.identity)):
        if path.name.endswith(_PUBLIC):
            continue
        try:
            state = path.lstat()
        except FileNotFoundError:  # removed meanwhile
            continue
        yield path, state


def _children(path: Path) -> list[Path]:
    try:
        return sorted(path.iterdir())
    except OSError:
        return []


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:
        return False


def _some(paths: list[str]) -> str:
    shown = ", ".join(paths[:5])
    return shown if len(paths) <= 5 else f"{shown} and {len(paths) - 5} more"
