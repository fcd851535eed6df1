"""A rehearsal: a curator of its own over public data without a limit, to debug against for free.

Everything is real but the budget: the ledger charges, the noise is added, a certificate is signed
that says that it certifies nothing. What keeps private data out: a folder of its own that the
command itself made, no database, only sources that are public or are said to be so by a flag, and
facts whose name, flag and budget must agree.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from curator.administration.add_dataset import add_dataset
from curator.administration.open_ledger import open_ledger_reader
from curator.config import URL_VARIABLE, load_config
from curator.data.capacity import enough_rows
from curator.data.errors import SourceError
from curator.data.images import LabelledImages
from curator.folder import CuratorFolder, NotInitialised, initialise
from curator.identity.credentials import CREDENTIALS_ENDING
from curator.privacy.adjacency import Relation, Unit
from curator.privacy.budget import REHEARSAL_EPSILON
from curator.privacy.facts import REHEARSAL_PREFIX, DatasetFacts
from curator.service.rehearsal import WORDS
from curator.sources.ingest import ingest_source, is_image_folder, survey_source
from curator.sources.options import Progress, SourceOptions, no_progress
from curator.system.new_file import check_new_folder
from curator.validation_errors import first_problem

ANALYST: Final = "rehearser"
MARKER: Final = "REHEARSAL"
PUBLIC_SOURCES: Final = {"sklearn:digits": 16, "sklearn:digits-private": 16}
"""Sources that are public for certain, with the level of a white pixel."""

_WHITE: Final = 255
_EXPECTED_BATCH: Final = 50


@dataclass(frozen=True, kw_only=True, slots=True)
class Rehearsal:
    """What is rehearsed on; None is read off the images, which are public."""

    source: str
    options: SourceOptions
    is_public: bool
    name: str | None = None
    nominal_size: int | None = None
    sampling_rate: float | None = None
    capacity: int | None = None
    max_level: int | None = None
    delta: float = 1e-5


@dataclass(frozen=True, kw_only=True, slots=True)
class Prepared:
    """A folder that is ready to serve."""

    folder: CuratorFolder
    dataset: str
    credentials: Path


def prepare_rehearsal(
    root: Path, rehearsal: Rehearsal, progress: Progress = no_progress
) -> Prepared:
    """Make a rehearsal's folder, or find what an earlier call made.

    Args:
        root: A folder that does not exist, is empty, or is a rehearsal's.
        rehearsal: What to serve.
        progress: Told how many image files of how many are done.

    Returns:
        What to serve, and the credentials that open it.

    Raises:
        SourceError: If the source cannot be read, or nobody says that it is public.
        NotInitialised: If the folder is something else's, or a database is configured.
    """
    _check_public(rehearsal)
    folder = _own_folder(root)
    name = rehearsal.name or _name_of(rehearsal.source)
    if not name.startswith(REHEARSAL_PREFIX):
        name = REHEARSAL_PREFIX + name
    ledger = open_ledger_reader(folder, load_config(folder.config))
    known = {state.registration.name for state in ledger.datasets()}
    ledger.close()
    if name not in known:
        options = _complete(rehearsal, progress)
        add_dataset(folder, _facts(name, rehearsal, options), rehearsal.source, options, progress)
    credentials = root / "analysts" / f"{ANALYST}{CREDENTIALS_ENDING}"
    if not credentials.exists():
        folder.add_analyst(ANALYST)
    return Prepared(folder=folder, dataset=name, credentials=credentials)


def _check_public(rehearsal: Rehearsal) -> None:
    """Check that somebody says that the images are public.

    Raises:
        SourceError: If nobody does, or the source lies in a curator's folder.
    """
    source = rehearsal.source
    if source in PUBLIC_SOURCES:
        return
    if not rehearsal.is_public:
        msg = (
            f"{source}: a rehearsal has no limit, so it would give private images away; if "
            "everybody may see them, add --source-is-public"
        )
        raise SourceError(msg)
    for part in source.split(","):
        path = Path(part).resolve()
        if any((above / "curator.toml").exists() for above in (path, *path.parents)):
            msg = f"{source} lies in a curator's folder, so it is not public"
            raise SourceError(msg)


def _own_folder(root: Path) -> CuratorFolder:
    """Return a folder that nothing but rehearsals was ever in.

    Raises:
        NotInitialised: If there is something else in it, or a database would hold the ledger.
    """
    check_new_folder(root)
    marker = root / MARKER
    if not marker.exists():
        if root.exists() and any(root.iterdir()):
            msg = f"{root} is in use and not a rehearsal's: rehearse in a folder of its own (--dir)"
            raise NotInitialised(msg)
        root.mkdir(parents=True, exist_ok=True, mode=0o700)
        marker.write_text(f"{WORDS}\n")
    folder = initialise(root)
    if load_config(folder.config).database:
        msg = (
            f"a rehearsal keeps its ledger in its own folder: unset {URL_VARIABLE}, and leave "
            f"ledger.url out of {folder.config}"
        )
        raise NotInitialised(msg)
    return folder


def _name_of(source: str) -> str:
    plain = source.removeprefix("sklearn:").split(",")[0]
    stem = Path(plain).name.split(".")[0].lower()
    letters = "".join(c if c.isascii() and (c.isalnum() or c in "_-") else "-" for c in stem)
    return letters.strip("-_") or "images"


def _complete(rehearsal: Rehearsal, progress: Progress) -> SourceOptions:
    """Return the options with the classes that a folder of images has.

    Raises:
        SourceError: If the folder's images need a shape.
    """
    options = rehearsal.options
    if not is_image_folder(rehearsal.source, options):
        return options
    if options.conversion.shape is None:
        msg = f"{rehearsal.source}: give --image-shape, such as 3x32x32"
        raise SourceError(msg)
    if options.classes is not None:
        return options
    return replace(options, classes=survey_source(rehearsal.source, options, progress).classes)


def _facts(name: str, rehearsal: Rehearsal, options: SourceOptions) -> DatasetFacts:
    """Return the facts, read off the images where nothing else was typed in: they are public.

    Raises:
        SourceError: If they do not fit each other.
    """
    with tempfile.TemporaryDirectory() as scratch:
        images, survey = ingest_source(rehearsal.source, options, Path(scratch), no_progress)
        size = len(images.labels)
        classes = options.classes or survey.classes or _numbers(images)
        channels, height, width = images.levels.shape[1:]
    nominal = rehearsal.nominal_size or size
    rate = rehearsal.sampling_rate or min(1.0, _EXPECTED_BATCH / nominal)
    mean = rate * nominal
    white = rehearsal.max_level or PUBLIC_SOURCES.get(rehearsal.source, _WHITE)
    try:
        return DatasetFacts(
            name=name,
            channels=channels,
            height=height,
            width=width,
            max_level=white,
            classes=tuple(classes),
            nominal_size=nominal,
            max_size=max(size, nominal),
            sampling_rate=rate,
            capacity=rehearsal.capacity or enough_rows(mean),
            relation=Relation.ADD_OR_REMOVE,
            unit=Unit.RECORD,
            epsilon=REHEARSAL_EPSILON,
            delta=rehearsal.delta,
            rehearsal=True,
        )
    except ValidationError as error:
        raise SourceError(first_problem(error, "rehearsal")) from None


def _numbers(images: LabelledImages) -> tuple[str, ...]:
    return tuple(str(label) for label in range(int(images.labels.max()) + 1))
