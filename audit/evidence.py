"""Evidence about a closed run: what was promised, what is running, and what attacks achieve.

All but the attacks, the steward's decisions and other runs is public.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Final

import proofs.code_hash as proved
from analyst.evaluation.image_file import LabelledImages
from audit.evidence_attacks import Attacks, NoEvidence, attack, fitting
from curator.administration.lookup import NotThere
from curator.administration.open_ledger import open_ledger_reader
from curator.cli.ledger_lines import decision_lines, run_line, share_lines
from curator.clock import utc_now
from curator.config import load_config
from curator.errors import UnknownRun
from curator.folder import CuratorFolder
from curator.ledger import entries as events
from curator.ledger.datasets_and_runs import DatasetStatus, RunState
from curator.ledger.sql_ledger import SqlLedger
from curator.overview.certificate import issue_certificate
from curator.planning.planner import Planner
from curator.privacy.facts import DatasetFacts, is_rehearsal
from curator.service.limits import Limits

ROOT: Final = Path(proved.__file__).parent.parent
_LICENSE_KEYS: Final = ("License-Expression", "License")
_LONGEST_LICENSE: Final = 80


@dataclass(frozen=True, kw_only=True, slots=True)
class Proved:
    """A function that a machine-checked proof rests on, and whether this one is running."""

    name: str
    digest: str
    is_running: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Package:
    """Installed software."""

    name: str
    version: str
    license: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ImageFile:
    """The file of synthetic images that a page is about."""

    name: str
    sha256: str
    count: int
    names_the_run: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Excerpt:
    """The ledger's entries about a run and its data set, as an export has them."""

    entries: tuple[dict[str, Any], ...]
    marks_left_out: int  # of steps: the last one says how many were used
    head: tuple[int, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Evidence:
    """All that the papers for the file say.

    `attacks` is None for those that may leave, and `decisions` and `runs` are empty.
    """

    made_at: str
    facts: DatasetFacts
    certificate: dict[str, Any]
    is_one_release: bool
    excerpt: Excerpt
    decisions: tuple[str, ...]
    runs: tuple[str, ...]
    packages: tuple[Package, ...]
    proofs: tuple[Proved, ...]
    images: ImageFile | None
    attacks: Attacks | None

    @property
    def promise(self) -> tuple[float, float]:
        """The guarantee."""
        promise = self.certificate["statement"]["dataset"]["promise"]
        return promise["epsilon"], promise["delta"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Given:
    """The files that attacks are made with, and whether they are made."""

    synthetic: Path | None
    held_out: Path | None
    for_outsiders: bool


def gather(folder: CuratorFolder, run_id: str, given: Given) -> Evidence:
    """Gather the evidence about one closed run; nothing is written and nothing is charged.

    Args:
        folder: The curator's; it may be serving.
        run_id: Of the run.
        given: What to attack with.

    Raises:
        NotThere: If there is no such run.
        NoEvidence: If the run is open or of a rehearsal, or a file cannot be read or does not fit.
        SourceError: If the stored images are damaged.
    """
    with closing(open_ledger_reader(folder, load_config(folder.config))) as ledger:
        run = _closed_run(ledger, run_id)
        state = ledger.dataset(run.dataset)
        facts = DatasetFacts.model_validate_json(state.registration.facts_json)
        images, file = _images(given.synthetic, run, facts)
        attacks, decisions, runs = None, list[str](), list[str]()
        if not given.for_outsiders:
            if images is None:
                msg = "give --synthetic FILE.npz, images of the run's generator, or --for-outsiders"
                raise NoEvidence(msg)
            if state.status is DatasetStatus.ERASED:
                msg = (
                    f"'{run.dataset}' was erased, so nothing can be compared with it: add "
                    "--for-outsiders"
                )
                raise NoEvidence(msg)
            attacks = attack(folder.images(facts.name), facts, images.images, given.held_out)
            shares = share_lines(state, lambda name: ledger.share(run.dataset, name))
            decisions = decision_lines(state, shares)
            runs = [run_line(state, one) for one in ledger.runs(dataset=run.dataset)]
        planner = Planner(ledger=ledger, facts=lambda _: facts, limits=Limits())
        return Evidence(
            made_at=utc_now().isoformat(timespec="seconds"),
            facts=facts,
            certificate=json.loads(issue_certificate(planner, run, folder.signing_key)),
            is_one_release=run.is_one_release,
            excerpt=_excerpt(ledger, run, for_outsiders=given.for_outsiders),
            decisions=tuple(decisions),
            runs=tuple(runs),
            packages=tuple(_packages()),
            proofs=tuple(_proofs()),
            images=file,
            attacks=attacks,
        )


def _closed_run(ledger: SqlLedger, run_id: str) -> RunState:
    """Return the run.

    Raises:
        NotThere: If there is none.
        NoEvidence: If it is open, or of public data.
    """
    try:
        run = ledger.run(run_id)
    except UnknownRun:
        msg = f"there is no run '{run_id}'; 'curator ledger show' lists them"
        raise NotThere(msg) from None
    if run.is_open:
        msg = f"run {run_id} is open: what it will have spent is known when it ends"
        raise NoEvidence(msg)
    if is_rehearsal(run.dataset):
        msg = f"run {run_id} is of a rehearsal with public images, which promises nothing"
        raise NoEvidence(msg)
    return run


def _images(
    path: Path | None, run: RunState, facts: DatasetFacts
) -> tuple[LabelledImages | None, ImageFile | None]:
    """Return the synthetic images and the file that they are in.

    Raises:
        NoEvidence: If they are of another run, or do not fit.
    """
    if path is None:
        return None, None
    images = fitting(path, "train", facts)
    if images.run_id and images.run_id != run.run_id:
        msg = f"{path} is of run {images.run_id}: give that run, or images of this one"
        raise NoEvidence(msg)
    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    return images, ImageFile(
        name=path.name,
        sha256=digest,
        count=len(images.labels),
        names_the_run=bool(images.run_id),
    )


def _excerpt(ledger: SqlLedger, run: RunState, *, for_outsiders: bool) -> Excerpt:
    """Return the entries of a run and its data set.

    Left out are marks of steps but the last one, other runs, and for outsiders decisions.
    """
    found, mark, left_out = list[dict[str, Any]](), None, -1
    for entry in ledger.entries():
        happened = events.decode(entry.kind, entry.body)
        if not _is_about(happened, run, for_outsiders=for_outsiders):
            continue
        if isinstance(happened, events.MarkAdvanced):
            mark, left_out = entry, left_out + 1
            continue
        if mark is not None:
            found.append(mark._asdict())
            mark = None
        found.append(entry._asdict())
    return Excerpt(entries=tuple(found), marks_left_out=max(0, left_out), head=ledger.head())


def _is_about(happened: events.LedgerEvent, run: RunState, *, for_outsiders: bool) -> bool:
    """Return whether an entry is of a run, or of its data set and may be shown."""
    if isinstance(happened, events.DatasetRegistered):
        return happened.registration.name == run.dataset
    if isinstance(happened, events.RunOpened):
        return happened.opening.run_id == run.run_id
    if isinstance(happened, events.Decision):
        return not for_outsiders and happened.dataset == run.dataset
    return happened.run_id == run.run_id


def _packages() -> Iterator[Package]:
    """Return what is installed beside this program, by name."""
    found = {}
    for one in metadata.distributions():
        told = one.metadata
        words = next((told[key] for key in _LICENSE_KEYS if key in told), "")
        words = words if words[:1].isalnum() else ""
        kinds = [kind for kind in told.get_all("Classifier") or () if kind.startswith("License ::")]
        named = words.partition("\n")[0] or ", ".join(kind.rpartition(":: ")[2] for kind in kinds)
        found[told["Name"].lower()] = Package(
            name=told["Name"], version=one.version, license=named[:_LONGEST_LICENSE]
        )
    return iter([found[name] for name in sorted(found)])


def _proofs() -> Iterator[Proved]:
    """Return what was proved by a machine, and whether it is what is running."""
    running = proved.hashes(ROOT)
    for name, digest in proved.recorded().items():
        yield Proved(name=name, digest=digest, is_running=running.get(name) == digest)
