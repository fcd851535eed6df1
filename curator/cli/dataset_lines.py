"""What a list of data sets says of each: whether it is in service, and what was declared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from curator.data.store import is_stored
from curator.ledger.datasets_and_runs import DatasetState, DatasetStatus
from curator.privacy.facts import is_rehearsal

if TYPE_CHECKING:
    from curator.folder import CuratorFolder
    from curator.rest.models import Dataset

NONE_YET: Final = "no data set yet: curator dataset add NAME SOURCE ..."
_DECIDED: Final = {
    DatasetStatus.PAUSED: "paused: runs stay open and take no steps until 'dataset resume'",
    DatasetStatus.RETIRED: "retired: no step will be answered again, and the images are kept",
    DatasetStatus.ERASED: "erased: the images are gone, and the ledger stays",
}


def service_of(state: DatasetState, folder: CuratorFolder) -> tuple[bool, str]:
    """Return whether a data set is in service, as far as ledger and folder tell, and why not."""
    if state.status in _DECIDED:
        return False, _DECIDED[state.status]
    stored = folder.images(state.registration.name)
    if not is_stored(stored):
        return False, f"out of service: {stored} is not complete; restore it from a backup"
    return True, "in service"


def dataset_lines(listed: Dataset, state: str) -> list[str]:
    """Return what is said of one data set; its name and state first."""
    rules = ", ".join(f"{rule} {value}" for rule, value in listed.policy.items())
    shape = f"{listed.channels}x{listed.height}x{listed.width}"
    budget = f"budget ({listed.epsilon:g}, {listed.delta:g})"
    if is_rehearsal(listed.dataset):
        budget = "a rehearsal without a limit"
    sampling = f"rate at most {listed.sampling_rate:g} of nominally {listed.nominal_size:,}"
    groups = ""
    if listed.max_records_per_group is not None:
        groups = f", of each group at most {listed.max_records_per_group} records"
    return [
        f"{listed.dataset}: {state}",
        f"  guarantee  {budget}, {listed.adjacency}",
        f"  images     {shape}, {len(listed.classes)} classes: {', '.join(listed.classes)}",
        f"  sampling   {sampling}, capacity {listed.capacity}{groups}",
        f"  policy     {rules or 'no rules'}",
    ]
