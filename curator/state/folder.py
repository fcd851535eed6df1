"""Where a curator keeps the private states of its runs: a folder a data set, a run, a holder.

The number of the holder, the ledger's epoch, is the last name of a run's folder. Who takes a run
over renames it, so a holder that was replaced, and does not know yet, finds nothing to write to.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import final

from curator.ledger.ledger import RunState
from curator.state.on_disk import StateOnDisk, sync_folder


@final
class StateFolder:
    """Finds and removes the files of runs; each method is safe to repeat."""

    def __init__(self, root: Path) -> None:
        """Take the folder."""
        self._root = root

    def open(self, run: RunState) -> StateOnDisk | None:
        """Return the files of a run that this process holds.

        Args:
            run: As the ledger has it, with this process's epoch.

        Returns:
            The files, made now if no step was charged yet; None if they were lost.
        """
        parent = self._of_run(run.dataset, run.run_id)
        mine = parent / str(run.epoch)
        if parent.exists() and (earlier := _last_epoch(parent, run.epoch)) is not None:
            earlier.rename(mine)
            sync_folder(parent)
            kept = StateOnDisk(mine)
            if not run.used:
                kept.start()  # a crash may have come between the folder and its journal
            return kept
        if run.used:
            return None
        mine.mkdir(parents=True, mode=0o700)
        for folder in (self._root, self._root / run.dataset, parent):
            folder.chmod(0o700)
        kept = StateOnDisk(mine)
        kept.start()
        for folder in (mine, parent, self._root / run.dataset, self._root, self._root.parent):
            sync_folder(folder)
        return kept

    def forget_run(self, run: RunState) -> None:
        """Remove a run's files, whoever made them."""
        shutil.rmtree(self._of_run(run.dataset, run.run_id), ignore_errors=True)

    def forget_dataset(self, name: str) -> None:
        """Remove the files of all runs of a data set."""
        shutil.rmtree(self._root / name, ignore_errors=True)

    def forget_all_but(self, runs: Iterable[RunState]) -> None:
        """Remove what a crash left of runs that ended since."""
        kept = {self._of_run(run.dataset, run.run_id) for run in runs}
        for folder in self._root.glob("*/*"):
            if folder not in kept:
                shutil.rmtree(folder, ignore_errors=True)

    def _of_run(self, dataset: str, run_id: str) -> Path:
        return self._root / dataset / run_id


def _last_epoch(parent: Path, most: int) -> Path | None:
    """Return the newest holder's folder, none newer than `most`."""
    epochs = [int(path.name) for path in parent.iterdir() if path.name.isdecimal()]
    known = [epoch for epoch in epochs if epoch <= most]
    return parent / str(max(known)) if known else None
