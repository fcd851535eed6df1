"""Answer one step: claim it, charge it durably, then compute; a twin gets the same answer."""

from __future__ import annotations

import logging
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import dataclass

from curator.errors import (
    BudgetExhausted,
    CuratorError,
    LedgerUnavailable,
    RunClosed,
    StepConflict,
    StepLost,
    StepOutOfOrder,
    Unavailable,
)
from curator.ledger.problems import HolderLost, LedgerConflict
from curator.mechanisms.base import (
    Kind,
    ReleasedOnceMechanism,
    SampledMechanism,
    StatefulMechanism,
)
from curator.privacy.batches import Samples
from curator.privacy.noise import NoiseSource
from curator.privacy.release import Release
from curator.service.caller import Caller
from curator.service.fair_turns import working_for
from curator.service.find_run import live_run
from curator.service.live_run import Answer, Claim, LiveRun
from curator.service.runs import Runs
from curator.service.service import Service
from curator.service.steward_policy import StewardPolicy

USED_UP = "declared steps used"

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class StepRequest:
    """One decoded step."""

    run_id: str
    step: int
    samples: Samples


def release_gradient(service: Service, caller: Caller, request: StepRequest) -> Future[Answer]:
    """Claim a step and return its answer to come.

    The computation outlives the request; nothing private is read before the charge is durable.

    Returns:
        The answer of this step; a repeated request gets the same future.

    Raises:
        UnknownRun: If the run is not the caller's.
        RunClosed: If the run has used its steps or was closed.
        StepLost: If the step was charged and its answer is no longer kept.
        StepConflict: If the step was sent with different images.
        StepOutOfOrder: If the step is not the next one.
        MalformedRequest: If the samples do not fit the run's specification.
        PolicyRefused: If the step has more images than the steward allows.
        TooFast: If steps come faster than the steward allows.
        DatasetPaused: If the steward has paused the data set.
        DatasetRetired: If the steward has retired it.
        DatasetOutOfService: If its stored images are damaged, whichever records they are.
        BudgetExhausted: If a cap was lowered since the run was opened.
        LedgerUnavailable: If the charge cannot be made durable, or the run is not held here.
        Unavailable: If this process is ending and has let go of the run.
    """
    runs = service.runs
    runs.check_holder()
    live = live_run(runs, caller, request.run_id)
    runs.datasets.refuse_stopped(live.facts.name)
    asked = request.samples.digested()
    with live.lock:
        known = live.claims.get(request.step)
        if known is not None:
            if not known.asked.equals(asked):
                raise StepConflict
            return known.answer
        _check_order(live, request.step)
        live.mechanism.check_samples(request.samples)
        live.policy.check_rows(len(request.samples.labels_N))
        most = live.policy.max_steps_per_second
        service.rates.take(live.facts.name, live.analyst, most)
        if request.step > live.mark:
            _advance_mark(runs, live)
        now = runs.monotonic()
        claim = Claim(asked=asked, answer=Future(), claimed_at=now)
        live.used = request.step
        live.touched_at = now
        live.keep(request.step, claim)
        runs.kept.note(live, request.step)
        spent_and_cap = live.spent_epsilon, live.cap_epsilon
        before = live.claims.get(request.step - 1)
    if before is not None and live.mechanism.kind is Kind.STATEFUL:
        wait([before.answer])  # for its state; no place is taken meanwhile
    try:
        with working_for(live.analyst):
            is_ready = live.held is None or live.held.is_ready  # or its state is made first
            places = service.computing.executor if is_ready else service.computing.apart
            places.submit(_compute, service, live, request, claim, spent_and_cap)
    except RuntimeError:  # the curator is draining; the step stays charged
        claim.answer.set_exception(Unavailable())
    return claim.answer


def _check_order(live: LiveRun, step: int) -> None:
    """Refuse a step that is not the next one.

    Raises:
        RunClosed: If there is no next step.
        Unavailable: If this process has let go of the run.
        StepLost: If the step was used already.
        StepOutOfOrder: If it lies ahead.
    """
    if live.relinquished:
        raise Unavailable
    if live.closed or step > live.num_steps:
        raise RunClosed
    if step <= live.used:
        raise StepLost
    if step != live.used + 1:
        msg = f"the next step of this run is {live.used + 1}"
        raise StepOutOfOrder(msg)


def _advance_mark(runs: Runs, live: LiveRun) -> None:
    """Charge the next block of steps durably, or as many as a lowered cap allows.

    Raises:
        BudgetExhausted: If a lowered cap allows not one more.
        HolderLost: If another process took the run over.
        LedgerUnavailable: If the ledger does not confirm; nothing will be computed.
    """
    block = live.block.next_size(runs.monotonic())
    mark = min(live.mark + block, live.num_steps)
    try:
        if live.mark == 0:
            _charge_setup(runs, live)
        live.mark = _charged(runs, live, mark)
    except BudgetExhausted:  # smaller blocks, down to the step that was asked
        if mark <= live.used + 1:
            raise
        live.block.size = max(1, (mark - live.mark) // 2)
        live.block.advanced_at = None
        _advance_mark(runs, live)
        return
    except HolderLost:
        runs.live.pop(live.run_id, None)  # asking again finds who holds it
        raise
    try:
        live.policy = StewardPolicy.of(runs.ledger.dataset(live.facts.name))
        statement = runs.ledger.statement(live.facts.name)
        live.spent_epsilon, live.cap_epsilon = statement.spent_epsilon, statement.cap
    except LedgerUnavailable:
        _logger.warning("statement unavailable after a charge")


def _charge_setup(runs: Runs, live: LiveRun) -> None:
    """Charge what a run costs beside its steps, for good and once, before the first of them.

    Raises:
        BudgetExhausted: If a lowered cap does not allow it.
        HolderLost: If another process took the run over.
        LedgerUnavailable: If the ledger does not confirm; nothing will be computed.
    """
    state = runs.ledger.run(live.run_id)
    if state.setup_begun or state.setup.is_zero:
        return
    try:
        runs.ledger.begin_setup(live.run_id, runs.holder, live.epoch)
    except LedgerConflict as error:  # an earlier one was written after all
        raise LedgerUnavailable from error


def _charged(runs: Runs, live: LiveRun, mark: int) -> int:
    """Return the mark that the ledger has after charging up to `mark`."""
    try:
        runs.ledger.advance_mark(live.run_id, runs.holder, live.epoch, mark)
    except LedgerConflict:
        return _mark_that_was_written(runs, live)
    return mark


def _mark_that_was_written(runs: Runs, live: LiveRun) -> int:
    """Return the ledger's mark, after a write whose confirmation was lost, now that it is noted.

    Raises:
        LedgerUnavailable: If the run is no longer this process's, or the mark is no further.
    """
    state = runs.ledger.run(live.run_id)
    ours = state.is_open and (state.holder, state.epoch) == (runs.holder, live.epoch)
    if not ours or state.used <= live.used:
        raise LedgerUnavailable
    return runs.ledger.advance_mark(live.run_id, runs.holder, live.epoch, state.used).used


def _compute(
    service: Service,
    live: LiveRun,
    request: StepRequest,
    claim: Claim,
    spent_and_cap: tuple[float, float],
) -> None:
    """Compute a charged step; whatever fails here outside the sanitizer is one opaque error."""
    spent_epsilon, cap_epsilon = spent_and_cap
    try:
        release = _gradient(service.computing.noise, live, request)
    except BaseException:  # noqa: BLE001 - the text may hold anything; it stays here
        _logger.error("a charged step could not be answered")  # noqa: TRY400 - no exception text
        release = None

    def hand_over() -> None:
        if release is None:
            claim.answer.set_exception(CuratorError())
        elif not service.runs.is_held():
            claim.answer.set_exception(Unavailable())
        else:
            claim.answer.set_result(
                Answer(
                    step=request.step,
                    release=release,
                    spent_epsilon=spent_epsilon,
                    budget_epsilon=cap_epsilon,
                )
            )
            service.telemetry.step_answered(live.facts.name)
        if request.step == live.num_steps:  # seen in the ledger no earlier than the answer
            _close_used_up(service.runs, live)

    service.computing.slot.deliver(hand_over, claim.claimed_at, service.runs.monotonic)


def _close_used_up(runs: Runs, live: LiveRun) -> None:
    """Close a run whose steps are all used; it returns nothing, so failing is harmless."""
    with live.lock:
        live.closed = True
        if live.held is not None:
            live.held.end(live.used)
        try:
            runs.close(live, USED_UP)
        except CuratorError:
            _logger.warning("a used-up run could not be closed in the ledger")
    runs.forget_closed()


def _gradient(noise: NoiseSource, live: LiveRun, request: StepRequest) -> Release:
    """Run the mechanism.

    Raises:
        CuratorError: If a mechanism has not what it needs: its one release, or its state.
    """
    mechanism, samples = live.mechanism, request.samples
    if isinstance(mechanism, StatefulMechanism):
        if live.held is None:
            raise CuratorError
        return live.held.step(request.step, mechanism, live.records, samples, noise)
    if isinstance(mechanism, SampledMechanism):
        records = live.records.poisson_batch(mechanism.spec.rate, mechanism.spec.capacity, noise)
        return mechanism.gradient(samples, records, noise)
    if live.released is None or not isinstance(mechanism, ReleasedOnceMechanism):
        raise CuratorError
    return mechanism.gradient(samples, live.released)


def prepare_step(service: Service, run_id: str) -> None:
    """Draw noise and the sample of the next step; nothing private is read, nothing is charged."""
    service.computing.draw_noise_ahead()
    live = service.runs.live.get(run_id)
    if live is None or live.used >= live.num_steps:
        return
    samples = live.mechanism.requirements().samples
    if samples is not None and samples.before_all is None:
        with suppress(Exception):  # the answer is on its way, and the next step can do without
            live.records.draw_ahead(samples.rate, samples.capacity, service.computing.noise)
