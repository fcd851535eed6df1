"""The methods of `WeirService`: decode, call one use case, encode."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast, final

import grpc

from curator.errors import Unavailable
from curator.ledger.ledger import RunState
from curator.overview.certificate import Signer, issue_certificate
from curator.overview.queries import (
    list_datasets,
    list_runs,
    open_runs,
    policy_rules,
    report_budget,
    report_share,
)
from curator.planning.planner import Planner
from curator.privacy.facts import DatasetFacts
from curator.rpc import codec
from curator.rpc.codec import decode_plan_request, encode_plan, encode_runs
from curator.rpc.messages import AnyStep, StepWithRows
from curator.rpc.release_codec import encode_release
from curator.rpc.shield import caller_of
from curator.service.answer_step import prepare_step, release_gradient
from curator.service.end_runs import close_run
from curator.service.fair_turns import working_for
from curator.service.find_run import facts_of_run, resume_run
from curator.service.live_run import Answer
from curator.service.one_release import download_release
from curator.service.open_run import RunRequest, open_run
from curator.service.service import Service
from protos.weir.v1 import budget_pb2, dataset_pb2, release_pb2, run_pb2, service_pb2_grpc

_ANSWER_SECONDS = 600.0


@final
class WeirServicer(service_pb2_grpc.WeirServiceServicer):
    """The barrier over any wire; only `encode_answer` writes gradients, from a `Release`."""

    def __init__(self, service: Service, planner: Planner, signer: Signer) -> None:
        """Take what runs, what plans on the same ledger, and the key that signs certificates."""
        self._service = service
        self._runs = service.runs
        self._ledger = service.runs.ledger
        self._datasets = service.runs.datasets
        self._planner = planner
        self._signer = signer

    def ListDatasets(
        self, request: dataset_pb2.ListDatasetsRequest, context: grpc.ServicerContext
    ) -> dataset_pb2.ListDatasetsResponse:
        """Return the public facts of every data set."""
        del request, context
        facts = [self._facts(one) for one in list_datasets(self._ledger, self._datasets)]
        return dataset_pb2.ListDatasetsResponse(datasets=facts)

    def DescribeDataset(
        self, request: dataset_pb2.DescribeDatasetRequest, context: grpc.ServicerContext
    ) -> dataset_pb2.DatasetFacts:
        """Return the public facts of one data set."""
        del context
        return self._facts(self._datasets.facts(request.dataset))

    def PlanRun(
        self, request: run_pb2.PlanRunRequest, context: grpc.ServicerContext
    ) -> run_pb2.Plan:
        """Return what a run would cost; charges nothing."""
        asked = decode_plan_request(request)
        return encode_plan(self._planner.plan(caller_of(context), asked))

    def OpenRun(
        self, request: run_pb2.OpenRunRequest, context: grpc.ServicerContext
    ) -> run_pb2.RunState:
        """Reserve a run's whole declared cost."""
        caller = caller_of(context)
        state = open_run(
            self._service,
            caller,
            RunRequest(
                dataset=request.dataset,
                mechanism=request.choice.mechanism,
                parameters_json=request.choice.parameters,
                num_steps=request.num_steps,
                idempotency_key=request.idempotency_key,
            ),
        )
        with working_for(caller.name), self._service.desk.turn():
            return self._run_state(*resume_run(self._runs, caller, state.run_id))

    def ListRuns(
        self, request: run_pb2.ListRunsRequest, context: grpc.ServicerContext
    ) -> run_pb2.ListRunsResponse:
        """Return the caller's runs, or everybody's: open ones first, each kind the latest first."""
        caller = caller_of(context)
        if request.open_only:
            return encode_runs(reversed(open_runs(self._ledger, caller)))
        runs = list_runs(self._ledger, caller)
        left_out = max(0, runs.num_closed - len(runs.closed))
        return encode_runs([*reversed(runs.open), *runs.closed], left_out)

    def ResumeRun(
        self, request: run_pb2.ResumeRunRequest, context: grpc.ServicerContext
    ) -> run_pb2.RunState:
        """Return where a run stands."""
        return self._run_state(*resume_run(self._runs, caller_of(context), request.run_id))

    def Step(
        self, request: release_pb2.StepRequest, context: grpc.ServicerContext
    ) -> release_pb2.StepResponse:
        """Answer one step."""
        return codec.encode_answer(request.run_id, self._answered(request, None, context))

    def StreamSteps(
        self,
        request_iterator: Iterator[release_pb2.StepRequest],
        context: grpc.ServicerContext,
    ) -> Iterator[release_pb2.StepResponse]:
        """Answer steps in the order in which they arrive."""
        for run_id, answer in self.answers(request_iterator, context):
            message = codec.encode_answer(run_id, answer)
            del answer
            yield message
            message.Clear()  # gRPC and this loop hold it for as long as the stream is idle

    def answers(
        self, steps: Iterator[AnyStep], context: grpc.ServicerContext
    ) -> Iterator[tuple[str, Answer]]:
        """Answer steps in the order in which they arrive, over whichever wire.

        Yields:
            The run's id and the answer, which is to be sent before the next one is asked for.
        """
        for step in steps:
            if isinstance(step, StepWithRows):
                message, rows = step.message, step.rows
            else:
                message, rows = step, None
            run_id, answer = message.run_id, self._answered(message, rows, context)
            message.Clear()  # gRPC and this loop hold it for as long as the stream is idle
            del step, rows
            yield run_id, answer
            del answer
            prepare_step(self._service, run_id)

    def _answered(
        self,
        request: release_pb2.StepRequest,
        rows_beside: memoryview | None,
        context: grpc.ServicerContext,
    ) -> Answer:
        """Return the answer to one step.

        Raises:
            CuratorError: What the answer is instead of a gradient.
            Unavailable: If the answer takes longer than the call's deadline; it is still computed.
        """
        caller = caller_of(context)
        facts = facts_of_run(self._runs, caller, request.run_id)
        step = codec.decode_step(request, facts, self._service.limits.max_samples, rows_beside)
        answer = release_gradient(self._service, caller, step)
        try:
            problem = answer.exception(_seconds_left(context))
        except TimeoutError:
            raise Unavailable from None
        if problem is not None:
            again = type(problem)()  # the claim keeps its own, and would keep this call with it
            raise again
        return answer.result()

    def CloseRun(
        self, request: run_pb2.CloseRunRequest, context: grpc.ServicerContext
    ) -> run_pb2.RunState:
        """Close a run and return what it did not use."""
        state = close_run(self._runs, caller_of(context), request.run_id)
        return self._run_state(state, state.used + 1)

    def DownloadRelease(
        self, request: release_pb2.DownloadReleaseRequest, context: grpc.ServicerContext
    ) -> release_pb2.DownloadReleaseResponse:
        """Return the one release of a run; charges nothing."""
        caller = caller_of(context)
        return encode_release(*download_release(self._runs, caller, request.run_id))

    def GetBudget(
        self, request: budget_pb2.GetBudgetRequest, context: grpc.ServicerContext
    ) -> budget_pb2.BudgetStatement:
        """Return what is left of a data set."""
        statement = report_budget(self._ledger, self._datasets, request.dataset)
        share = report_share(self._ledger, caller_of(context), request.dataset)
        return codec.encode_statement(statement, share)

    def _facts(self, facts: DatasetFacts) -> dataset_pb2.DatasetFacts:
        rules = policy_rules(self._ledger, facts.name)
        most = self._service.limits.most_rows(facts.space.dimension)
        return codec.encode_facts(facts, most, rules)

    def _run_state(self, state: RunState, next_step: int) -> run_pb2.RunState:
        statement = report_budget(self._ledger, self._datasets, state.dataset)
        share = self._ledger.share(state.dataset, state.analyst)
        closed = not state.is_open
        certificate = issue_certificate(self._planner, state, self._signer) if closed else ""
        budget = codec.encode_statement(statement, share)
        return codec.encode_run(state, next_step, budget, certificate)


def _seconds_left(context: grpc.ServicerContext) -> float:
    """Return how long a call may hold its worker for an answer."""
    left = cast("float | None", context.time_remaining())  # None without a deadline
    return _ANSWER_SECONDS if left is None else min(left, _ANSWER_SECONDS)
