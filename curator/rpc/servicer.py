"""The methods of `WeirService`: decode, call one use case, encode."""

from __future__ import annotations

from collections.abc import Iterator
from typing import final

import grpc

from curator.errors import CuratorError
from curator.ledger.ledger import RunState
from curator.rpc import codec
from curator.rpc.shield import caller_of
from curator.service.certificate import Signer, issue_certificate
from curator.service.close_run import close_run
from curator.service.context import Context
from curator.service.find_run import facts_of_run
from curator.service.open_run import RunRequest, open_run
from curator.service.plan_run import PlanRequest, plan_run
from curator.service.release_gradient import release_gradient
from curator.service.report import describe_dataset, list_datasets, report_budget
from curator.service.resume_run import resume_run
from protos.weir.v1 import budget_pb2, dataset_pb2, release_pb2, run_pb2, service_pb2_grpc

_ANSWER_SECONDS = 600.0


@final
class WeirServicer(service_pb2_grpc.WeirServiceServicer):
    """The barrier over gRPC; only `encode_answer` writes gradients, from a `Release`."""

    def __init__(self, context: Context, signer: Signer) -> None:
        """Take the collaborators of the use cases, and the key that signs certificates."""
        self._context = context
        self._signer = signer

    def ListDatasets(
        self, request: dataset_pb2.ListDatasetsRequest, context: grpc.ServicerContext
    ) -> dataset_pb2.ListDatasetsResponse:
        """Return the public facts of every data set."""
        del request, context
        maximum = self._context.max_samples
        facts = [codec.encode_facts(one, maximum) for one in list_datasets(self._context)]
        return dataset_pb2.ListDatasetsResponse(datasets=facts)

    def DescribeDataset(
        self, request: dataset_pb2.DescribeDatasetRequest, context: grpc.ServicerContext
    ) -> dataset_pb2.DatasetFacts:
        """Return the public facts of one data set."""
        del context
        facts = describe_dataset(self._context, request.dataset)
        return codec.encode_facts(facts, self._context.max_samples)

    def PlanRun(
        self, request: run_pb2.PlanRunRequest, context: grpc.ServicerContext
    ) -> run_pb2.Plan:
        """Return what a run would cost; charges nothing."""
        del context
        target = request.WhichOneof("target")
        plan = plan_run(
            self._context,
            PlanRequest(
                dataset=request.dataset,
                mechanism=request.choice.mechanism,
                parameters_json=request.choice.parameters,
                num_steps=request.num_steps if target == "num_steps" else None,
                epsilon=request.epsilon if target == "epsilon" else None,
            ),
        )
        return codec.encode_plan(plan)

    def OpenRun(
        self, request: run_pb2.OpenRunRequest, context: grpc.ServicerContext
    ) -> run_pb2.RunState:
        """Reserve a run's whole declared cost."""
        caller = caller_of(context)
        state = open_run(
            self._context,
            caller,
            RunRequest(
                dataset=request.dataset,
                mechanism=request.choice.mechanism,
                parameters_json=request.choice.parameters,
                num_steps=request.num_steps,
                idempotency_key=request.idempotency_key,
            ),
        )
        return self._run_state(*resume_run(self._context, caller, state.run_id))

    def ResumeRun(
        self, request: run_pb2.ResumeRunRequest, context: grpc.ServicerContext
    ) -> run_pb2.RunState:
        """Return where a run stands."""
        return self._run_state(*resume_run(self._context, caller_of(context), request.run_id))

    def Step(
        self, request: release_pb2.StepRequest, context: grpc.ServicerContext
    ) -> release_pb2.StepResponse:
        """Answer one step.

        Raises:
            CuratorError: If the answer takes longer than any deadline.
        """
        caller = caller_of(context)
        facts = facts_of_run(self._context, caller, request.run_id)
        step = codec.decode_step(request, facts, self._context.max_samples)
        answer = release_gradient(self._context, caller, step)
        try:
            return codec.encode_answer(request.run_id, answer.result(_ANSWER_SECONDS))
        except TimeoutError:
            raise CuratorError from None

    def StreamSteps(
        self,
        request_iterator: Iterator[release_pb2.StepRequest],
        context: grpc.ServicerContext,
    ) -> Iterator[release_pb2.StepResponse]:
        """Answer steps in the order in which they arrive."""
        for request in request_iterator:
            yield self.Step(request, context)

    def CloseRun(
        self, request: run_pb2.CloseRunRequest, context: grpc.ServicerContext
    ) -> run_pb2.RunState:
        """Close a run and return what it did not use."""
        state = close_run(self._context, caller_of(context), request.run_id)
        return self._run_state(state, state.used + 1)

    def GetBudget(
        self, request: budget_pb2.GetBudgetRequest, context: grpc.ServicerContext
    ) -> budget_pb2.BudgetStatement:
        """Return what is left of a data set."""
        del context
        return codec.encode_statement(report_budget(self._context, request.dataset))

    def _run_state(self, state: RunState, next_step: int) -> run_pb2.RunState:
        statement = report_budget(self._context, state.dataset)
        closed = not state.is_open
        certificate = issue_certificate(self._context, state, self._signer) if closed else ""
        return codec.encode_run(state, next_step, statement, certificate)
