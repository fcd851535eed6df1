"""What a folder of images holds, by name, before a file is opened."""

from __future__ import annotations

import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from curator.data.errors import SourceError
from curator.data.group_names import is_hidden, natural_key, same_name, shown
from curator.sources.conversion import ImageRefused
from curator.sources.decode_image import ENDINGS
from curator.sources.other_formats import UNREAD_ENDINGS

DENIED = "permission denied: make it readable for the user who runs this command"
TABLE_ENDINGS = (".csv", ".parquet")
_ENDINGS = frozenset(UNREAD_ENDINGS).union(*ENDINGS.values())


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One image file: its name below the folder, where it is, and what is said about it."""

    name: str
    path: Path
    label: str
    group: str | None = None


@dataclass(kw_only=True, slots=True)
class Listing:
    """Image files in natural order, class names in order, and what is not taken and why.

    `alike_groups` are groups that differ in case only, each with the other one.
    """

    entries: list[Entry] = field(default_factory=list)
    classes: tuple[str, ...] = ()
    refusals: list[tuple[str, str]] = field(default_factory=list)
    left_out: list[tuple[str, str]] = field(default_factory=list)
    alike_groups: list[tuple[str, str]] = field(default_factory=list)


def list_class_folders(root: Path, classes: Sequence[str] | None, *, skip: bool) -> Listing:
    """List a folder whose subfolders are classes.

    Args:
        root: The folder.
        classes: Declared class names, which say the order; by default the subfolders', 2 before
            10.
        skip: Leave files that are not images out, instead of refusing them.

    Returns:
        Each image file with its subfolder's name as its label.

    Raises:
        SourceError: If there are no subfolders, or the folder cannot be listed.
    """
    listing = Listing()
    folders: list[Path] = []
    for path in _children(root):
        if is_hidden(path.name):
            listing.left_out.append((shown(path.name), "hidden"))
        elif path.is_dir():
            folders.append(path)
        elif path.suffix.lower() in _ENDINGS:
            why = "in no class folder: move it into one, or give --labels FILE"
            listing.refusals.append((shown(path.name), why))
        else:
            _other_file(listing, path.name, skip=skip)
    if not folders:
        raise SourceError(_no_folders(root))
    names = (same_name(name) for name in classes or [folder.name for folder in folders])
    listing.classes = tuple(dict.fromkeys(names))
    seen: set[str] = set()
    for folder in folders:
        if same_name(folder.name) in seen:
            why = "the same name as another folder, with composed accents: merge them"
            listing.refusals.append((shown(f"{folder.name}/"), why))
        else:
            _list_class(listing, root, folder, skip=skip)
        seen.add(same_name(folder.name))
    return listing


def check_inside(root: Path, path: Path) -> Path:
    """Follow symbolic links, and check that they stay in the folder.

    Raises:
        ImageRefused: If it leaves the folder, does not exist, or is no ordinary file.
    """
    try:
        real = path.resolve(strict=True)
        mode = real.stat().st_mode
    except PermissionError:
        raise ImageRefused(DENIED) from None
    except FileNotFoundError:
        msg = "there is no such file, or its link points to nothing: restore or remove it"
        raise ImageRefused(msg) from None
    except (OSError, RuntimeError, ValueError):
        msg = "cannot be found (a loop of links, or a damaged disk): remove it"
        raise ImageRefused(msg) from None
    if not real.is_relative_to(root.resolve()):
        msg = "leaves the folder, by a symbolic link or '..': copy the file into the folder"
        raise ImageRefused(msg)
    if not stat.S_ISREG(mode):
        msg = "not an ordinary file: remove it"
        raise ImageRefused(msg)
    return real


def _no_folders(root: Path) -> str:
    why = f"{root}: holds no class folders (nor MNIST's four files)"
    tables = [path for path in _children(root) if _is_table(path.name)]
    if tables:
        return (
            f"{why}, and a table: if {shown(tables[0].name)} names the labels, give "
            f"--labels {shown(str(tables[0]))}"
        )
    return (
        f"{why}: make a folder for each class, or give --labels FILE, a table with the columns "
        "path,label"
    )


def _is_table(name: str) -> bool:
    return name.lower().endswith(TABLE_ENDINGS) and not is_hidden(name)


def _list_class(listing: Listing, root: Path, folder: Path, *, skip: bool) -> None:
    """List one class; a folder that is not taken is refused by name."""
    before = len(listing.entries), len(listing.refusals)
    try:
        _check_class(listing, root, folder)
        for path in _children(folder):
            _list_file(listing, root, path, skip=skip)
    except ImageRefused as problem:
        listing.refusals.append((shown(f"{folder.name}/"), str(problem)))
    except SourceError:
        listing.refusals.append((shown(f"{folder.name}/"), DENIED))
    if before == (len(listing.entries), len(listing.refusals)):
        listing.left_out.append((shown(f"{folder.name}/"), "a class folder without images"))


def _check_class(listing: Listing, root: Path, folder: Path) -> None:
    """Check a class folder's name and place.

    Raises:
        ImageRefused: If it is not one of the classes, or a link that leaves the folder.
    """
    if same_name(folder.name) not in listing.classes:
        msg = (
            f"not one of --classes {','.join(listing.classes)}: correct --classes, or rename or "
            "move the folder"
        )
        raise ImageRefused(msg)
    if not folder.resolve().is_relative_to(root.resolve()):
        msg = "a link that leaves the folder: copy the images into the folder"
        raise ImageRefused(msg)


def _list_file(listing: Listing, root: Path, path: Path, *, skip: bool) -> None:
    name = f"{path.parent.name}/{path.name}"
    if is_hidden(path.name):
        listing.left_out.append((shown(name), "hidden"))
    elif path.is_dir():
        why = "a folder in a class folder: move its images up, or give --labels FILE"
        listing.refusals.append((shown(f"{name}/"), why))
    elif path.suffix.lower() not in _ENDINGS:
        _other_file(listing, name, skip=skip)
    else:
        try:
            real, label = check_inside(root, path), same_name(path.parent.name)
            listing.entries.append(Entry(name=shown(name), path=real, label=label))
        except ImageRefused as problem:
            listing.refusals.append((shown(name), str(problem)))


def _other_file(listing: Listing, name: str, *, skip: bool) -> None:
    if skip:
        listing.left_out.append((shown(name), "not named as an image"))
        return
    why = "not named as an image: add --other-files skip, or remove it"
    if _is_table(name):
        why = (
            "a table: if it names the labels give it as --labels FILE, else add --other-files "
            "skip, or remove it"
        )
    listing.refusals.append((shown(name), why))


def _children(folder: Path) -> Iterator[Path]:
    """Return what is in a folder, in natural order.

    Raises:
        SourceError: If it cannot be listed.
    """
    try:
        yield from sorted(folder.iterdir(), key=lambda path: natural_key(path.name))
    except OSError as problem:
        msg = f"{folder}: cannot be listed ({problem.strerror})"
        raise SourceError(msg) from None
