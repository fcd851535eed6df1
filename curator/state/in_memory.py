"""The private state of one run, in the memory of the process that holds it and on its disk.

Steps pass through one at a time, in the order of their numbers, so the state is a function of the
records and of what was asked. It is made, or restored, by the first charged step that comes here,
and forgotten when the run ends.
"""

from __future__ import annotations

import threading
from typing import Any, final

from curator.data.sampling import PrivateRecords
from curator.mechanisms.base import StatefulMechanism
from curator.privacy.batches import Samples
from curator.privacy.noise import NoiseSource
from curator.privacy.release import Release
from curator.state.asking import private_batches, state_step
from curator.state.on_disk import StateOnDisk


@final
class StateInMemory:
    """What a stateful mechanism remembers between the steps of a run."""

    def __init__(self, used: int, kept: StateOnDisk | None = None) -> None:
        """Remember nothing yet.

        Args:
            used: Steps of the run that will not come again.
            kept: The run's files; without them a restart ends the run.
        """
        self._kept = kept
        self._passed = used
        self._last: int | None = None  # the last step that will come, once the run has ended
        self._turn = threading.Condition()
        self._state: Any = None

    def __repr__(self) -> str:
        """Return a constant, whatever is inside."""
        return "StateInMemory(<sealed>)"

    @property
    def is_ready(self) -> bool:
        """Whether a step need not make or restore the state first."""
        return self._state is not None

    def step(
        self,
        step: int,
        mechanism: StatefulMechanism,
        records: PrivateRecords,
        samples: Samples,
        noise: NoiseSource,
    ) -> Release:
        """Compute one charged step, after all that were claimed before it.

        A step is handed to the executor when the one before it was answered; should it come sooner,
        it waits here. A step that fails leaves the state as it was. No answer leaves before what it
        takes to go on after a crash is on the disk.

        Args:
            step: Its number.
            mechanism: Of the run.
            records: Of the data set; read by the first step that comes here, and by no other.
            samples: Of this step.
            noise: Secret randomness.
        """
        samples = samples.copied()  # as what is read from a disk lies in memory
        with self._turn:
            self._turn.wait_for(lambda: self._passed == step - 1)
            try:
                if self._state is None:
                    self._state = self._first(mechanism, records, noise)
                if self._kept is not None:
                    self._kept.before(mechanism, step, samples)
                self._state, release = state_step(mechanism, self._state, step, samples, noise)
                if self._kept is not None:
                    self._kept.after(mechanism, step, self._state)
            finally:
                self._passed = step
                self._turn.notify_all()
                self._forget()
            return release

    def end(self, used: int) -> None:
        """Forget the state, as soon as the last claimed step is computed."""
        self._last = used
        self._forget()

    def _forget(self) -> None:
        if self._last is not None and self._passed >= self._last:
            self._state = None
            if self._kept is not None:
                self._kept.forget()

    def _first(
        self, mechanism: StatefulMechanism, records: PrivateRecords, noise: NoiseSource
    ) -> Any:
        if self._kept is None:
            return mechanism.start(private_batches(mechanism, records, noise))
        return self._kept.restore(mechanism, records, noise)
