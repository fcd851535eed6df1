"""Evidence about a closed run: what was promised, what is running, and what an attack achieves.

What is computed from the private images here is not noised and charged to no budget. It is for the
steward, who has the images anyway, and for whoever may see them; the rest is public.

Shape legend: S synthetic images, K canaries that were drawn, D values.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit
from sklearn.neighbors import NearestNeighbors

import proofs.code_hash as proved
from analyst.errors import ImageFileError
from analyst.evaluation.image_file import LabelledImages, load_images
from analyst.evaluation.membership import (
    CONFIDENCE,
    LEAST_RECORDS,
    MOST_RECORDS,
    MOST_SYNTHETIC,
    Figure,
    Interval,
    Membership,
    infer_membership,
    num_copies,
)
from audit.one_run_bound import Guesses
from curator.administration.lookup import NotThere
from curator.administration.open_ledger import open_ledger_reader
from curator.cli.ledger_lines import decision_lines, run_line, share_lines
from curator.clock import utc_now
from curator.config import load_config
from curator.data.canaries import Canaries, read_canaries
from curator.data.levels import Levels
from curator.data.store import StoredImages, open_store
from curator.errors import UnknownRun
from curator.folder import CuratorFolder
from curator.ledger import entries as events
from curator.ledger.datasets_and_runs import DatasetStatus, RunState
from curator.ledger.sql_ledger import SqlLedger
from curator.overview.certificate import issue_certificate
from curator.planning.planner import Planner
from curator.privacy.facts import DatasetFacts, is_rehearsal
from curator.service.limits import Limits
from curator.sources.convert import eight_bits

ROOT: Final = Path(proved.__file__).parent.parent
_LICENSE_KEYS: Final = ("License-Expression", "License")
_LONGEST_LICENSE: Final = 80
_ROWS_AT_ONCE: Final = 4096
_MOST_KNOWN: Final = 0.01  # of the held-out images that may be in the data set by chance
_GUESSED: Final = 4  # a fourth of the canaries is guessed to be in, and a fourth out


class NoEvidence(ValueError):
    """It cannot be had; the text says why and what to do."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CanaryFigures:
    """What synthetic images tell of the canaries.

    Attributes:
        num_canaries: For whom coins were tossed.
        num_in: Of them, in the data set.
        exposure: Mean over those that are in: log2 of how far up each is among those that are out,
            ordered by nearness to a synthetic image.
        exposure_by_chance: The same if nothing is told.
        right: Of the guesses, one for half of them; 1/2 by chance.
        epsilon: Every smaller one at `delta` is refuted, with a probability of error of 5 percent.
        delta: The data set's.
    """

    num_canaries: int
    num_in: int
    exposure: Interval
    exposure_by_chance: float
    right: Interval
    epsilon: float
    delta: float

    def figures(self) -> list[Figure]:
        """Return what was measured, for people."""
        by_chance = f"{self.exposure_by_chance:.3f}"
        return [
            Figure("canaries", f"{self.num_canaries:,}, of which {self.num_in:,} are in"),
            Figure("exposure of those that are in, bits", self.exposure.plain(), by_chance),
            Figure("coins guessed rightly by nearness", self.right.percent(), "50%"),
            Figure(f"epsilon that this proves at delta {self.delta:g}", f"{self.epsilon:.3f}", "0"),
        ]


@dataclass(frozen=True, kw_only=True, slots=True)
class Attacks:
    """All that was computed from private images: it must stay where they are."""

    membership: Membership | None
    canaries: CanaryFigures | None
    notes: tuple[str, ...]  # what was not measured, and what would be needed

    @property
    def alarms(self) -> tuple[str, ...]:
        """What is above chance by more than its interval."""
        found = () if self.membership is None else self.membership.alarms
        if self.canaries is not None:
            guessed = self.canaries.right.is_above(0.5)
            exposed = self.canaries.exposure.is_above(self.canaries.exposure_by_chance)
            found += ("the coins of canaries are guessed",) * guessed
            found += ("canaries that are in are exposed",) * exposed
        return found

    def refutes(self, epsilon: float) -> bool:
        """Whether canaries prove more than was promised."""
        return self.canaries is not None and self.canaries.epsilon > epsilon

    def figures(self) -> list[Figure]:
        """Return everything that was measured."""
        parts = [part for part in (self.membership, self.canaries) if part is not None]
        return [figure for part in parts for figure in part.figures()]


@dataclass(frozen=True, kw_only=True, slots=True)
class Proved:
    """A function that a machine-checked proof is about, and whether this one is running."""

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
class Evidence:
    """All that the papers for the file say; `attacks` is None for those that may leave."""

    made_at: str
    facts: DatasetFacts
    certificate: dict[str, Any]
    entries: tuple[dict[str, Any], ...]
    head: tuple[int, str]
    decisions: tuple[str, ...]
    runs: tuple[str, ...]
    packages: tuple[Package, ...]
    proofs: tuple[Proved, ...]
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
        attacks = None
        if not given.for_outsiders:
            attacks = _attacks(folder, ledger, run, facts, given)
        planner = Planner(ledger=ledger, facts=lambda _: facts, limits=Limits())
        certificate = json.loads(issue_certificate(planner, run, folder.signing_key))
        decisions, runs = tuple[str, ...](), tuple[str, ...]()
        if not given.for_outsiders:
            shares = share_lines(state, lambda name: ledger.share(run.dataset, name))
            decisions = tuple(decision_lines(state, shares))
            runs = tuple(run_line(state, one) for one in ledger.runs(dataset=run.dataset))
        return Evidence(
            made_at=utc_now().isoformat(timespec="seconds"),
            facts=facts,
            certificate=certificate,
            entries=tuple(_excerpt(ledger, run, for_outsiders=given.for_outsiders)),
            head=ledger.head(),
            decisions=decisions,
            runs=runs,
            packages=tuple(_packages()),
            proofs=tuple(_proofs()),
            attacks=attacks,
        )


def attack_canaries(
    synthetic_SD: npt.NDArray[Any], canaries: Canaries, delta: float
) -> CanaryFigures:
    """Guess the coins by nearness to synthetic images.

    Args:
        synthetic_SD: Bytes; the first 10,000 are looked at.
        canaries: All candidates, in bytes as well.
        delta: Of the claim.
    """
    count = len(canaries.is_in)
    index = NearestNeighbors(algorithm="brute").fit(_unit(synthetic_SD[:MOST_SYNTHETIC]))
    distances, _ = index.kneighbors(_unit(_flat(canaries.levels)), n_neighbors=1)
    distance_K = distances[:, 0]
    order = np.argsort(distance_K, kind="stable")
    each = max(1, count // _GUESSED)
    right = int(canaries.is_in[order[:each]].sum() + (~canaries.is_in[order[-each:]]).sum())
    guesses = Guesses(num_canaries=count, num_guesses=2 * each, num_right=right)
    exposures = _exposures(distance_K[canaries.is_in], distance_K[~canaries.is_in])
    ranks = np.arange(1, count - int(canaries.is_in.sum()) + 2)
    return CanaryFigures(
        num_canaries=count,
        num_in=int(canaries.is_in.sum()),
        exposure=_mean(exposures),
        exposure_by_chance=float(np.log2(len(ranks)) - np.log2(ranks).mean()),
        right=Interval.of_count(right, 2 * each),
        epsilon=guesses.epsilon_lower_bound(delta, 1 - CONFIDENCE),
        delta=delta,
    )


def _exposures(
    inside: npt.NDArray[np.float64], outside: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """Return log2 of the outsiders, and itself, over each insider's rank among them."""
    ranks = 1 + (outside[None, :] < inside[:, None]).sum(axis=1)
    exposures: npt.NDArray[np.float64] = np.log2(len(outside) + 1) - np.log2(ranks)
    return exposures


def _mean(values: npt.NDArray[np.float64]) -> Interval:
    """Return a mean with Student's interval; all that is possible where there are too few."""
    if len(values) < 2:
        return Interval(float(values.mean()) if len(values) else math.nan, 0.0, math.inf)
    mean, spread = float(values.mean()), float(values.std(ddof=1)) / math.sqrt(len(values))
    reach = float(stdtrit(len(values) - 1, (1 + CONFIDENCE) / 2)) * spread
    return Interval(mean, mean - reach, mean + reach)


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


def _attacks(
    folder: CuratorFolder, ledger: SqlLedger, run: RunState, facts: DatasetFacts, given: Given
) -> Attacks:
    """Attack with the files that are given.

    Raises:
        NoEvidence: If there are no private images, or the files do not fit.
    """
    if given.synthetic is None:
        msg = "give --synthetic FILE.npz, images of the run's generator, or --for-outsiders"
        raise NoEvidence(msg)
    if ledger.dataset(run.dataset).status is DatasetStatus.ERASED:
        msg = f"'{run.dataset}' was erased, so nothing can be compared with it: add --for-outsiders"
        raise NoEvidence(msg)
    notes = []
    synthetic = _fitting(given.synthetic, "train", facts)
    if synthetic.run_id and synthetic.run_id != run.run_id:
        msg = f"{given.synthetic} is of run {synthetic.run_id}: give that run, or its images"
        raise NoEvidence(msg)
    if not synthetic.run_id:
        notes.append(f"{given.synthetic.name} does not name its run: whose it is was not checked")
    stored, canaries = (
        open_store(folder.images(facts.name)),
        read_canaries(folder.images(facts.name)),
    )
    made = _flat(synthetic.images)
    found = None
    if canaries is None:
        notes.append(
            "canaries: none were planted when the data set was added, by 'curator dataset add "
            "--canaries K'"
        )
    elif 0 < canaries.is_in.sum() < len(canaries.is_in):
        in_bytes = Canaries(
            levels=eight_bits(canaries.levels, facts.max_level),
            labels=canaries.labels,
            is_in=canaries.is_in,
        )
        found = attack_canaries(made, in_bytes, facts.delta)
    planted = 0 if canaries is None else int(canaries.is_in.sum())
    real = len(stored.levels) - planted  # they are behind the images of the source
    membership = None
    if given.held_out is None:
        notes.append(
            "membership: give --held-out FILE.npz, real images of the same kind that were never in "
            "the data set"
        )
    else:
        held_out = _fitting(given.held_out, "test", facts)
        membership = _membership(made, _flat(held_out.images), stored, real, facts)
    return Attacks(membership=membership, canaries=found, notes=tuple(notes))


def _membership(
    made: Levels, held_out: Levels, stored: StoredImages, real: int, facts: DatasetFacts
) -> Membership:
    """Infer membership.

    Raises:
        NoEvidence: If there are too few images, or held-out ones are in the data set.
    """

    def members() -> Iterator[Levels]:
        for start in range(0, real, _ROWS_AT_ONCE):
            rows = stored.levels[start : min(start + _ROWS_AT_ONCE, real)]
            yield eight_bits(rows, facts.max_level)

    firsts = np.arange(real)
    if stored.groups is not None:  # one image of each person
        firsts = np.unique(stored.groups[:real], return_index=True)[1]
    if min(len(firsts), len(held_out)) < LEAST_RECORDS:
        msg = (
            f"membership needs at least {LEAST_RECORDS} units in the data set and as many held-out "
            "images: leave --held-out out, or give more of them"
        )
        raise NoEvidence(msg)
    known = num_copies(held_out, members())
    if known > _MOST_KNOWN * len(held_out):
        msg = (
            f"{known:,} of the held-out images are in the data set itself: give --held-out images "
            "that never were"
        )
        raise NoEvidence(msg)
    drawn = np.random.default_rng(0).permutation(firsts)[:MOST_RECORDS]
    rows = eight_bits(stored.levels[np.sort(drawn)], facts.max_level)
    return infer_membership(made, rows, held_out, copies=num_copies(made, members()))


def _fitting(path: Path, part: Literal["train", "test"], facts: DatasetFacts) -> LabelledImages:
    """Return images of the data set's shape out of a file.

    Raises:
        NoEvidence: If they have another one, or the file cannot be read.
    """
    try:
        images = load_images(path, part=part)
    except ImageFileError as problem:
        msg = f"{problem}. {problem.remedy}"
        raise NoEvidence(msg) from None
    shape = (facts.channels, facts.height, facts.width)
    if images.images.shape[1:] != shape or not len(images.labels):
        msg = f"{path}: its images have shape {images.images.shape[1:]}, the data set's {shape}"
        raise NoEvidence(msg)
    return images


def _excerpt(ledger: SqlLedger, run: RunState, *, for_outsiders: bool) -> Iterator[dict[str, Any]]:
    """Return the ledger's entries about a run and its data set as an export has them.

    Left out are marks of steps but the last one, other runs, and for outsiders decisions.
    """
    mark = None
    for entry in ledger.entries():
        happened = events.decode(entry.kind, entry.body)
        if not _is_about(happened, run, for_outsiders=for_outsiders):
            continue
        if isinstance(happened, events.MarkAdvanced):
            mark = entry
            continue
        if mark is not None:
            yield mark._asdict()
            mark = None
        yield entry._asdict()


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


def _flat(images: Levels) -> Levels:
    return images.reshape(len(images), -1)


def _unit(rows: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    scaled: npt.NDArray[np.float64] = np.asarray(rows, np.float64) / 255
    return scaled
