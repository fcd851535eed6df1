"""The data sets of this process: their public facts, their records, and which take no steps now."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import final

from curator.data.sampling import PrivateRecords
from curator.errors import DatasetOutOfService, DatasetRetired, Refusal, UnknownDataset
from curator.privacy.facts import DatasetFacts


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class ServedDataset:
    """A data set with its public facts and its private records.

    There are no records once they were erased, or if they were damaged when they were loaded.
    """

    facts: DatasetFacts
    records: PrivateRecords | None
    is_damaged: bool = False

    @property
    def is_in_service(self) -> bool:
        """Whether nothing that was stored is known to be damaged; no record decides it."""
        return not self.is_damaged and (self.records is None or self.records.is_whole())

    def check_in_service(self) -> None:
        """Check that steps can be taken.

        Raises:
            DatasetOutOfService: If what was stored is damaged.
        """
        if not self.is_in_service:
            raise DatasetOutOfService


@final
class ServedDatasets:
    """Data sets by name; one that was added since is loaded when it is first asked for."""

    def __init__(
        self,
        served: Iterable[ServedDataset] = (),
        load: Callable[[str], ServedDataset | None] = lambda _: None,
    ) -> None:
        """Serve what is loaded, and what `load` finds later; None says that it finds nothing."""
        self._served = {dataset.facts.name: dataset for dataset in served}
        self._load = load
        self.stopped: dict[str, type[Refusal]] = {}  # by the steward; at once, charged or not

    def add(self, dataset: ServedDataset) -> None:
        """Serve a data set, in place of an earlier one of its name."""
        self._served[dataset.facts.name] = dataset

    def get(self, name: str) -> ServedDataset:
        """Return a data set.

        Raises:
            UnknownDataset: If there is none of that name.
        """
        dataset = self._served.get(name)
        if dataset is None:
            dataset = self._load(name)
            if dataset is None:
                msg = f"no data set is named {name!r}"
                raise UnknownDataset(msg)
            self.add(dataset)
        return dataset

    def facts(self, name: str) -> DatasetFacts:
        """Return the public facts of a data set.

        Raises:
            UnknownDataset: If there is none of that name.
        """
        return self.get(name).facts

    def records(self, name: str) -> PrivateRecords:
        """Return a data set's records.

        Raises:
            DatasetRetired: If they were erased.
            DatasetOutOfService: If they are damaged.
        """
        dataset = self.get(name)
        dataset.check_in_service()
        if dataset.records is None:
            raise DatasetRetired
        return dataset.records

    def erase(self, name: str) -> None:
        """Let go of the records of a data set, if it is served here."""
        dataset = self._served.get(name)
        if dataset is not None:
            self.add(ServedDataset(facts=dataset.facts, records=None))

    def refuse_stopped(self, name: str) -> None:
        """Refuse a data set that takes no steps in this process, charged or not.

        Raises:
            DatasetPaused: If the steward has paused it.
            DatasetRetired: If the steward has retired or erased it.
            DatasetOutOfService: If what was stored is damaged.
        """
        stopped = self.stopped.get(name)
        if stopped is not None:
            raise stopped
        self.get(name).check_in_service()

    def is_in_service(self, name: str) -> bool:
        """Return whether nothing that is stored of a data set is known to be damaged."""
        dataset = self._served.get(name)
        return dataset is None or dataset.is_in_service

    def look_at_stored_images(self) -> None:
        """Look whether what is stored is still there; what is not is logged, once."""
        for name in list(self._served):
            self.is_in_service(name)
