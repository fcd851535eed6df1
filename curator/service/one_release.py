"""Make the one release of a run, kept durably before first use, and hand it out again for free.

It is charged first. It may take a quarter of an hour, one of each analyst at a time. Between two
batches of records it is asked whether it is still wanted, by public causes alone; whatever ends it,
the charge stays and it is not made again.
"""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from curator.errors import (
    CuratorError,
    DatasetOutOfService,
    LedgerUnavailable,
    MalformedRequest,
    Refusal,
    RunClosed,
    Unavailable,
    UnknownRun,
)
from curator.ledger.ledger import DatasetStatus, RunState
from curator.ledger.problems import HolderAlive, HolderLost
from curator.mechanisms.base import Kind, ReleasedOnceMechanism
from curator.privacy.batches import RecordBatch
from curator.privacy.noise import NoiseSource
from curator.privacy.private import Private
from curator.privacy.release import Release
from curator.sanitizer.stored import decode_release, encode_release
from curator.service.caller import Caller
from curator.service.find_run import live_run, run_of
from curator.service.live_run import LiveRun
from curator.service.releases_in_progress import LOOK_SECONDS
from curator.service.runs import Runs
from curator.state.asking import num_private_batches, private_batches

FAILED: Final = "the one release failed"
_LOOK_SECONDS: Final = 1.0  # between two looks at what other curators wrote into the ledger
_STOPPED: Final = "the steward has stopped the data set"
_CLOSED: Final = "the run was closed"
_DAMAGED: Final = "the stored images of the data set were damaged"

_logger = logging.getLogger(__name__)


class _UnwantedError(Exception):
    """A release must not be made any more; the text is public."""


def make_release(
    runs: Runs, noise: NoiseSource, live: LiveRun, mechanism: ReleasedOnceMechanism
) -> None:
    """Make the one release of a run.

    Args:
        runs: Of this process.
        noise: Of the release.
        live: A run that was just opened; its lock is held.
        mechanism: Of the run.

    Raises:
        RunClosed: If it was ended, with the public cause; the run is closed.
        CuratorError: If it could not be charged, or failed after it was; the run is closed.
    """
    try:
        _check_wanted(runs, live)
        runs.ledger.begin_setup(live.run_id, runs.holder, live.epoch)
    except _UnwantedError as ended:
        give_up(runs, live, f"before its release was made: {ended}")
        msg = f"{ended} before its release was made; nothing was charged"
        raise RunClosed(msg) from None
    except CuratorError:  # in the ledger's own words: nothing private was read yet
        give_up(runs, live, FAILED)
        raise
    try:
        batches = private_batches(mechanism, live.records, noise)
        num_batches = num_private_batches(mechanism, live.facts)
        with _telling(runs, live):
            release = mechanism.setup(_while_wanted(runs, live, batches, num_batches), noise)
        _check_wanted(runs, live)
        _keep(runs, live, encode_release(release))
    except _UnwantedError as ended:
        give_up(runs, live, f"while its release was made: {ended}")
        msg = f"{ended} while its release was made; what was charged stays charged"
        raise RunClosed(msg) from None
    except Exception:  # noqa: BLE001 - the text may hold anything; it stays here
        give_up(runs, live, FAILED)
        raise CuratorError from None
    live.released = release
    statement = runs.ledger.statement(live.facts.name)
    live.spent_epsilon, live.cap_epsilon = statement.spent_epsilon, statement.cap


def give_up(runs: Runs, live: LiveRun, reason: str) -> None:
    """Close a run that has no release; it stays open if the ledger fails, until it is adopted."""
    live.closed = True
    runs.live.pop(live.run_id, None)
    with suppress(CuratorError):
        runs.close(live, reason)


def _while_wanted(
    runs: Runs, live: LiveRun, batches: Iterator[Private[RecordBatch]], num_batches: int
) -> Iterator[Private[RecordBatch]]:
    """Hand on each batch, after asking whether the release is still wanted, and say how many went.

    Raises:
        _UnwantedError: If it is not; the next batch is neither drawn nor read.
    """
    looked = runs.monotonic()
    for done in itertools.count():
        runs.setups.note(live, done, num_batches)
        _check_wanted(runs, live)
        if runs.monotonic() - looked >= _LOOK_SECONDS:
            looked = runs.monotonic()
            _check_written(runs, live)
        try:
            batch = next(batches, None)
        except DatasetOutOfService:
            raise _UnwantedError(_DAMAGED) from None
        if batch is None:
            return
        yield batch


@contextmanager
def _telling(runs: Runs, live: LiveRun) -> Iterator[None]:
    """Let a thread tell the steward how far a release is, while the block makes it."""
    is_over = threading.Event()
    thread = threading.Thread(
        target=_tell, args=(runs, live, is_over), daemon=True, name="progress"
    )
    try:
        try:
            thread.start()
        except RuntimeError:
            _logger.warning("no thread is left to tell how far the release of a run is")
        yield
    finally:
        is_over.set()


def _tell(runs: Runs, live: LiveRun, is_over: threading.Event) -> None:
    """Tell the steward's log how much of a release is done, at times of the clock alone."""
    began = time.monotonic()
    for number in itertools.count(1):
        if is_over.wait(max(0.0, began + number * LOOK_SECONDS - time.monotonic())):
            return
        tenths = runs.setups.look(live)
        if tenths is not None:
            words = "run %s: %d of 10 parts of its release are done"
            _logger.info(words, live.run_id, tenths)


def _check_wanted(runs: Runs, live: LiveRun) -> None:
    """Check what this process knows: nothing of it depends on a record.

    Raises:
        _UnwantedError: With the cause.
    """
    if live.facts.name in runs.datasets.stopped:
        raise _UnwantedError(_STOPPED)
    if not live.records.is_whole():
        raise _UnwantedError(_DAMAGED)
    if live.closed:
        raise _UnwantedError(_CLOSED)
    if runs.setups.is_stopping:
        msg = "the curator was stopped"
        raise _UnwantedError(msg)
    try:
        runs.check_holder()
    except HolderLost:
        msg = "another curator may have taken the run over"
        raise _UnwantedError(msg) from None


def _check_written(runs: Runs, live: LiveRun) -> None:
    """Check what others may have written; keeping the release checks it again in any case.

    Raises:
        _UnwantedError: With the cause.
    """
    try:
        status = runs.ledger.dataset(live.facts.name).status
        is_open = runs.ledger.run(live.run_id).is_open
    except LedgerUnavailable:
        return
    if status is not DatasetStatus.ACTIVE:
        raise _UnwantedError(_STOPPED)
    if not is_open:
        raise _UnwantedError(_CLOSED)


def _keep(runs: Runs, live: LiveRun, payload: bytes) -> None:
    """Keep a release durably, unless the ledger has the end of its data set or run.

    Raises:
        _UnwantedError: If it has.
    """
    try:
        runs.ledger.store_setup(live.run_id, runs.holder, live.epoch, payload)
    except RunClosed:
        raise _UnwantedError(_CLOSED) from None
    except Refusal:
        raise _UnwantedError(_STOPPED) from None


_NONE = "run_id: this run made no release when it opened"
_MAKING = "the one release of this run is still being made: ask again when it is ready"


def download_release(runs: Runs, caller: Caller, run_id: str) -> tuple[RunState, Release]:
    """Return the one release of a run, the same bytes every time, also after the run is closed.

    Nothing is computed and no private byte is read: the ledger keeps what was released, and kept it
    only after the charge was durable.

    Args:
        runs: Of this process.
        caller: Who asks; only the owner of the run may download.
        run_id: Which run.

    Returns:
        The ledger's record of the run, and its release.

    Raises:
        UnknownRun: If there is none, or it is not the caller's.
        MalformedRequest: If nothing was released when it opened.
        Unavailable: If its release is still being made.
        RunClosed: If its release was lost in a crash, or ended while it was made.
    """
    state = run_of(runs.ledger, caller, run_id)
    if state.analyst != caller.name:
        raise UnknownRun
    is_making = runs.setups.is_making(run_id)  # before the look: what is kept ends it
    payload = runs.ledger.setup_payload(run_id)
    if payload is not None:
        return state, decode_release(payload)
    if is_making:
        raise Unavailable(_MAKING)
    if not state.setup_begun:
        raise MalformedRequest(_NONE)
    if not state.is_open:
        msg = f"it has no release ({state.close_reason}); it is never made again for free"
        raise RunClosed(msg)
    try:
        live = live_run(runs, caller, run_id)  # closes it if it was lost with its process
    except HolderAlive:  # another curator
        raise Unavailable(_MAKING) from None
    if live.mechanism.kind is not Kind.RELEASED_ONCE:  # what was charged is a state's
        raise MalformedRequest(_NONE)
    raise Unavailable  # it was kept just now
