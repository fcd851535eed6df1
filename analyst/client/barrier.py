"""A curator as an analyst sees it."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, final
from weakref import WeakSet

from analyst.client import messages
from analyst.client.asked import choice_of, num_steps_of, text_of
from analyst.client.channel import Connection
from analyst.client.credentials import load_credentials
from analyst.facts import Budget, DatasetFacts, Plan, PlanQuestion, RunList
from protos.weir.v1 import budget_pb2, dataset_pb2, release_pb2, run_pb2

if TYPE_CHECKING:
    from analyst.client.codec import DownloadedRelease
    from analyst.client.run import Run

_SECONDS = 30.0
_PLAN_SECONDS = 120.0  # some costs are integrals
_AXES: Final[dict[str, run_pb2.PlanAxis.ValueType]] = {
    "steps": run_pb2.PLAN_AXIS_STEPS,
    "epsilon": run_pb2.PLAN_AXIS_EPSILON,
    "noise": run_pb2.PLAN_AXIS_NOISE,
}
_SETUP_SECONDS = 1800.0  # OpenRun makes the one release of a mechanism that has one


def connect(
    target: str,
    *,
    credentials: Path | str | None,
    insecure_loopback: bool = False,
    timeout: float = 10.0,
    patience: float = 60.0,
    say: Callable[[str], None] | None = None,
) -> Barrier:
    """Connect to a curator.

    Args:
        target: HOST:PORT, or for a curator on this machine unix:/path, which is gRPC, or
            local:/path, which is gRPC for all but steps: those take a shorter way.
        credentials: The file that the steward handed over.
        insecure_loopback: Speak without TLS, for a curator that serves so on loopback.
        timeout: Seconds to wait for the connection.
        patience: Seconds to keep trying later, when the curator is unreachable.
        say: Told who is waited for, when connecting takes more than two seconds.

    Raises:
        CredentialsError: If the file cannot be read.
        CuratorUnreachable: If nothing answers.
    """
    known = None if credentials is None else load_credentials(Path(credentials))
    connection = Connection(target, known, insecure_loopback=insecure_loopback)
    try:
        connection.wait_until_ready(timeout, say=say)
    except BaseException:
        connection.close()
        raise
    return Barrier(connection, patience=patience)


@final
class Barrier:
    """A connected curator."""

    def __init__(self, connection: Connection, *, patience: float) -> None:
        """Take a connection.

        Args:
            connection: To the curator.
            patience: Seconds to keep trying when the curator is unreachable.
        """
        self._connection = connection
        self._patience = patience
        self._runs: WeakSet[Run] = WeakSet()  # those with a stream keep a thread

    def __repr__(self) -> str:
        """Name the curator."""
        state = ", closed" if self._connection.is_closed else ""
        return f"<Barrier {self._connection.target}{state}>"

    def __enter__(self) -> Self:
        """Return the barrier."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the connection."""
        self.close()

    def close(self) -> None:
        """Close the connection; open runs stay open and can be resumed."""
        for run in list(self._runs):
            run.hang_up()
        self._connection.close()

    def datasets(self) -> list[DatasetFacts]:
        """Return the data sets of this curator."""
        response = self._call("ListDatasets", dataset_pb2.ListDatasetsRequest())
        return [messages.dataset_facts(message) for message in response.datasets]

    def describe(self, dataset: str) -> DatasetFacts:
        """Return the public facts of a data set."""
        request = dataset_pb2.DescribeDatasetRequest(dataset=dataset)
        return messages.dataset_facts(self._call("DescribeDataset", request))

    def budget(self, dataset: str) -> Budget:
        """Return what is left of a data set."""
        request = budget_pb2.GetBudgetRequest(dataset=dataset)
        return messages.budget(self._call("GetBudget", request))

    def plan(
        self,
        dataset: str,
        mechanism: str,
        parameters: Mapping[str, Any],
        *,
        num_steps: int | None = None,
        epsilon: float | None = None,
    ) -> Plan:
        """Return what a run would cost; nothing is charged.

        Args:
            dataset: Its name.
            mechanism: Wire name.
            parameters: The mechanism's parameters.
            num_steps: Ask for the cost of this many steps.
            epsilon: Or for the steps that bring the data set to this epsilon; with neither, for
                the steps that the rest of the budget affords.

        Raises:
            TypeError: If an argument is of another type; nothing was sent.
            ValueError: If both `num_steps` and `epsilon` are given, or a number is out of range.
        """
        if num_steps is not None and epsilon is not None:
            msg = "give num_steps or epsilon, not both"
            raise ValueError(msg)
        choice = choice_of(mechanism, parameters)
        request = run_pb2.PlanRunRequest(dataset=text_of("dataset", dataset), choice=choice)
        if num_steps is not None:
            request.num_steps = num_steps_of(num_steps)
        if epsilon is not None:
            request.epsilon = epsilon
        return messages.plan(self._call("PlanRun", request))

    def plan_range(
        self,
        dataset: str,
        mechanism: str,
        parameters: Mapping[str, Any],
        question: PlanQuestion,
    ) -> Plan:
        """Return a plan with a table around it and with advice; nothing is charged.

        Args:
            dataset: Its name.
            mechanism: Wire name.
            parameters: The mechanism's parameters.
            question: Steps, an epsilon, or both to ask for the noise; which rows; and which runs
                are to be opened before.
        """
        choice = choice_of(mechanism, parameters)
        alone = not question.alone
        request = run_pb2.PlanRunRequest(
            dataset=text_of("dataset", dataset), choice=choice, without_alone=alone
        )
        num_steps, epsilon = question.num_steps, question.epsilon
        if num_steps is not None:
            num_steps = num_steps_of(num_steps)
        if num_steps is not None and epsilon is not None:
            request.noise.num_steps, request.noise.epsilon = num_steps, epsilon
            request.noise.share = question.share
        elif num_steps is not None:
            request.num_steps = num_steps
        elif epsilon is not None:
            request.epsilon = epsilon
        for one in question.before:
            chosen = choice_of(one.mechanism, one.parameters)
            request.before.add(choice=chosen, num_steps=num_steps_of(one.num_steps))
        request.table.axis = _AXES[question.over]
        request.table.points = question.points
        return messages.plan(self._call("PlanRun", request, seconds=_PLAN_SECONDS))

    def open_run(
        self,
        dataset: str,
        mechanism: str,
        parameters: Mapping[str, Any],
        *,
        num_steps: int,
        idempotency_key: str | None = None,
    ) -> Run:
        """Reserve the whole cost of a run and return it.

        Args:
            dataset: Its name.
            mechanism: Wire name.
            parameters: The mechanism's parameters, fixed for the run.
            num_steps: Declared steps.
            idempotency_key: 16 to 128 characters. The same key and arguments open the same run and
                pay once, also from another process; None for a new run.

        Raises:
            BudgetExhausted: If the budget cannot afford it; nothing was charged.
            TypeError: If an argument is of another type; nothing was sent.
            ValueError: If a number is out of range; nothing was sent.
        """
        request = run_pb2.OpenRunRequest(
            dataset=text_of("dataset", dataset),
            choice=choice_of(mechanism, parameters),
            num_steps=num_steps_of(num_steps),
            idempotency_key=text_of("idempotency_key", idempotency_key or secrets.token_hex(16)),
        )
        state = self._call("OpenRun", request, seconds=_SETUP_SECONDS)
        return self._run(state)

    def runs(self, *, open_only: bool = False) -> RunList:
        """Return your runs, open ones first, last opened first; everybody's for who sees them."""
        request = run_pb2.ListRunsRequest(open_only=open_only)
        return messages.run_list(self._call("ListRuns", request))

    def resume_run(self, run_id: str) -> Run:
        """Return a run at the step that the ledger says is next.

        Returns:
            The run; `is_open` says whether it still takes steps.
        """
        return self._run(self._call("ResumeRun", run_pb2.ResumeRunRequest(run_id=run_id)))

    def download_release(self, run_id: str) -> DownloadedRelease:
        """Return what a run of yours released when it opened; nothing is charged.

        Args:
            run_id: Which run; it may be closed.

        Raises:
            UnknownRun: If it is not yours.
            MalformedRequest: If nothing was released when it opened.
        """
        from analyst.client.codec import DownloadedRelease  # here: budgets need no torch

        request = release_pb2.DownloadReleaseRequest(run_id=run_id)
        return DownloadedRelease.of(self._call("DownloadRelease", request))

    def _run(self, state: run_pb2.RunState) -> Run:
        from analyst.client.run import Run  # here: budgets and plans need no torch

        run = Run(self._connection, state, self._patience)
        self._runs.add(run)
        return run

    def _call(self, method: str, request: object, seconds: float = _SECONDS) -> Any:
        bound = getattr(self._connection.stub, method)
        return self._connection.call(bound, request, seconds=seconds, patience=self._patience)
